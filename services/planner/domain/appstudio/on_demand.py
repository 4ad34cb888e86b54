"""A mapping whose values are computed when they are asked for. A promotion run asks for a few of many."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Generic, TypeVar, overload

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")
DefaultT = TypeVar("DefaultT")


class OnDemand(Generic[KeyT, ValueT]):
    """The values that ``make`` returns; None: the key is missing.

    It is no Mapping, because to iterate one would compute all values.
    """

    def __init__(self, make: Callable[[KeyT], ValueT | None]) -> None:
        self._made = cache(make)

    __iter__ = None
    """Otherwise Python would iterate it by ``__getitem__`` with numbers."""

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
        """The value of a key; ``default`` if it is missing."""
        made: ValueT | None = self._made(key)
        return default if made is None else made
