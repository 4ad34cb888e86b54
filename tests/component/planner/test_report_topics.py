"""Planners that are at work find the topic of observations of a new engine cluster, and share it out like commands."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from services.common.kafka import COMMANDS, OBSERVATIONS, Publisher, TopicPartition, log_of
from services.planner.pipeline.batch_consumer import TOPICS, BatchConsumer, Topics

DEADLINE_SECONDS = 60.0
PARTITIONS = 4


@pytest.fixture
def new_topic(kafka_bootstrap: str) -> Iterator[Callable[[str], None]]:
    """Makes a topic with as many partitions as the commands of these tests have."""
    admin, made = AdminClient({"bootstrap.servers": kafka_bootstrap}), list[str]()

    def make(name: str) -> None:
        made.append(name)
        admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(timeout=DEADLINE_SECONDS)

    yield make
    for outcome in admin.delete_topics(made).values():
        outcome.result(timeout=DEADLINE_SECONDS)


@pytest.fixture
def planners(kafka_bootstrap: str, topic_factory: Callable[[str, int], str]) -> Iterator[Sequence[BatchConsumer]]:
    """Two of one group, with topics of their own: those of reports begin with the name of that of commands."""
    commands, orders, group = topic_factory("commands", PARTITIONS), topic_factory("orders", 1), uuid.uuid4().hex
    topics = Topics(commands, f"^{re.escape(commands)}\\..+$", orders)
    with ExitStack() as closed:
        consumers = [
            BatchConsumer(kafka_bootstrap, lambda sources: dict.fromkeys(sources, 0), group, topics) for _ in range(2)
        ]
        for each in consumers:
            closed.enter_context(closing(each))
        yield consumers


def test_planners_when_an_engine_cluster_is_added_then_each_reads_its_reports_of_the_tenants_whose_commands_it_has(
    kafka_bootstrap: str, planners: Sequence[BatchConsumer], new_topic: Callable[[str], None]
) -> None:
    first, second = planners
    came, deadline = set[TopicPartition](), time.monotonic() + DEADLINE_SECONDS

    def poll_until(is_so: Callable[[], bool]) -> None:
        while not is_so():
            assert time.monotonic() < deadline
            for each in planners:
                for message in each.poll_batch(10, 0.1).messages:
                    assert message.partition in each.partitions, "who reads a report has the tenant's commands"
                    came.add(message.tracked.source)

    poll_until(lambda: len(first.partitions) == len(second.partitions) == PARTITIONS // 2)
    (commands,) = {source.topic for source in first.offsets.partitions if source.topic.startswith("commands")}
    reports = f"{commands}.north"
    new_topic(reports)
    with closing(Publisher(kafka_bootstrap, "tests")) as publisher:
        for number in range(PARTITIONS):
            publisher.send_message(reports, b"key", b"report", partition=number).result(timeout=DEADLINE_SECONDS)
    poll_until(lambda: came == {TopicPartition(reports, number) for number in range(PARTITIONS)})


@pytest.mark.parametrize(
    ("topic", "is_read"),
    [(OBSERVATIONS, True), (f"{OBSERVATIONS}.north", True), (f"{OBSERVATIONS}north", False), (COMMANDS, False)],
)
def test_pattern_when_a_topic_is_new_then_planners_read_it_if_it_holds_observations(
    topic: str, *, is_read: bool
) -> None:
    assert (re.fullmatch(TOPICS.observations, topic) is not None) == is_read == (log_of(topic) == OBSERVATIONS)
