"""Secrets that are not followed are asked for again: the planner learns when one of the wrong type comes or goes.

Run by :mod:`feed`, beside its sender: however many are to be asked for, nobody's changes wait.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime

from services.watcher.echoes import Echoes
from services.watcher.references import Reference, References
from services.watcher.secrets import SecretTypes
from services.watcher.waiting import Change, Waiting

REVISIT_SECONDS = 60.0
REVISITED = 100
"""How often, and for how many resources at a time."""


@dataclass(frozen=True, slots=True)
class Revisits:
    """Puts into ``waiting`` what has to be told again."""

    references: References
    types: SecretTypes
    echoes: Echoes
    waiting: Waiting
    seconds: float = REVISIT_SECONDS

    async def run(self) -> None:
        """For ever: tell again of resources whose Secret is no longer what was told of it."""
        while True:
            await asyncio.sleep(self.seconds)
            for reference in self.references.next(REVISITED):
                if await self._is_outdated(reference):
                    self._tell_again(reference)

    async def _is_outdated(self, reference: Reference) -> bool:
        """A Secret that is followed needs no asking: the planner learns of it, and of its end."""
        if self.types.is_followed(reference.namespace, reference.secret):
            return False
        return await self.types.type_of(reference.namespace, reference.secret) != reference.told

    def _tell_again(self, reference: Reference) -> None:
        """The resource is as it was; it is read again when its turn comes."""
        uid, state = reference.uid, self.echoes.state(reference.uid)
        if state is not None and uid not in self.waiting:
            self.waiting.add(Change(uid, reference.namespace, reference.name, state, datetime.now(UTC)))
