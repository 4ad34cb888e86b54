"""Whatever is consumed, acknowledged, released and revoked, in any order: the newest message of a key is never lost."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from services.common.kafka import LatestMessages, OffsetTracker, TopicPartition, TrackedOffset

PARTITIONS = [TopicPartition("topic", number) for number in range(2)]
KEYS = [f"{partition}{letter}" for partition in range(2) for letter in "abc"]
"""A key begins with the number of its partition."""


@dataclass(eq=False)
class Message:
    key: str
    tracked: TrackedOffset
    is_done: bool = False
    is_dropped: bool = False
    """Its partition was revoked before it was acknowledged."""


class Latest(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.offsets = OffsetTracker()
        self.offsets.assign_partitions(dict.fromkeys(PARTITIONS, 0))
        self.acknowledged: list[Message] = []
        self.messages = LatestMessages[str, Message](self._acknowledge)
        self.log: dict[str, list[Message]] = {key: [] for key in KEYS}
        self.begun: list[Message] = []
        self.next_offset = Counter(PARTITIONS)

    def _acknowledge(self, message: Message) -> None:
        self.acknowledged.append(message)
        self.offsets.acknowledge_offset(message.tracked)

    @rule(key=st.sampled_from(KEYS))
    def consume(self, key: str) -> None:
        source = PARTITIONS[int(key[0])]
        tracked = self.offsets.track_offset(source, self.next_offset[source])
        assert tracked is not None
        self.next_offset[source] += 1
        self.log[key].append(Message(key, tracked))
        self.messages.add_message(key, self.log[key][-1])

    @rule(key=st.sampled_from(KEYS))
    def start(self, key: str) -> None:
        newest = self.log[key][-1] if self.log[key] else None
        started = self.messages.start_message(key)
        assert started is None or started is newest
        if started is not None:
            self.begun.append(started)

    @rule(number=st.integers(0, 3), how=st.sampled_from(["acknowledge", "release", "retry"]))
    def end(self, number: int, how: str) -> None:
        """Of any work that has ever begun: it may end late."""
        if number >= len(self.begun):
            return
        message = self.begun[-1 - number]
        if how == "retry":
            self.messages.retry_message(message.key, message)
            return
        message.is_done |= message in self.messages.in_progress
        if how == "acknowledge":
            self.messages.acknowledge_message(message.key, message)
        elif self.messages.withdraw_message(message.key, message):
            self._acknowledge(message)

    @rule(key=st.sampled_from(KEYS))
    def end_all(self, key: str) -> None:
        for message in self.log[key]:
            message.is_done |= not message.is_dropped
        self.messages.acknowledge_key(key)

    @rule(source=st.sampled_from(PARTITIONS))
    def revoke(self, source: TopicPartition) -> None:
        """Work in progress ends first, as it happens; then the partition is another consumer's for a while."""
        for message in [each for each in self.messages.in_progress if each.tracked.source == source]:
            self.messages.retry_message(message.key, message)
        committed = self.offsets.committable_offset(source)
        assert committed is not None
        for key in self.messages.drop_waiting(lambda message: message.tracked.source == source):
            assert self.log[key][-1].tracked.offset >= committed, "its next owner is not sent the newest message"
            self.log[key][-1].is_dropped = True
        self.offsets.revoke_partitions([source])
        self.offsets.assign_partitions({source: self.next_offset[source]})

    @invariant()
    def each_is_acknowledged_once_and_none_too_soon(self) -> None:
        assert len(set(map(id, self.acknowledged))) == len(self.acknowledged)
        for message in self.acknowledged:
            assert not message.is_dropped
            assert message.is_done or message is not self.log[message.key][-1]

    @invariant()
    def newest_stays_until_it_is_done_and_no_other_waits(self) -> None:
        for key, log in self.log.items():
            newest = log[-1] if log and not log[-1].is_done and not log[-1].is_dropped else None
            waiting = self.messages.waiting_message(key)
            assert waiting is newest or (waiting is None and newest in self.messages.in_progress)
        assert len(self.messages) == sum(self.messages.waiting_message(key) is not None for key in KEYS)

    @invariant()
    def all_but_what_is_kept_is_acknowledged(self) -> None:
        kept = [each for key in KEYS if (each := self.messages.waiting_message(key))] + [*self.messages.in_progress]
        open_ = [each for log in self.log.values() for each in log if not each.is_dropped]
        assert {id(each) for each in open_} - {id(each) for each in self.acknowledged} == {id(each) for each in kept}


TestLatestMessages = Latest.TestCase


def test_messages_when_all_are_dropped_then_none_is_acknowledged() -> None:
    acknowledged: list[str] = []
    messages = LatestMessages[str, str](acknowledged.append)
    for key in ("waiting", "worked on"):
        messages.add_message(key, f"message that is {key}")
    messages.start_message("worked on")
    messages.clear()
    messages.acknowledge_message("worked on", "message that is worked on")
    assert (acknowledged, len(messages), "worked on" in messages) == ([], 0, False)
