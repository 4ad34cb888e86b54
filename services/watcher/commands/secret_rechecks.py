"""Reads Secrets that are not followed again: the planner learns when one of the wrong type is created or deleted.

Run by :mod:`feed` as a task of its own, so that no change waits for it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime

from services.watcher.commands.last_sent import LastSent
from services.watcher.commands.pending_changes import Change, PendingChanges
from services.watcher.commands.references import Reference, References
from services.watcher.commands.secrets import SecretTypes

RECHECK_SECONDS = 60.0
RECHECKED_AT_ONCE = 100
"""How often, and for how many resources at a time."""


@dataclass(frozen=True, slots=True)
class SecretRechecks:
    """Queues resources whose Secret changed its type."""

    references: References
    types: SecretTypes
    last_sent: LastSent
    changes: PendingChanges
    seconds: float = RECHECK_SECONDS

    async def run(self) -> None:
        """For ever: queue resources whose Secret is no longer of the type that was sent."""
        while True:
            await asyncio.sleep(self.seconds)
            for reference in self.references.next(RECHECKED_AT_ONCE):
                if await self._is_outdated(reference):
                    self._tell_again(reference)

    async def _is_outdated(self, reference: Reference) -> bool:
        """A Secret that is followed needs no asking: the planner learns of it, and of its end."""
        if self.types.is_followed(reference.namespace, reference.secret):
            return False
        return await self.types.type_of(reference.namespace, reference.secret) != reference.told

    def _tell_again(self, reference: Reference) -> None:
        """The resource is as it was; it is read again when its turn comes."""
        uid, state = reference.uid, self.last_sent.state_of(reference.uid)
        if state is not None and uid not in self.changes:
            self.changes.add_change(Change(uid, reference.namespace, reference.name, state, datetime.now(UTC)))
            self.references.forget(uid)  # until it is sent: what is on its way is not told a second time
