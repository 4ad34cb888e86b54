"""When instances that are ill at once share a cause."""

from __future__ import annotations

import pytest

from services.planner.domain.fleet.shared_cause import is_cause_shared


@pytest.mark.parametrize(
    ("ill", "counted", "expected"),
    [
        (0, 0, False),
        (1, 1, False),
        (1, 2, False),
        (2, 2, True),
        (2, 6, True),
        (2, 7, False),
        (3, 10, False),
        (4, 10, True),
    ],
)
def test_cause_when_so_many_are_ill_then_it_is_shared_beyond_one_and_three_tenths(
    ill: int,
    counted: int,
    expected: bool,
) -> None:
    assert is_cause_shared(ill, counted) is expected
