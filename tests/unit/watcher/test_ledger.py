from __future__ import annotations

import random

import pytest

from services.watcher.ledger import Ledger, Position

CASES: dict[str, tuple[list[int], list[int | None]]] = {
    "in-order": ([0, 1, 2, 3], [1, 2, 3, 4]),
    "first-one-last": ([1, 2, 3, 0], [None, None, None, 4]),
    "gap-closes": ([0, 2, 1, 3], [1, None, 3, 4]),
    "finished-twice": ([0, 0, 1, 2, 3], [1, None, 2, 3, 4]),
    "never-begun": ([9, 0, 1, 2, 3], [None, 1, 2, 3, 4]),
}


@pytest.mark.parametrize(("finished", "committable"), CASES.values(), ids=CASES)
def test_partition_when_messages_finish_in_this_order_then_it_is_committable_up_to_the_first_open_one(
    finished: list[int], committable: list[int | None]
) -> None:
    ledger = Ledger()
    for offset in range(4):
        ledger.begin(Position(5, offset))
    assert [ledger.finish(Position(5, offset)) for offset in finished] == committable


def test_offsets_when_they_have_gaps_as_in_compacted_topics_then_the_next_open_one_counts() -> None:
    ledger = Ledger()
    for offset in (3, 7, 20):
        ledger.begin(Position(0, offset))
    assert [ledger.finish(Position(0, offset)) for offset in (3, 7, 20)] == [7, 20, 21]


def test_partition_when_given_up_then_what_finishes_late_commits_nothing() -> None:
    ledger = Ledger()
    ledger.begin(Position(0, 1))
    ledger.begin(Position(1, 1))
    ledger.forget([0])
    assert ledger.finish(Position(0, 1)) is None
    assert ledger.finish(Position(1, 1)) == 2


@pytest.mark.parametrize("seed", range(20))
def test_commits_when_messages_finish_at_random_then_none_passes_over_an_open_message(seed: int) -> None:
    chance, ledger = random.Random(seed), Ledger()  # noqa: S311 - reproducible
    open_, begun, committed = set[int](), 0, 0
    while begun < 200 or open_:
        if begun < 200 and (not open_ or chance.random() < 0.5):
            ledger.begin(Position(0, begun))
            open_.add(begun)
            begun += 1
            continue
        finished = chance.choice(sorted(open_))
        open_.remove(finished)
        offset = ledger.finish(Position(0, finished))
        if offset is not None:
            assert offset > committed
            assert offset <= min(open_, default=begun)
            committed = offset
    assert committed == 200
