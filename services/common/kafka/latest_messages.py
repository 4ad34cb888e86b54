"""The newest message of each key that waits, and the one that is worked on: older ones need not be worked on any more.

A newer message of a key has a greater offset in the same partition. So one that waits is acknowledged as soon as a
newer one takes its place: that one is not acknowledged yet, so after a crash it is sent again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from typing import Generic, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)
MessageT = TypeVar("MessageT")


class LatestMessages(Generic[KeyT, MessageT]):
    """Every message added is acknowledged once, unless it is dropped or withdrawn. Messages are told apart by identity.

    What is done with a message that was superseded or dropped meanwhile changes nothing.
    """

    def __init__(self, acknowledge: Callable[[MessageT], None]) -> None:
        self._acknowledge = acknowledge
        self._waiting: dict[KeyT, MessageT] = {}
        self._in_progress: dict[KeyT, MessageT] = {}

    def __len__(self) -> int:
        """How many messages wait."""
        return len(self._waiting)

    def __contains__(self, key: KeyT) -> bool:
        """Whether a message of ``key`` is not acknowledged."""
        return key in self._waiting or key in self._in_progress

    @property
    def in_progress(self) -> Collection[MessageT]:
        """The messages that are worked on."""
        return self._in_progress.values()

    def waiting_message(self, key: KeyT) -> MessageT | None:
        """The newest message of ``key``, unless it is worked on or done."""
        return self._waiting.get(key)

    def add_message(self, key: KeyT, message: MessageT) -> None:
        """``message`` waits, in place of an older one of ``key``."""
        self._supersede(self._waiting, key, message)

    def start_message(self, key: KeyT) -> MessageT | None:
        """The message of ``key`` that waits: work on it begins, in place of work on an older one."""
        message = self._waiting.pop(key, None)
        if message is not None:
            self._supersede(self._in_progress, key, message)
        return message

    def acknowledge_message(self, key: KeyT, message: MessageT) -> None:
        """Work on ``message`` is done."""
        if self.withdraw_message(key, message):
            self._acknowledge(message)

    def retry_message(self, key: KeyT, message: MessageT) -> None:
        """Work on ``message`` has failed: it waits again, unless a newer one does."""
        if self.withdraw_message(key, message) and self._waiting.setdefault(key, message) is not message:
            self._acknowledge(message)

    def withdraw_message(self, key: KeyT, message: MessageT) -> bool:
        """Leave it to the caller to acknowledge ``message``; False if it was not in progress."""
        if self._in_progress.get(key) is not message:
            return False
        del self._in_progress[key]
        return True

    def acknowledge_key(self, key: KeyT) -> None:
        """Nothing has to be done about ``key`` any more."""
        for messages in (self._in_progress, self._waiting):
            if key in messages:
                self._acknowledge(messages.pop(key))

    def drop_waiting(self, is_dropped: Callable[[MessageT], bool]) -> list[KeyT]:
        """Forget these, not acknowledged: their partition's next owner is sent them again. Returns their keys."""
        dropped = [key for key, message in self._waiting.items() if is_dropped(message)]
        for key in dropped:
            del self._waiting[key]
        return dropped

    def clear(self) -> None:
        """Forget all, not acknowledged."""
        self._waiting.clear()
        self._in_progress.clear()

    def _supersede(self, messages: dict[KeyT, MessageT], key: KeyT, message: MessageT) -> None:
        older = messages.get(key)
        messages[key] = message
        if older is not None:
            self._acknowledge(older)
