"""Where a partition is taken up, by what its log still is and has."""

from __future__ import annotations

import pytest

from services.common.kafka import LogExtent
from services.planner.database.positions import Position, Resumed, resume

CASES = {
    "the log goes on": (Position("a", 70), LogExtent("a", 50, 90), Resumed(Position("a", 70))),
    "all of it is consumed": (Position("a", 90), LogExtent("a", 50, 90), Resumed(Position("a", 90))),
    "a planner of before has not told the topic": (
        Position("", 70),
        LogExtent("a", 50, 90),
        Resumed(Position("a", 70)),
    ),
    "retention took away what was not consumed": (
        Position("a", 30),
        LogExtent("a", 50, 90),
        Resumed(Position("a", 50), missed=20),
    ),
    "the topic is another, and shorter": (
        Position("a", 70),
        LogExtent("b", 0, 10),
        Resumed(Position("b", 0), made_anew=True),
    ),
    "the topic is another, and longer by now": (
        Position("a", 70),
        LogExtent("b", 0, 500),
        Resumed(Position("b", 0), made_anew=True),
    ),
    "the log was put back to an earlier state": (
        Position("a", 70),
        LogExtent("a", 50, 60),
        Resumed(Position("a", 50), made_anew=True),
    ),
    "the database is new, and the log begins later": (
        Position("", 0),
        LogExtent("a", 50, 90),
        Resumed(Position("a", 50)),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_position_when_a_partition_is_taken_up_then_it_is_one_that_means_something_in_this_log(case: str) -> None:
    known, log, expected = CASES[case]
    assert resume(known, log) == expected


def test_position_when_nothing_is_known_of_the_log_then_it_stays() -> None:
    assert resume(Position("a", 70), None) == Resumed(Position("a", 70))
