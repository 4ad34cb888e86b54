"""Custom resources that name a Secret, and its type as the planner knows it. Pure; kept by :mod:`command_sender`.

Secrets of other types than ours are not followed; :mod:`secret_rechecks` reads them again from time to time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from services.common.queueing import Place, WorkQueue


@dataclass(frozen=True, slots=True)
class Reference:
    """A resource and the Secret it names."""

    uid: str
    namespace: str
    name: str
    secret: str
    told: str
    """Type of the Secret as the planner knows it, "" for none."""


@dataclass(slots=True)
class References:
    """What commands said since the last list."""

    _by_uid: dict[str, Reference] = field(default_factory=dict)
    _queue: WorkQueue[str] = field(default_factory=WorkQueue)

    def __len__(self) -> int:
        return len(self._by_uid)

    def note(self, reference: Reference) -> None:
        """Record what a command said."""
        self._by_uid[reference.uid] = reference
        self._queue.add_key(reference.uid, Place(reference.namespace))

    def forget(self, uid: str) -> None:
        """The resource is gone, or names no Secret any more."""
        self._by_uid.pop(uid, None)
        self._queue.remove_key(uid)

    def next(self, count: int) -> list[Reference]:
        """Those whose turn it is, at most ``count``: namespaces in turn, each resource once in a round."""
        due = [self._by_uid[uid] for _ in range(count) if (uid := self._queue.pop_key(0.0)) is not None]
        for reference in due:
            self._queue.add_key(reference.uid, Place(reference.namespace))
        return due

    def clear(self) -> None:
        """A new list begins; all will be told again."""
        self._by_uid.clear()
        self._queue.clear()
