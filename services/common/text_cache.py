"""What was made of texts that tenants wrote: kept for the next plan, within one number of bytes for the whole process.

How many texts there are, how long each is and how often it changes is up to tenants, and a parsed text may be thirty
times as large as the text. So a cache of these is bounded by what it holds, not by how many: a tenant that fills it
makes others wait for a few texts to be read again, and nothing worse.
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
"""Bytes of an entry besides what it holds: its key, and its place among the others."""
LONG = 4096
"""Characters of a text of which a key has a digest instead."""
LIMIT = 64 * 1024 * 1024
"""Bytes: a planner has 1 GiB for everything, and half as much again as this for its tenants."""


class _Entry(NamedTuple):
    value: Any
    size: int


class TextCache:
    """The least recently used are dropped once all of them are larger than ``limit`` bytes. For one thread."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self.size = 0

    def __len__(self) -> int:
        """How many texts something was made of."""
        return len(self._entries)

    def remember(self, make: Callable[[*Arguments], ValueT]) -> Callable[[*Arguments], ValueT]:
        """``make``, which is called once with the same arguments while there is room for what it returns.

        It has no effects. What it returns is never changed; what it raises is not kept.
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
    """What stands for it in a key: of a long text that has been read, nothing is to be kept but what was made of it."""
    if isinstance(argument, str) and len(argument) > LONG:
        return len(argument), blake2b(argument.encode(errors="surrogatepass"), digest_size=32).digest()
    return argument


def size_of(value: Any) -> int:
    """Bytes of ``value`` with all that it refers to, but for code."""
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
"""That of this process."""
