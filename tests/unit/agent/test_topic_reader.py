"""Up to where a topic is read, and what becomes of trouble on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from services.agent import topic_reader
from services.agent.topic_reader import CONSUME_SECONDS, SECONDS, TopicReader
from services.common.errors import Retry


@dataclass(frozen=True)
class Message:
    """As much of one as is read."""

    at: int
    name: bytes = b""
    content: bytes | None = None
    trouble: KafkaError | None = None
    place: int = 0

    def offset(self) -> int:
        return self.at

    def partition(self) -> int:
        return self.place

    def key(self) -> bytes:
        return self.name

    def value(self) -> bytes | None:
        return self.content

    def error(self) -> KafkaError | None:
        return self.trouble


class Broker:
    """Hands out batches, and is silent afterwards."""

    def __init__(self, *batches: list[Message] | Exception) -> None:
        self.batches = list(batches)
        self.calls = 0
        self.closed = False

    def __call__(self, _: dict[str, Any]) -> Broker:
        return self

    def assign(self, partitions: list[Any]) -> None:
        assert all(each.offset == 0 for each in partitions)

    def consume(self, _: int, timeout: float) -> list[Message]:
        self.calls += 1
        assert timeout == CONSUME_SECONDS
        batch = self.batches.pop(0) if self.batches else []
        if isinstance(batch, Exception):
            raise batch
        return batch

    def close(self) -> None:
        self.closed = True


def newest(monkeypatch: pytest.MonkeyPatch, broker: Broker, ends: dict[int, int]) -> dict[int, list[bytes]]:
    monkeypatch.setattr(topic_reader, "Consumer", broker)
    return TopicReader("broker:9092", "gitops.engine", "group").newest(ends)


def test_row_when_it_changes_or_goes_beyond_the_end_then_what_it_was_at_the_end_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    beyond = [Message(2, b"a", b"beyond"), Message(3, b"b", None), Message(4, b"c", b"beyond")]
    broker = Broker([Message(0, b"a", b"old"), Message(1, b"b", b"b"), *beyond])
    assert newest(monkeypatch, broker, {0: 2}) == {0: [b"old", b"b"]}


def test_row_when_written_twice_or_deleted_before_the_end_then_only_the_newest_state_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Broker(
        [Message(0, b"a", b"old"), Message(1, b"b", b"b"), Message(2, b"a", b"new")], [Message(3, b"b", None)]
    )
    assert newest(monkeypatch, broker, {0: 4}) == {0: [b"new"]}


def test_partition_when_compaction_or_a_transaction_took_its_last_offsets_then_its_end_of_file_ends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    end = Message(9, trouble=KafkaError(KafkaError._PARTITION_EOF))
    broker = Broker([Message(0, b"a", b"a")], [end])
    assert newest(monkeypatch, broker, {0: 9, 1: 0}) == {0: [b"a"], 1: []}
    assert broker.calls == 2


def test_partition_when_its_last_offsets_are_missing_then_the_first_one_beyond_ends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Broker([Message(0, b"a", b"a"), Message(7, b"a", b"beyond")])
    assert newest(monkeypatch, broker, {0: 5}) == {0: [b"a"]}


def test_partitions_when_one_is_read_then_the_others_are_read_to_their_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker([Message(0, b"a", b"a")], [Message(1, b"a", b"beyond"), Message(0, b"b", b"b", place=1)])
    assert newest(monkeypatch, broker, {0: 1, 1: 1}) == {0: [b"a"], 1: [b"b"]}


def test_brokers_when_they_fall_silent_then_it_is_to_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker([Message(0, b"a", b"a")])
    with pytest.raises(Retry, match=r"partitions \[0\]"):
        newest(monkeypatch, broker, {0: 2})
    assert broker.calls == pytest.approx(1 + SECONDS / CONSUME_SECONDS, abs=1)
    assert broker.closed


@pytest.mark.parametrize(
    "trouble",
    [
        [Message(0, trouble=KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))],
        KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN)),
    ],
    ids=["of a partition", "of the client"],
)
def test_topic_when_it_cannot_be_read_then_it_is_to_be_tried_again(
    monkeypatch: pytest.MonkeyPatch, trouble: list[Message] | Exception
) -> None:
    broker = Broker(trouble)
    with pytest.raises(Retry, match="could not be read"):
        newest(monkeypatch, broker, {0: 1})
    assert broker.closed
