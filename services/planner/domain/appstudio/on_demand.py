"""Values by key of which each is made once it is asked for: a promotion run asks for a few of many."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Generic, TypeVar, overload

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")
DefaultT = TypeVar("DefaultT")


class OnDemand(Generic[KeyT, ValueT]):
    """What ``make`` makes of each key; None: it counts as one that is missing.

    No mapping: one can be iterated, and that would make all values.
    """

    def __init__(self, make: Callable[[KeyT], ValueT | None]) -> None:
        self._made = cache(make)

    __iter__ = None
    """Else Python would iterate it by ``__getitem__`` with numbers."""

    def __getitem__(self, key: KeyT) -> ValueT:
        made: ValueT | None = self._made(key)
        if made is None:
            raise KeyError(key)
        return made

    def __contains__(self, key: object) -> bool:
        return self._made(key) is not None

    @overload
    def get(self, key: KeyT) -> ValueT | None: ...
    @overload
    def get(self, key: KeyT, default: DefaultT) -> ValueT | DefaultT: ...
    def get(self, key: KeyT, default: DefaultT | None = None) -> ValueT | DefaultT | None:
        """The value of a key; ``default``: it has none."""
        made: ValueT | None = self._made(key)
        return default if made is None else made
