"""Whatever is consumed, acknowledged, assigned and revoked in whatever order: no offset goes ahead of its effects."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from services.common.kafka import OffsetTracker, TopicPartition, TrackedOffset

SOURCE = TopicPartition("topic", 0)


class Consumption(RuleBasedStateMachine):
    """One partition, and what its consumer knows: offsets in work, done, and handed out to be committed."""

    @initialize(start=st.integers(0, 5))
    def begin(self, start: int) -> None:
        self.tracker, self.stale = OffsetTracker(), list[TrackedOffset]()
        self._assign(start)

    def _assign(self, start: int) -> None:
        self.tracker.assign_partitions({SOURCE: start})
        self.start = self.next = self.committed = start
        self.open: dict[int, TrackedOffset] = {}

    @rule(skipped=st.integers(0, 3))
    def consume(self, skipped: int) -> None:
        """A compacted topic has gaps."""
        offset = self.next + skipped
        tracked = self.tracker.track_offset(SOURCE, offset)
        assert tracked is not None
        self.open[offset], self.next = tracked, offset + 1

    @rule(back=st.integers(1, 5))
    def consume_again(self, back: int) -> None:
        assert self.tracker.track_offset(SOURCE, self.next - back) is None

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        tracked = self.open.pop(data.draw(st.sampled_from(sorted(self.open))))
        self.tracker.acknowledge_offset(tracked)
        self.tracker.acknowledge_offset(tracked)
        self.stale.append(tracked)

    @precondition(lambda self: self.stale)
    @rule(data=st.data())
    def finish_once_more(self, data: st.DataObject) -> None:
        self.tracker.acknowledge_offset(data.draw(st.sampled_from(self.stale)))

    @rule(back=st.integers(0, 3))
    def lose_the_partition_and_get_it_back(self, back: int) -> None:
        self.tracker.revoke_partitions([SOURCE])
        assert self.tracker.committable_offset(SOURCE) is None
        self.stale += self.open.values()
        self._assign(max(0, self.committed - back))

    @rule()
    def commit(self) -> None:
        for offset in self.tracker.take_committable_offsets().values():
            assert offset >= self.committed
            self.committed = offset
        assert self.tracker.take_committable_offsets() == {}
        assert self.committed == self.tracker.committable_offset(SOURCE), "all that is done is committed"

    @invariant()
    def nothing_unfinished_is_behind_the_committable_offset(self) -> None:
        committable = self.tracker.committable_offset(SOURCE)
        assert committable is not None
        assert all(offset >= committable for offset in self.open)

    @invariant()
    def everything_finished_before_the_first_unfinished_is_committable(self) -> None:
        done = self.next if not self.open else min(self.open)
        committable = self.tracker.committable_offset(SOURCE) or 0
        assert all(tracked.offset < committable for tracked in self._finished() if tracked.offset < done)

    @invariant()
    def what_is_open_is_current_and_not_acknowledged(self) -> None:
        for tracked in self.open.values():
            assert self.tracker.is_current(tracked)
            assert not self.tracker.is_acknowledged(tracked)

    def _finished(self) -> list[TrackedOffset]:
        return [tracked for tracked in self.stale if self.tracker.is_current(tracked)]


TestConsumption = Consumption.TestCase
