"""The newest waiting message of each key, and the one in progress. Older messages need no work any more.

A newer message of a key has a greater offset in the same partition. So a waiting message is acknowledged as soon as a
newer one replaces it: the newer one is not acknowledged yet, so it comes again after a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from typing import Generic, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)
MessageT = TypeVar("MessageT")


class LatestMessages(Generic[KeyT, MessageT]):
    """Acknowledges every added message once, unless it is dropped or withdrawn.

    Messages are distinguished by identity. Calls about a message that was superseded or dropped have no effect.
    """

    def __init__(self, acknowledge: Callable[[MessageT], None]) -> None:
        self._acknowledge = acknowledge
        self._waiting: dict[KeyT, MessageT] = {}
        self._in_progress: dict[KeyT, MessageT] = {}

    def __len__(self) -> int:
        """Number of waiting messages."""
        return len(self._waiting)

    def __contains__(self, key: KeyT) -> bool:
        """Whether a message of ``key`` is not acknowledged."""
        return key in self._waiting or key in self._in_progress

    @property
    def in_progress(self) -> Collection[MessageT]:
        """The messages in progress."""
        return self._in_progress.values()

    def waiting_message(self, key: KeyT) -> MessageT | None:
        """The waiting message of ``key``, None if there is none."""
        return self._waiting.get(key)

    def add_message(self, key: KeyT, message: MessageT) -> None:
        """Let ``message`` wait, in place of an older one of ``key``."""
        self._supersede(self._waiting, key, message)

    def start_message(self, key: KeyT) -> MessageT | None:
        """Start work on the waiting message of ``key``, in place of work on an older one."""
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
        """Leave the acknowledgement of ``message`` to the caller; False if it was not in progress."""
        if self._in_progress.get(key) is not message:
            return False
        del self._in_progress[key]
        return True

    def acknowledge_key(self, key: KeyT) -> None:
        """Acknowledge all messages of ``key``: nothing has to be done about it any more."""
        for messages in (self._in_progress, self._waiting):
            if key in messages:
                self._acknowledge(messages.pop(key))

    def drop_waiting(self, is_dropped: Callable[[MessageT], bool]) -> list[KeyT]:
        """Drop these waiting messages without acknowledging them: the next owner gets them again.

        Returns their keys.
        """
        dropped = [key for key, message in self._waiting.items() if is_dropped(message)]
        for key in dropped:
            del self._waiting[key]
        return dropped

    def clear(self) -> None:
        """Drop all messages without acknowledging them."""
        self._waiting.clear()
        self._in_progress.clear()

    def _supersede(self, messages: dict[KeyT, MessageT], key: KeyT, message: MessageT) -> None:
        older = messages.get(key)
        messages[key] = message
        if older is not None:
            self._acknowledge(older)
