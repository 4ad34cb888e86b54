"""Checks at start that the brokers accept our login and have the topics. Later librdkafka only retries and logs."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, TopicMetadata

from services.common.errors import InvalidConfiguration, NoPermission, Retry
from services.common.kafka.connection import Brokers, client_properties

REQUEST_SECONDS = 2.0


def check_login(brokers: Brokers) -> None:
    """Return when a broker accepts our credentials; raises like :func:`count_partitions`."""
    count_partitions(brokers, ())


def count_partitions(brokers: Brokers, topics: Iterable[str]) -> dict[str, int]:
    """How many partitions each of ``topics`` has.

    Raises NoPermission when a broker refuses our credentials, Retry when none answers, InvalidConfiguration naming a
    topic that does not exist.
    """
    refusals: list[KafkaError] = []

    def note(error: KafkaError) -> None:
        if error.code() == KafkaError._AUTHENTICATION:
            refusals.append(error)

    admin = AdminClient(client_properties(brokers) | {"log_level": 0, "error_cb": note})
    try:
        known = admin.list_topics(timeout=REQUEST_SECONDS).topics
    except KafkaException as error:
        admin.poll(0)  # calls back
        if refusals:
            raise NoPermission(
                f"Kafka refuses KAFKA_USERNAME and KAFKA_PASSWORD: {refusals[0].str()}; see 'gitopsctl topics acls'"
            ) from error
        raise Retry(str(error.args[0])) from error
    return {topic: _count(known.get(topic), topic) for topic in topics}


def _count(found: TopicMetadata | None, topic: str) -> int:
    if found is None:
        raise InvalidConfiguration(f"Kafka has no topic {topic}; run 'gitopsctl topics apply'")
    if not found.partitions:
        raise Retry(f"Kafka tells no partitions of {topic}: {found.error}")
    return len(found.partitions)
