"""The state of each object that was last sent, to tell changes of users from our own status writes."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from services.common.kubernetes import Manifest
from services.watcher.commands.translation import finalizers, is_deleting

Fingerprint = Hashable
"""All of an object that can change what the planner decides."""
TakeFingerprint = Callable[[Manifest], Fingerprint]


def fingerprint(manifest: Manifest) -> Fingerprint:
    """Of an object whose generation stands for its spec."""
    meta = manifest["metadata"]
    return (meta.get("generation", 0), is_deleting(meta), finalizers(meta))


class LastSent:
    """What was last sent, by uid. Holds nothing of objects that are gone."""

    def __init__(self) -> None:
        self._sent: dict[str, Fingerprint] = {}

    def __len__(self) -> int:
        return len(self._sent)

    def __contains__(self, uid: str) -> bool:
        """Whether the planner was told of it since the last list."""
        return uid in self._sent

    def is_echo(self, uid: str, state: Fingerprint) -> bool:
        """Whether the planner has been told all that matters of this state."""
        return uid in self._sent and self._sent[uid] == state

    def state_of(self, uid: str) -> Fingerprint | None:
        """The state last sent, None if it was not told of since the last list."""
        return self._sent.get(uid)

    def note_state(self, uid: str, state: Fingerprint) -> None:
        """A command about this state is on its way."""
        self._sent[uid] = state

    def forget_object(self, uid: str) -> None:
        """The object is gone."""
        self._sent.pop(uid, None)

    def clear(self) -> None:
        """A new list begins; it will tell what exists."""
        self._sent.clear()
