"""Rows by key that are never changed, only replaced. What is derived from them is updated with each replacement.

A tenant may have thousands of rows, and most changes concern one of them. So a table keeps two things: views, such as a
sum or an index, which are computed once and then updated at the cost of the change; and the keys by which it differs
from the table that it began as, so that nobody has to compare all rows to find the few that differ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, Generic, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)
RowT = TypeVar("RowT")
ValueT = TypeVar("ValueT")
GroupT = TypeVar("GroupT", bound=Hashable)

Difference = tuple[Any, Any, Any]
"""A key, the row before and the row now; None: there is none."""

NO_ROWS: Mapping[Any, Any] = MappingProxyType({})


class Index(ABC, Generic[RowT, ValueT]):
    """A value derived from all rows of a table. It is never changed, and stays the same object while it is equal."""

    @cached_property
    def of_nothing(self) -> ValueT:
        """The value of a table without rows."""
        return self.of(NO_ROWS)

    @abstractmethod
    def of(self, rows: Mapping[Any, RowT]) -> ValueT:
        """The value of these rows, computed from all of them."""

    @abstractmethod
    def after(self, value: ValueT, differences: Iterable[Difference]) -> ValueT:
        """The value after these differences, computed from ``value``."""


class Totals(Index[RowT, tuple[int, ...]]):
    """Sums over all rows."""

    def __init__(self, measure: Callable[[RowT], tuple[int, ...]]) -> None:
        self._measure = measure

    def of(self, rows: Mapping[Any, RowT]) -> tuple[int, ...]:
        """The sums; empty if there are no rows."""
        return tuple(map(sum, zip(*map(self._measure, rows.values()), strict=True)))

    def after(self, value: tuple[int, ...], differences: Iterable[Difference]) -> tuple[int, ...]:
        """The sums after these differences."""
        for _, old, new in differences:
            value = self._added(self._added(value, old, -1), new, 1)
        return value

    def _added(self, value: tuple[int, ...], row: RowT | None, sign: int) -> tuple[int, ...]:
        if row is None:
            return value
        parts = self._measure(row)
        return tuple(each + sign * part for each, part in zip(value or (0,) * len(parts), parts, strict=True))


class Groups(Index[RowT, Mapping[GroupT, Mapping[Any, RowT]]]):
    """The rows of each group by key. ``group_of`` returns the group of a row; None: it is in none."""

    def __init__(self, group_of: Callable[[RowT], GroupT | None]) -> None:
        self._group_of = group_of

    def of(self, rows: Mapping[Any, RowT]) -> Mapping[GroupT, Mapping[Any, RowT]]:
        """The groups that have rows."""
        found: dict[GroupT, dict[Any, RowT]] = {}
        for key, row in rows.items():
            if (group := self._group_of(row)) is not None:
                found.setdefault(group, {})[key] = row
        return found

    def after(
        self, value: Mapping[GroupT, Mapping[Any, RowT]], differences: Iterable[Difference]
    ) -> Mapping[GroupT, Mapping[Any, RowT]]:
        """The groups after these differences. A group without a difference stays the same object."""
        made: dict[GroupT, dict[Any, RowT]] = {}
        for key, old, new in differences:
            left = self._group_of(old) if old is not None else None
            entered = self._group_of(new) if new is not None else None
            for group in {left, entered} - {None}:
                if group not in made:
                    made[group] = dict(value.get(group, {}))  # type: ignore[arg-type, index]
            if left is not None and left != entered:
                made[left].pop(key)
            if entered is not None:
                made[entered][key] = new
        return {name: rows for name, rows in {**value, **made}.items() if rows} if made else value


class Subset(Index[RowT, Mapping[Any, RowT]]):
    """The rows for which ``is_in`` holds, by key."""

    def __init__(self, is_in: Callable[[RowT], bool]) -> None:
        self._is_in = is_in

    def of(self, rows: Mapping[Any, RowT]) -> Mapping[Any, RowT]:
        """The rows for which ``is_in`` holds."""
        return {key: row for key, row in rows.items() if self._is_in(row)}

    def after(self, value: Mapping[Any, RowT], differences: Iterable[Difference]) -> Mapping[Any, RowT]:
        """The rows after these differences; the same object if none of its rows differs."""
        made: dict[Any, RowT] | None = None
        for key, old, new in differences:
            left = old is not None and self._is_in(old)
            entered = new is not None and self._is_in(new)
            if left or entered:
                made = made if made is not None else dict(value)
                if entered:
                    made[key] = new
                else:
                    del made[key]
        return value if made is None else made


class Counts(Index[RowT, Mapping[GroupT, int]]):
    """How many rows each group has."""

    def __init__(self, group_of: Callable[[RowT], GroupT | None]) -> None:
        self._group_of = group_of

    def of(self, rows: Mapping[Any, RowT]) -> Mapping[GroupT, int]:
        """The counts of groups that have rows."""
        found: dict[GroupT, int] = {}
        for row in rows.values():
            if (group := self._group_of(row)) is not None:
                found[group] = found.get(group, 0) + 1
        return found

    def after(self, value: Mapping[GroupT, int], differences: Iterable[Difference]) -> Mapping[GroupT, int]:
        """The counts after these differences; the same object if no row changes its group."""
        made: dict[GroupT, int] = {}
        for _, old, new in differences:
            left = self._group_of(old) if old is not None else None
            entered = self._group_of(new) if new is not None else None
            if left == entered:
                continue
            made = made or dict(value)
            if left is not None:
                made[left] -= 1
            if entered is not None:
                made[entered] = made.get(entered, 0) + 1
        return {group: count for group, count in made.items() if count} if made else value


class Derived(Index[RowT, Mapping[Any, ValueT]]):
    """A value derived from each row alone, by key. Rows for which ``derive`` returns None have none."""

    def __init__(self, derive: Callable[[RowT], ValueT | None]) -> None:
        self._derive = derive

    def of(self, rows: Mapping[Any, RowT]) -> Mapping[Any, ValueT]:
        """The values of rows that have one."""
        return {key: value for key, row in rows.items() if (value := self._derive(row)) is not None}

    def after(self, value: Mapping[Any, ValueT], differences: Iterable[Difference]) -> Mapping[Any, ValueT]:
        """The values after these differences; the same object if none of the rows that differ has or had a value."""
        made = {key: self._derive(new) if new is not None else None for key, _, new in differences}
        if not any(key in value or each is not None for key, each in made.items()):
            return value
        return {key: each for key, each in {**value, **made}.items() if each is not None}


class IndexedRows(dict[KeyT, RowT]):
    """See the module."""

    __slots__ = ("_began_as", "_differing", "_values")

    def __init__(self, rows: Mapping[KeyT, RowT] = NO_ROWS) -> None:
        super().__init__(rows)
        self._values: dict[Index[Any, Any], Any] = {}
        self._began_as: IndexedRows[KeyT, RowT] | None = None
        self._differing: Mapping[KeyT, None] = NO_ROWS

    @classmethod
    def of(cls, rows: Mapping[KeyT, RowT]) -> IndexedRows[KeyT, RowT]:
        """These rows as a table; the same object if they are a table."""
        return rows if isinstance(rows, IndexedRows) else cls(rows)

    def with_rows(self, rows: Mapping[KeyT, RowT]) -> IndexedRows[KeyT, RowT]:
        """The table with these rows; the same object if it has all of them."""
        news = {key: row for key, row in rows.items() if self.get(key) is not row}
        if not news:
            return self
        made = self._followed_by(news)
        made.update(news)
        return made

    def without(self, keys: Iterable[KeyT]) -> IndexedRows[KeyT, RowT]:
        """The table without these rows; the same object if it has none of them."""
        gone = [key for key in dict.fromkeys(keys) if key in self]
        if not gone:
            return self
        made = self._followed_by(gone)
        for key in gone:
            del made[key]
        return made

    def reset_baseline(self) -> None:
        """Count differences from this table on: the table that it began as is forgotten. Views stay."""
        if self._began_as is not None:
            for view in self._began_as._values:
                self.view(view)
            self._began_as, self._differing = None, NO_ROWS

    def view(self, view: Index[RowT, ValueT]) -> ValueT:
        """The value of ``view``; it is kept."""
        if not self:
            return view.of_nothing
        if view not in self._values:
            self._values[view] = self._derived(view)
        value: ValueT = self._values[view]
        return value

    def keys_differing_from(self, before: Mapping[KeyT, RowT]) -> Collection[KeyT] | None:
        """Keys of all rows that may differ from those in ``before``; None: that is not known."""
        return self._differing.keys() if self._began_as is before else None

    def _derived(self, view: Index[RowT, ValueT]) -> ValueT:
        """The value of ``view``. The table that this one began as keeps its value, too, for later tables."""
        began_as = self._began_as
        if began_as is None:
            return view.of(self)
        differences = [(key, began_as.get(key), self.get(key)) for key in differing(self, began_as)]
        return view.after(began_as.view(view), differences)

    def _followed_by(self, keys: Iterable[KeyT]) -> IndexedRows[KeyT, RowT]:
        made: IndexedRows[KeyT, RowT] = IndexedRows(self)
        made._began_as = self._began_as if self._began_as is not None else self
        made._differing = {**self._differing, **dict.fromkeys(keys)}
        return made


def index_of(rows: Mapping[Any, RowT], view: Index[RowT, ValueT]) -> ValueT:
    """The value of ``view`` of these rows. It is kept if ``rows`` are a table."""
    return rows.view(view) if isinstance(rows, IndexedRows) else view.of(rows)


def differing(now: Mapping[KeyT, RowT], before: Mapping[KeyT, RowT]) -> Collection[KeyT]:
    """Keys added, removed or replaced since ``before``."""
    if now is before:
        return ()
    known = now.keys_differing_from(before) if isinstance(now, IndexedRows) else None
    keys = [*now, *(key for key in before if key not in now)] if known is None else known
    return [key for key in keys if now.get(key) is not before.get(key)]
