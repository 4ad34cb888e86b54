"""Whose turn it is: each owner gives one item at a time, however many it has. Pure.

Used on both ways: :mod:`waiting` for changes by tenant, :mod:`backlog` for statuses by namespace; and by
:mod:`references`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

ItemT = TypeVar("ItemT", bound=Hashable)


class Turns(Generic[ItemT]):
    """Items in the order of their owners' turns, and of one owner in the order they were added."""

    def __init__(self) -> None:
        self._items: dict[str, OrderedDict[ItemT, None]] = {}
        self._order: OrderedDict[str, None] = OrderedDict()
        self._resting: set[str] = set()

    def __contains__(self, owner: str) -> bool:
        return owner in self._items

    def add(self, owner: str, item: ItemT) -> None:
        """Let ``item`` wait behind the others of ``owner``; one that waits already stays where it is."""
        if owner not in self._items:
            self._items[owner] = OrderedDict()
            if owner not in self._resting:
                self._order[owner] = None
        self._items[owner].setdefault(item)

    def drop(self, owner: str, item: ItemT) -> None:
        """``item`` need not wait any more."""
        items = self._items.get(owner, OrderedDict())
        items.pop(item, None)
        if not items:
            self._items.pop(owner, None)
            self._order.pop(owner, None)

    def owner(self) -> str | None:
        """Whose turn it is; None if nobody waits who may."""
        return next(iter(self._order), None)

    def next_item(self) -> ItemT:
        """The item that :meth:`take` would give. Somebody must be in turn."""
        return next(iter(self._items[next(iter(self._order))]))

    def take(self) -> ItemT:
        """The next item of the owner whose turn it is; with more to give that owner is last in turn now."""
        owner, _ = self._order.popitem(last=False)
        items = self._items[owner]
        item, _ = items.popitem(last=False)
        if items:
            self._order[owner] = None
        else:
            del self._items[owner]
        return item

    def rest(self) -> None:
        """Pass over the owner whose turn it is, until :meth:`resume`."""
        owner, _ = self._order.popitem(last=False)
        self._resting.add(owner)

    def resume(self, owner: str) -> None:
        """It has its turns again."""
        self._resting.discard(owner)
        if owner in self._items:
            self._order[owner] = None

    def clear(self) -> None:
        """Nothing waits any more. Who rests goes on resting."""
        self._items.clear()
        self._order.clear()
