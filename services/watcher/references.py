"""Custom resources that name a Secret, and what the planner was told of its type. Pure; kept by :mod:`dispatch`.

Secrets of other types than ours are not followed, so whether there is one is only learnt by asking. Who was told of a
Secret that we do not follow is asked for again from time to time, by :mod:`revisits`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from services.watcher.turns import Turns


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
    """What was told since the last list."""

    _by_uid: dict[str, Reference] = field(default_factory=dict)
    _turns: Turns[str] = field(default_factory=Turns)

    def __len__(self) -> int:
        return len(self._by_uid)

    def note(self, reference: Reference) -> None:
        """So much was told."""
        self._by_uid[reference.uid] = reference
        self._turns.add(reference.namespace, reference.uid)

    def forget(self, uid: str) -> None:
        """The resource is gone, or names no Secret any more."""
        reference = self._by_uid.pop(uid, None)
        if reference is not None:
            self._turns.drop(reference.namespace, uid)

    def next(self, count: int) -> list[Reference]:
        """Those whose turn it is, at most ``count``: namespaces in turn, each resource once in a round."""
        due = [self._by_uid[self._turns.take()] for _ in range(min(count, len(self._by_uid)))]
        for reference in due:
            self._turns.add(reference.namespace, reference.uid)
        return due

    def clear(self) -> None:
        """A new list begins; all will be told again."""
        self._by_uid.clear()
        self._turns.clear()
