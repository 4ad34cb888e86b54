"""Tables: what is derived from rows is the same as from scratch, whatever has replaced them, and costs what differs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.planner.domain.indexed_rows import (
    Counts,
    Derived,
    Groups,
    Index,
    IndexedRows,
    Subset,
    Totals,
    differing,
    index_of,
)

Row = tuple[str, int]
KEYS = st.integers(0, 5)
ROWS = st.dictionaries(KEYS, st.tuples(st.sampled_from(["a", "b", ""]), st.integers(0, 3)), max_size=5)
STEPS = st.lists(st.one_of(ROWS, st.sets(KEYS), st.just("settle")), max_size=6)

VIEWS: list[Index[Row, Any]] = [
    Totals(lambda row: (1, row[1])),
    Groups(lambda row: row[0] or None),
    Subset(lambda row: row[1] > 1),
    Counts(lambda row: row[0] or None),
    Derived(lambda row: row[0] or None),
]


def replaced(table: IndexedRows[int, Row], step: Any) -> IndexedRows[int, Row]:
    if isinstance(step, dict):
        return table.with_rows(step)
    if isinstance(step, set):
        return table.without(step)
    table.reset_baseline()
    return table


@pytest.mark.parametrize("view", VIEWS, ids=["totals", "groups", "subset", "counts", "derived"])
@given(rows=ROWS, steps=STEPS)
def test_view_when_rows_are_replaced_then_it_is_as_from_scratch(
    view: Index[Row, Any], rows: dict[int, Row], steps: list[Any]
) -> None:
    table = IndexedRows(rows)
    for step in steps:
        table.view(view)
        table = replaced(table, step)
    assert table.view(view) == (view.of(dict(table)) if table else view.of({}))


@given(rows=ROWS, steps=STEPS)
def test_differing_when_rows_are_replaced_then_it_is_as_if_all_were_compared(
    rows: dict[int, Row], steps: list[Any]
) -> None:
    before = IndexedRows(rows)
    table = before
    for step in steps:
        table = replaced(table, step)
    assert set(differing(table, before)) == set(differing(dict(table), dict(before)))


def test_table_when_nothing_differs_then_it_is_the_same_object() -> None:
    row = ("a", 1)
    table = IndexedRows({1: row})
    assert table.with_rows({1: row}) is table
    assert table.without([2]) is table


def test_group_when_a_row_of_another_differs_then_it_is_the_same_object() -> None:
    view: Groups[Row, str] = Groups(lambda row: row[0])
    table = IndexedRows({1: ("a", 1), 2: ("b", 1)})
    kept = table.view(view)["a"]
    assert table.with_rows({2: ("b", 2)}).view(view)["a"] is kept


def test_view_when_one_row_of_many_differs_then_only_that_is_looked_at() -> None:
    looked_at: list[Row] = []
    view: Totals[Row] = Totals(lambda row: looked_at.append(row) or (row[1],))  # type: ignore[func-returns-value]
    table = IndexedRows({key: ("a", key) for key in range(100)})
    table.view(view)
    looked_at.clear()
    table = table.with_rows({7: ("a", 0)})
    table.reset_baseline()
    assert (table.view(view), len(looked_at)) == ((99 * 100 // 2 - 7,), 2)


def test_view_when_only_tables_that_came_after_were_asked_then_the_next_ones_have_it_from_them() -> None:
    looked_at: list[Row] = []
    view: Derived[Row, int] = Derived(lambda row: looked_at.append(row) or row[1])  # type: ignore[func-returns-value]
    table = IndexedRows({key: ("a", key) for key in range(100)}).with_rows({7: ("a", 0)})
    table.view(view)
    table = table.with_rows({8: ("a", 0)})
    table.reset_baseline()
    looked_at.clear()
    assert (table.with_rows({9: ("a", 0)}).view(view)[9], looked_at) == (0, [("a", 0)])


def test_table_when_settled_then_the_one_that_it_began_as_is_forgotten() -> None:
    before = IndexedRows({1: ("a", 1)})
    table = before.with_rows({2: ("b", 1)})
    table.reset_baseline()
    assert table.keys_differing_from(before) is None
    assert index_of(table.with_rows({3: ("c", 1)}), VIEWS[0]) == (3, 3)
