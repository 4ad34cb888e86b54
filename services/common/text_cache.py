"""Caches values parsed from texts that tenants wrote, within one number of bytes for the process.

Tenants decide how many texts there are, how long they are, and how often they change. A parsed text may be thirty times
as large as the text. So the cache is bounded by its size, not by the number of entries. A tenant that fills it only
causes a few texts of others to be parsed again.
"""

from __future__ import annotations

import gc
import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import wraps
from hashlib import blake2b
from types import FunctionType
from typing import Any, NamedTuple, TypeVar, TypeVarTuple

Arguments = TypeVarTuple("Arguments")
ValueT = TypeVar("ValueT")

OVERHEAD = 300
"""Bytes of an entry besides its value: its key, and its place in the cache."""
LONG = 4096
"""From so many characters on, a key has the digest of a text instead."""
LIMIT = 64 * 1024 * 1024
"""In bytes. A planner has 1 GiB in all, and half as much again as this for its tenants."""


class _Entry(NamedTuple):
    value: Any
    size: int


class TextCache:
    """Drops the least recently used entries when all are larger than ``limit`` bytes. For one thread."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self.size = 0

    def __len__(self) -> int:
        """Number of entries."""
        return len(self._entries)

    def remember(self, make: Callable[[*Arguments], ValueT]) -> Callable[[*Arguments], ValueT]:
        """Caches ``make``: it is called again only after its value was dropped.

        ``make`` has no effects, and its values are never changed. Exceptions are not cached.
        """

        @wraps(make)
        def remembering(*arguments: *Arguments) -> ValueT:
            key = (make, *map(_shortened, arguments))
            known = self._entries.pop(key, None)
            if known is not None:
                self._entries[key] = known
                remembered: ValueT = known.value
                return remembered
            made = make(*arguments)
            self._keep(key, _Entry(made, OVERHEAD + size_of((key, made))))
            return made

        return remembering

    def _keep(self, key: Hashable, entry: _Entry) -> None:
        if entry.size > self._limit:
            return
        self._entries[key] = entry
        self.size += entry.size
        while self.size > self._limit:
            _, oldest = self._entries.popitem(last=False)
            self.size -= oldest.size


def _shortened(argument: Any) -> Any:
    """The argument as a key has it: a digest in place of a long text."""
    if isinstance(argument, str) and len(argument) > LONG:
        return len(argument), blake2b(argument.encode(errors="surrogatepass"), digest_size=32).digest()
    return argument


def size_of(value: Any) -> int:
    """Bytes of ``value`` and everything that it refers to, except code."""
    seen, size = set[int](), 0
    pending: list[Any] = [value]
    while pending:
        each = pending.pop()
        if id(each) not in seen and not isinstance(each, type | FunctionType):
            seen.add(id(each))
            size += sys.getsizeof(each)
            pending += gc.get_referents(each)
    return size


TEXTS = TextCache(LIMIT)
"""The cache of this process."""
