"""Lines of work that waits, one for each tenant: a bounded number of each is under way, what waits is only named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from services.agent.objects import ObjectKey


@dataclass(slots=True)
class _Line:
    waiting: dict[ObjectKey, Callable[[], None]] = field(default_factory=dict)
    under_way: int = 0


class WaitingLines:
    """At most ``each`` of one line under way."""

    def __init__(self, each: int) -> None:
        self._each = each
        self._lines: dict[str, _Line] = {}

    def enter(self, name: str, key: ObjectKey, begin: Callable[[], None]) -> None:
        """Call ``begin`` when the turn of ``key`` has come; whoever has begun leaves when it has ended."""
        self._lines.setdefault(name, _Line()).waiting[key] = begin
        self._advance(name)

    def withdraw(self, name: str, key: ObjectKey) -> None:
        """``key`` waits no longer; nothing, if it does not."""
        line = self._lines.get(name)
        if line is not None:
            line.waiting.pop(key, None)
            self._advance(name)

    def leave(self, name: str) -> None:
        """One of those under way has ended."""
        self._lines[name].under_way -= 1
        self._advance(name)

    def _advance(self, name: str) -> None:
        line = self._lines[name]
        while line.waiting and line.under_way < self._each:
            key = next(iter(line.waiting))
            begin = line.waiting.pop(key)
            line.under_way += 1
            begin()
        if not line.waiting and not line.under_way:
            del self._lines[name]
