"""What a rebalance does to messages that were just taken. The rest is tested on a real broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import TopicPartition as ClientPartition

from services.common.kafka import Consumer, Membership, TopicPartition, consumer

TOPIC = "gitops.workspace"


class Message:
    """As much of one as is looked at."""

    def __init__(self, offset: int, partition: int) -> None:
        self._offset, self._partition = offset, partition

    def topic(self) -> str:
        return TOPIC

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def key(self) -> None:
        return None

    value = headers = error = key

    def timestamp(self) -> tuple[int, int]:
        return (1, 0)


class Broker:
    """Has two messages; a rebalance comes between them."""

    def __init__(self, _: dict[str, Any]) -> None:
        self.stored: list[ClientPartition] = []
        self.before_the_rest: Callable[[], None] = lambda: None

    def __call__(self, _: dict[str, Any]) -> Broker:
        return self

    def subscribe(self, _: list[str], **callbacks: Any) -> None:
        self.callbacks = callbacks

    def poll(self, _: float) -> Message:
        return Message(7, partition=0)

    def consume(self, _: int, timeout: float) -> list[Message]:
        self.before_the_rest()
        return [Message(3, partition=1)]

    def store_offsets(self, offsets: list[ClientPartition]) -> None:
        self.stored += offsets

    def get_watermark_offsets(self, *_: Any, **__: Any) -> None:
        return None

    def rebalance(self, callback: str, *partitions: int) -> None:
        self.callbacks[callback](self, [ClientPartition(TOPIC, number) for number in partitions])


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    broker = Broker({})
    monkeypatch.setattr(consumer, "KafkaClient", broker)
    return broker


def member(broker: Broker, **membership: Any) -> Consumer:
    made = Consumer("anywhere:1", Membership("tests", "group", (TOPIC,), "cooperative-sticky", **membership))
    broker.rebalance("on_assign", 0, 1)
    return made


@pytest.mark.parametrize("callback", ["on_revoke", "on_lost"])
def test_message_when_its_partition_is_revoked_before_its_batch_is_complete_then_it_is_not_in_it(
    broker: Broker, callback: str
) -> None:
    joined = member(broker)
    broker.before_the_rest = lambda: broker.rebalance(callback, 0)
    assert [(message.partition, message.offset) for message in joined.poll_batch(10, 0)] == [(1, 3)]


def test_message_when_its_partition_went_and_came_back_before_its_batch_is_complete_then_it_is_not_in_it(
    broker: Broker,
) -> None:
    def go_and_come_back() -> None:
        broker.rebalance("on_revoke", 0)
        broker.rebalance("on_assign", 0)

    joined = member(broker)
    broker.before_the_rest = go_and_come_back
    assert [message.partition for message in joined.poll_batch(10, 0)] == [1]


def test_partition_when_revoked_then_what_is_finished_while_it_is_given_up_is_stored(broker: Broker) -> None:
    def finish(revoked: Any) -> None:
        assert revoked == [TopicPartition(TOPIC, 0)]
        joined.offsets.acknowledge_offset(first.tracked)

    joined = member(broker, on_revoke=finish)
    first, _ = joined.poll_batch(10, 0)
    broker.rebalance("on_revoke", 0)
    assert [(each.partition, each.offset) for each in broker.stored] == [(0, 8)]
    assert not joined.offsets.is_current(first.tracked)
