from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from services.common.kafka import OffsetTracker, TopicPartition, TrackedOffset
from tests.unit.common.kafka.offset_contract import MESSAGES, OffsetContract

A, B = TopicPartition("topic", 0), TopicPartition("topic", 1)


class Alone:
    """A tracker whose offsets are committed as soon as they can be."""

    def __init__(self) -> None:
        self._tracker = OffsetTracker()
        self._committed: int | None = None

    def assign(self) -> list[TrackedOffset]:
        self._tracker.assign_partitions({A: self._committed})
        first = self._committed or 0
        return tracked(self._tracker, *range(first, first + MESSAGES))

    def acknowledge(self, tracked: TrackedOffset) -> None:
        self._tracker.acknowledge_offset(tracked)

    def revoke(self) -> None:
        self._tracker.revoke_partitions([A])

    def committed(self) -> int | None:
        self._committed = self._tracker.take_committable_offsets().get(A, self._committed)
        return self._committed


class TestOffsetTracker(OffsetContract):
    @pytest.fixture
    def committing(self) -> Alone:
        return Alone()


def tracked(tracker: OffsetTracker, *offsets: int) -> list[TrackedOffset]:
    found = [tracker.track_offset(A, offset) for offset in offsets]
    return [each for each in found if each is not None]


@pytest.fixture
def tracker() -> OffsetTracker:
    tracker = OffsetTracker()
    tracker.assign_partitions({A: 3})
    return tracker


def test_offsets_when_they_have_gaps_as_in_compacted_topics_then_the_one_after_the_last_acknowledged_is_committable(
    tracker: OffsetTracker,
) -> None:
    committable = []
    for each in tracked(tracker, 3, 7, 20):
        tracker.acknowledge_offset(each)
        committable.append(tracker.committable_offset(A))
    assert committable == [4, 8, 21]


def test_committable_offsets_when_taken_then_only_those_that_moved_since_come_again(tracker: OffsetTracker) -> None:
    first, second = tracked(tracker, 3, 4)
    assert tracker.take_committable_offsets() == {}
    tracker.acknowledge_offset(first)
    assert tracker.take_committable_offsets() == {A: 4}
    assert tracker.take_committable_offsets() == {}
    tracker.acknowledge_offset(second)
    assert tracker.take_committable_offsets() == {A: 5}


def test_message_when_consumed_twice_or_not_assigned_then_it_is_not_tracked(tracker: OffsetTracker) -> None:
    tracked(tracker, 3, 4)
    assert tracker.track_offset(A, 4) is None
    assert tracker.track_offset(A, 2) is None
    assert tracker.track_offset(B, 9) is None
    assert tracker.next_offset(A) == 5


def test_acknowledgement_when_asked_for_then_the_tracker_knows_it_while_the_assignment_lasts(
    tracker: OffsetTracker,
) -> None:
    first, second, third = tracked(tracker, 3, 4, 5)
    tracker.acknowledge_offset(first)
    tracker.acknowledge_offset(third)
    assert [tracker.is_acknowledged(each) for each in (first, second, third)] == [True, False, True]
    tracker.assign_partitions({A: 3})
    assert not tracker.is_acknowledged(first)


def test_assignment_when_the_partition_came_back_then_what_was_consumed_before_is_not_current(
    tracker: OffsetTracker,
) -> None:
    (before,) = tracked(tracker, 3)
    assert tracker.is_current(before)
    tracker.revoke_partitions([A])
    assert not tracker.is_current(before)
    tracker.assign_partitions({A: 3})
    (after,) = tracked(tracker, 3)
    assert (tracker.is_current(before), tracker.is_current(after)) == (False, True)


def test_partitions_when_more_are_assigned_then_those_before_stay_as_they_were(tracker: OffsetTracker) -> None:
    (before,) = tracked(tracker, 3)
    tracker.assign_partitions({B: None})
    assert tracker.partitions == [A, B]
    assert tracker.is_current(before)
    assert tracker.committable_offset(B) is None


@pytest.mark.parametrize("seed", range(20))
def test_commits_when_messages_are_acknowledged_at_random_then_none_passes_over_an_open_one(seed: int) -> None:
    chance, tracker = random.Random(seed), OffsetTracker()  # noqa: S311 - reproducible
    tracker.assign_partitions({A: 0})
    opened: dict[int, TrackedOffset] = {}
    consumed = 0
    while consumed < 200 or opened:
        if consumed < 200 and (not opened or chance.random() < 0.5):
            opened[consumed] = tracked(tracker, consumed)[0]
            consumed += 1
            continue
        tracker.acknowledge_offset(opened.pop(chance.choice(sorted(opened))))
        assert tracker.committable_offset(A) == min(opened, default=consumed)


def test_acknowledgements_when_they_come_from_many_threads_then_none_is_lost(tracker: OffsetTracker) -> None:
    consumed = tracked(tracker, *range(3, 2003))
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(tracker.acknowledge_offset, consumed))
    assert tracker.take_committable_offsets() == {A: 2003}
