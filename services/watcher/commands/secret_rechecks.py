"""Sends custom resources again when the Secret that they name has changed.

:mod:`command_sender` notes which resources name a Secret, and which type and version of it the planner knows. Every
change of a followed Secret is seen; a binding is valid for one version of it, so the resource is sent with a new one.
Other Secrets are not followed: :mod:`unfollowed_secrets` reports most of their changes at once. In addition, a task of
:mod:`follow_session` reads them again from time to time, and delays no change.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime

from services.common.kubernetes import Changed, Deleted, Reflection, Seen, namespace_and_name
from services.common.queueing import Place, WorkQueue
from services.kinds.shared.incarnation import version_order
from services.watcher.commands.pending_changes import Change, PendingChanges
from services.watcher.commands.secrets import SecretTypes
from services.watcher.commands.translation import LastSent

RECHECK_SECONDS = 60.0
RECHECKED_AT_ONCE = 100
"""How often, and how many resources at a time."""


@dataclass(frozen=True, slots=True)
class SecretReference:
    """A resource, and the Secret that it names."""

    uid: str
    namespace: str
    name: str
    secret: str
    sent_type: str
    """Type of the Secret in the newest command, "" for none."""
    version: str = ""
    """resourceVersion of the Secret then, empty if it is not followed and its content matters to nobody."""


@dataclass(slots=True)
class References:
    """What commands have said of Secrets since the last list began."""

    _by_uid: dict[str, SecretReference] = field(default_factory=dict)
    _by_secret: dict[tuple[str, str], dict[str, None]] = field(default_factory=dict)
    _queue: WorkQueue[str] = field(default_factory=WorkQueue)

    def __len__(self) -> int:
        return len(self._by_uid)

    def note_reference(self, reference: SecretReference) -> None:
        """Record what a command said."""
        self._forget(reference.uid)
        self._by_uid[reference.uid] = reference
        self._by_secret.setdefault((reference.namespace, reference.secret), {})[reference.uid] = None
        self._queue.add_key(reference.uid, Place(reference.namespace))

    def forget_resource(self, uid: str) -> None:
        """The resource is gone, or names no Secret any more."""
        self._forget(uid)
        self._queue.remove_key(uid)

    def references_to(self, namespace: str, secret: str) -> list[SecretReference]:
        """All resources that name this Secret."""
        return [self._by_uid[uid] for uid in self._by_secret.get((namespace, secret), ())]

    def next_references(self, count: int) -> list[SecretReference]:
        """The next references to check, at most ``count``: namespaces in turn, each resource once in a round."""
        due = [self._by_uid[uid] for _ in range(count) if (uid := self._queue.pop_key(0.0)) is not None]
        for reference in due:
            self._queue.add_key(reference.uid, Place(reference.namespace))
        return due

    def clear(self) -> None:
        """Forget everything: a new list begins, and all resources are sent again."""
        self._by_uid.clear()
        self._by_secret.clear()
        self._queue.clear()

    def _forget(self, uid: str) -> None:
        if (known := self._by_uid.pop(uid, None)) is None:
            return
        place = (known.namespace, known.secret)
        self._by_secret[place].pop(uid)
        if not self._by_secret[place]:
            del self._by_secret[place]


@dataclass(frozen=True, slots=True)
class SecretRechecks:
    """Queues resources whose Secret has changed."""

    references: References
    types: SecretTypes
    last_sent: LastSent
    changes: PendingChanges
    seconds: float = RECHECK_SECONDS

    async def run(self) -> None:
        """Queue resources whose Secret no longer has the type that was sent; for ever."""
        while True:
            await asyncio.sleep(self.seconds)
            for reference in self.references.next_references(RECHECKED_AT_ONCE):
                if await self._is_outdated(reference):
                    self._queue_again(reference)

    def note_reference(self, reference: SecretReference) -> None:
        """Record what a command says. The Secret may have changed since it was read."""
        self.references.note_reference(reference)
        newest = self.types.version_of(reference.namespace, reference.secret)
        if version_order(newest) > version_order(reference.version):
            self._queue_again(reference)

    def observe_secret(self, event: Reflection) -> None:
        """Process an event of a followed Secret."""
        match event:
            case Seen(manifest) | Changed(manifest):
                version = manifest["metadata"]["resourceVersion"]
            case Deleted(manifest):
                version = ""
            case _:
                return
        for reference in self.references.references_to(*namespace_and_name(manifest)):
            if reference.version != version:
                self._queue_again(reference)

    def observe_unfollowed(self, event: Changed | Deleted) -> None:
        """Process an event of a Secret that is not followed."""
        gone, version = isinstance(event, Deleted), event.object["metadata"]["resourceVersion"]
        for reference in self.references.references_to(*namespace_and_name(event.object)):
            if gone == bool(reference.sent_type) or (not gone and reference.version not in {"", version}):
                self._queue_again(reference)

    async def _is_outdated(self, reference: SecretReference) -> bool:
        """Whether the Secret differs from what was sent.

        A followed Secret needs no check: the planner learns of its changes.
        """
        if self.types.is_followed(reference.namespace, reference.secret):
            return False
        found = await self.types.state_of(reference.namespace, reference.secret)
        if found is None:
            return bool(reference.sent_type)
        return found.version != reference.version if reference.version else found.type != reference.sent_type

    def _queue_again(self, reference: SecretReference) -> None:
        """Queue the resource, which is unchanged itself. It is read again when its turn comes."""
        uid, state = reference.uid, self.last_sent.get(reference.uid)
        if state is not None and uid not in self.changes:
            self.changes.add_change(Change(uid, reference.namespace, reference.name, state, datetime.now(UTC)))
            self.references.forget_resource(uid)  # until it is sent: it is not queued a second time
