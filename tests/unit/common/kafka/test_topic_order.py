"""Which partitions wait until those of an earlier topic are taken in, and which are never fetched."""

from __future__ import annotations

from typing import Any, cast

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from services.common.kafka import OffsetTracker, TopicPartition
from services.common.kafka.topic_order import PausedPartitions

RANKS = {"earlier": 0, "later-a": 1, "later-b": 1, "last": 2}


class Client:
    """Ends of the earlier topic, and what is paused."""

    def __init__(self, **ends: int) -> None:
        self.ends, self.paused = ends, set[tuple[str, int]]()

    def pause(self, partitions: list[ClientPartition]) -> None:
        self.paused |= {(each.topic, each.partition) for each in partitions}

    def resume(self, partitions: list[ClientPartition]) -> None:
        self.paused -= {(each.topic, each.partition) for each in partitions}

    def get_watermark_offsets(self, partition: ClientPartition, *_: Any, **__: Any) -> tuple[int, int]:
        if (end := self.ends.get(f"p{partition.partition}")) is None:
            raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
        return 0, end


def held(client: Client, offsets: OffsetTracker, *assigned: tuple[str, int]) -> PausedPartitions:
    sources = [TopicPartition(*each) for each in assigned]
    offsets.assign_partitions(dict.fromkeys(sources, 0))
    partitions = PausedPartitions(RANKS.get, cast("Any", client), offsets)
    partitions.pause_partitions(sources)
    return partitions


def take_in(offsets: OffsetTracker, number: int, topic: str = "earlier") -> None:
    source = TopicPartition(topic, number)
    tracked = offsets.track_offset(source, offsets.next_offset(source) or 0)
    assert tracked is not None
    offsets.acknowledge_offset(tracked)


def test_partitions_when_several_topics_are_later_then_those_of_one_number_are_fetched_together() -> None:
    client, offsets = Client(p0=1, p1=0), OffsetTracker()
    numbers = [(topic, number) for topic in ("earlier", "later-a", "later-b") for number in (0, 1)]
    partitions = held(client, offsets, *numbers)
    assert client.paused == {("later-a", 0), ("later-b", 0), ("later-a", 1), ("later-b", 1)}
    partitions.resume_partitions()
    assert client.paused == {("later-a", 0), ("later-b", 0)}
    take_in(offsets, 0)
    partitions.resume_partitions()
    assert client.paused == set()


def test_partition_when_its_equal_is_another_members_then_it_is_not_fetched() -> None:
    client, offsets = Client(p0=0), OffsetTracker()
    partitions = held(client, offsets, ("earlier", 0), ("later-a", 0), ("later-a", 1))
    partitions.resume_partitions()
    assert client.paused == {("later-a", 1)}


def test_partitions_when_they_are_assigned_anew_then_they_wait_anew() -> None:
    client, offsets = Client(p0=0, p1=0), OffsetTracker()
    partitions = held(client, offsets, ("earlier", 0), ("later-a", 0), ("later-a", 1))
    partitions.resume_partitions()
    partitions.pause_partitions([TopicPartition("earlier", 1), TopicPartition("later-a", 1)])
    offsets.assign_partitions({TopicPartition("earlier", 1): 0})
    partitions.resume_partitions()
    assert client.paused == set()


def test_partition_when_it_is_of_a_third_rank_then_it_waits_for_the_first_and_for_the_second() -> None:
    client, offsets = Client(p0=1), OffsetTracker()
    partitions = held(client, offsets, ("earlier", 0), ("later-a", 0), ("last", 0), ("beside", 0))
    assert client.paused == {("later-a", 0), ("last", 0)}
    partitions.resume_partitions()
    take_in(offsets, 0)
    partitions.resume_partitions()
    assert client.paused == {("last", 0)}
    take_in(offsets, 0, "later-a")
    partitions.resume_partitions()
    assert client.paused == set()


def test_partition_when_another_has_no_leader_then_it_does_not_wait_for_that() -> None:
    client, offsets = Client(p1=0), OffsetTracker()
    partitions = held(client, offsets, *((topic, number) for topic in ("earlier", "later-a") for number in (0, 1)))
    for _ in range(2):
        partitions.resume_partitions()
    assert client.paused == {("later-a", 0)}
