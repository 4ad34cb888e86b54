"""Up to where the desired state is read, and from where its messages come again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pytest

from services.agent.stream import desired_state
from services.agent.stream.desired_state import SnapshotReader
from services.common.kafka import ConsumedMessage, TopicPartition
from tests.unit.common.kafka.messages import consumed

TOPIC = "gitops.engine"
A, B = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)


class Reader:
    """Stands where the broker is: messages, and what is known of the partitions' offsets."""

    def __init__(self, *messages: ConsumedMessage, first: int = 0, committed: int | None = None) -> None:
        self._messages, self._first, self._committed = messages, first, committed
        self.closed = False

    def __call__(self, *_: Any) -> Reader:
        return self

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True

    def end_offsets(self, sources: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        ends = {message.tracked.source: message.offset + 1 for message in self._messages}
        return {source: ends.get(source, 0) for source in sources}

    def first_offsets(self, sources: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {source: self._first if source == A else 0 for source in sources}

    def committed_offsets(self, sources: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {} if self._committed is None else {A: self._committed}

    def read_messages(self, ends: Mapping[TopicPartition, int]) -> Iterator[ConsumedMessage]:
        assert ends == self.end_offsets(ends)
        yield from self._messages


def reading(monkeypatch: pytest.MonkeyPatch, reader: Reader) -> SnapshotReader:
    monkeypatch.setattr(desired_state, "PartitionReader", reader)
    return SnapshotReader("broker:9092", TOPIC, "group")


def test_key_when_it_was_written_several_times_then_its_newest_message_counts_a_tombstone_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    newest = [consumed(TOPIC, 2, b"a", b"new"), consumed(TOPIC, 3, b"b", None), consumed(TOPIC, 0, b"a", partition=1)]
    reader = Reader(consumed(TOPIC, 0, b"a", b"old"), consumed(TOPIC, 1, b"b", b"b"), *newest)
    found = reading(monkeypatch, reader).read_snapshot([0, 1])
    assert found.newest == {A: {b"a": newest[0], b"b": newest[1]}, B: {b"a": newest[2]}}
    assert reader.closed


@pytest.mark.parametrize(
    ("first", "committed", "start"),
    [
        pytest.param(0, None, 0, id="nothing committed"),
        pytest.param(0, 3, 3, id="some committed"),
        pytest.param(2, None, 2, id="nothing committed, the beginning is gone"),
        pytest.param(4, 3, 4, id="what is committed is gone"),
        pytest.param(0, 99, 5, id="the topic was made anew"),
    ],
)
def test_messages_when_some_are_committed_then_those_after_them_come_again(
    monkeypatch: pytest.MonkeyPatch, first: int, committed: int | None, start: int
) -> None:
    reader = Reader(consumed(TOPIC, 4, b"a"), first=first, committed=committed)
    assert reading(monkeypatch, reader).read_snapshot([0, 1]).starts == {A: start, B: 0}


def test_ends_when_asked_for_then_they_are_told_by_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reading(monkeypatch, Reader(consumed(TOPIC, 4))).end_offsets([0, 1]) == {0: 5, 1: 0}
