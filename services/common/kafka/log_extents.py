"""Identifies a partition's log, and the offsets it still has: an offset means something only together with that.

A topic that was created again, in a cluster that replaces a lost one, has the same name and another id. Its offsets
begin at 0.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from services.common.errors import Retry
from services.common.kafka.brokers import REQUEST_SECONDS, Brokers, client_properties
from services.common.kafka.offset_tracker import TopicPartition
from services.common.kafka.partition_reader import PartitionReader


@dataclass(frozen=True, slots=True)
class LogExtent:
    """The log of one partition."""

    topic_id: str
    """The cluster's id of the topic. Another id means another topic."""
    first: int
    """Offset of its oldest message."""
    end: int
    """Offset after its newest message."""


def read_extents(
    brokers: Brokers, client: str, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, LogExtent]:
    """The logs of ``partitions``. Raises Retry if the brokers do not answer."""
    ids = topic_ids(brokers, {source.topic for source in partitions})
    with PartitionReader(brokers, client) as reader:
        first, ends = reader.first_offsets(partitions), reader.end_offsets(partitions)
    return {source: LogExtent(ids[source.topic], first[source], ends[source]) for source in partitions}


def topic_ids(brokers: Brokers, topics: Iterable[str]) -> dict[str, str]:
    """Ids of ``topics``. Raises Retry if the brokers do not answer, or do not know a topic yet."""
    names = sorted(topics)
    if not names:
        return {}
    admin = AdminClient(client_properties(brokers) | {"log_level": 0})
    try:
        asked = admin.describe_topics(TopicCollection(names), request_timeout=REQUEST_SECONDS)
        return {name: str(answer.result().topic_id) for name, answer in asked.items()}
    except KafkaException as error:
        raise Retry(f"Kafka does not answer, asked for the ids of topics: {error.args[0].str()}") from error
