"""What is taken in of a topic of which everything is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from services.common.errors import Poison, Retry
from services.common.kafka import ConsumedMessage, TopicPartition, TrackedOffset, WholeTopicReader, whole_topic_reader
from services.common.messages import FleetInstance
from tests.unit.agent.instances_of_fleet import instance_row

Reader = WholeTopicReader[FleetInstance]
TOPIC = "gitops.fleet"
SOURCE = TopicPartition(TOPIC, 0)


class FakeTopic:
    """A partition, and who reads it; a message's value is the name of an instance."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.trouble: list[Exception] = []
        self.connections = 0

    def __call__(self, *_: object) -> FakeTopic:
        self.connections += 1
        return self

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, 0)]

    def end_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        if self.trouble:
            raise self.trouble.pop(0)
        return dict.fromkeys(partitions, len(self.names))

    def read_messages(
        self, ends: Mapping[TopicPartition, int], starts: Mapping[TopicPartition, int]
    ) -> Iterator[ConsumedMessage]:
        for offset in range(starts.get(SOURCE, 0), ends[SOURCE]):
            yield ConsumedMessage(TrackedOffset(SOURCE, offset, 0), b"key", self.names[offset].encode(), {}, 0)

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> FakeTopic:
    made = FakeTopic()
    monkeypatch.setattr(whole_topic_reader, "PartitionReader", made)
    return made


@pytest.fixture
def reader(topic: FakeTopic) -> Reader:
    return WholeTopicReader("brokers", TOPIC, "gitops-agent", decode, "agent")


def decode(_: bytes | None, value: bytes | None) -> FleetInstance:
    name = (value or b"").decode()
    if name == "garbage":
        raise Poison("not a row")
    if name == "unknown schema":
        raise Retry("the registry is away")
    return instance_row(name)


def read(reader: Reader) -> list[str]:
    return [row.id for row in reader.read_news()]


def test_news_when_read_again_then_they_are_what_was_written_since(topic: FakeTopic, reader: Reader) -> None:
    topic.names = ["one", "two"]
    assert read(reader) == ["one", "two"]
    topic.names.append("three")
    assert read(reader) == ["three"]
    assert (read(reader), topic.connections) == ([], 1)


def test_row_when_it_cannot_be_understood_then_the_others_are_taken_in(topic: FakeTopic, reader: Reader) -> None:
    topic.names = ["one", "garbage", "two"]
    assert read(reader) == ["one", "two"]
    assert read(reader) == []


def test_brokers_when_they_did_not_answer_then_all_is_read_again_by_another_connection(
    topic: FakeTopic, reader: Reader
) -> None:
    topic.names = ["one"]
    assert read(reader) == ["one"]
    topic.trouble = [Retry("away")]
    with pytest.raises(Retry):
        reader.read_news()
    assert (read(reader), topic.connections) == (["one"], 2)


def test_registry_when_it_did_not_answer_then_no_row_is_passed_over(topic: FakeTopic, reader: Reader) -> None:
    topic.names = ["one", "unknown schema"]
    with pytest.raises(Retry):
        reader.read_news()
    topic.names[1] = "two"
    assert read(reader) == ["one", "two"]


def test_topic_when_it_was_made_anew_then_it_is_read_from_its_beginning(topic: FakeTopic, reader: Reader) -> None:
    topic.names = ["one", "two"]
    assert read(reader) == ["one", "two"]
    topic.names = ["three"]
    assert read(reader) == ["three"]
