from __future__ import annotations

import pytest

from services.watcher.commands.epochs import Epochs

CASES: dict[str, tuple[int, list[int], list[int]]] = {
    "clock-runs": (0, [1000, 2000], [1000, 2000]),
    "two-lists-in-a-millisecond": (0, [1000, 1000], [1000, 1001]),
    "clock-set-back": (0, [5000, 1000, 6000], [5000, 5001, 6000]),
    "clock-behind-what-was-sent-before-a-restart": (9000, [1000, 1000], [9001, 9002]),
}


@pytest.mark.parametrize(("floor", "clock", "expected"), CASES.values(), ids=CASES)
def test_epoch_when_a_list_begins_then_it_exceeds_all_before(floor: int, clock: list[int], expected: list[int]) -> None:
    epochs = Epochs(floor)
    assert [epochs.next_epoch(now) for now in clock] == expected
