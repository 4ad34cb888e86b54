"""Connections of librdkafka's clients: their properties, and checks at the start.

After the start librdkafka only retries and logs. The properties of faust's clients are in
:mod:`services.agent.stream.faust_app`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType, TopicDescription, TopicMetadata

from services.common.errors import InvalidConfiguration, NoPermission, Retry
from services.common.kafka.topics import WORKSPACE
from services.common.settings import BrokerSettings

Brokers = BrokerSettings | str
"""Settings with our principal, or only the address of a listener that asks for no credentials."""

Properties = dict[str, Any]

FETCHED_BYTES = 65536
"""About how much a consumer fetches of a partition at a time, and a producer sends as one batch. Smaller batches cost
round trips; larger ones delay other partitions."""


def kafka_at(brokers: Brokers) -> str:
    """The brokers' name in messages about errors."""
    return f"Kafka at {brokers if isinstance(brokers, str) else brokers.kafka_bootstrap_servers}"


def client_properties(brokers: Brokers) -> Properties:
    """Properties of every client. They include the password: never log them."""
    if isinstance(brokers, str):
        return {"bootstrap.servers": brokers}
    properties: Properties = {
        "bootstrap.servers": brokers.kafka_bootstrap_servers,
        "security.protocol": brokers.kafka_security_protocol,
    }
    if brokers.kafka_security_protocol.startswith("SASL"):
        properties |= {
            "sasl.mechanism": brokers.kafka_sasl_mechanism,
            "sasl.username": brokers.kafka_username,
            "sasl.password": brokers.kafka_password.get_secret_value(),
        }
    if brokers.kafka_ca is not None:
        properties["ssl.ca.location"] = str(brokers.kafka_ca)
    return properties


def consumer_properties(brokers: Brokers, group: str) -> Properties:
    """Properties of every consumer. It does not store offsets by itself."""
    return client_properties(brokers) | {
        "group.id": group,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "earliest",
        # A message is handed over as soon as the broker has it.
        "fetch.min.bytes": 1,
        "fetch.wait.max.ms": 100,
        "fetch.error.backoff.ms": 50,
        "fetch.queue.backoff.ms": 20,
        # All partitions wait in one queue, in the order of their fetches. Little is fetched of a busy one, so that a
        # message of another does not wait behind all that has piled up there.
        "fetch.message.max.bytes": FETCHED_BYTES,
        "queued.min.messages": 100,
        "queued.max.messages.kbytes": 65536,
        "reconnect.backoff.max.ms": 1000,
        "socket.nagle.disable": True,
        # It would write a line for each attempt to connect; what matters of that comes as an error.
        "log_level": 2,
    }


@contextmanager
def answered(what: str) -> Iterator[None]:
    """Raises Retry if the brokers do not answer the request in the block, which asks for ``what``."""
    try:
        yield
    except KafkaException as error:
        raise Retry(f"Kafka does not answer, asked for {what}: {error.args[0].str()}") from error


REQUEST_SECONDS = 2.0
SETTINGS_SECONDS = 10.0


def check_login(brokers: Brokers) -> None:
    """Return when a broker accepts our credentials; raises like :func:`count_partitions`."""
    count_partitions(brokers, ())


def count_partitions(brokers: Brokers, topics: Iterable[str]) -> dict[str, int]:
    """How many partitions each of ``topics`` has.

    Raises as :func:`existing_partitions`, and InvalidConfiguration naming a topic that does not exist.
    """
    known = _existing(brokers)
    return {topic: _count(known.get(topic), topic) for topic in topics}


def described_partitions(brokers: Brokers, topics: Iterable[str]) -> dict[str, int | None]:
    """How many partitions each of ``topics`` has: 0 if it does not exist, None if we may not know.

    Each topic is requested by name, because a list of all topics also lacks those that we may not know. Raises as
    :func:`existing_partitions`.
    """
    topics = sorted(topics)
    with _asking(brokers, ", ".join(topics)) as admin:
        asked = admin.describe_topics(TopicCollection(topics), request_timeout=REQUEST_SECONDS)
        return {topic: _described(answer) for topic, answer in asked.items()}


def topic_settings(brokers: Brokers, topic: str) -> dict[str, str]:
    """The settings of ``topic``, including the brokers' defaults.

    Raises Retry if the brokers do not answer, NoPermission if we may not ask.
    """
    admin = AdminClient(client_properties(brokers) | {"log_level": 0})
    resource = ConfigResource(ResourceType.TOPIC, topic)
    try:
        found = admin.describe_configs([resource], request_timeout=SETTINGS_SECONDS)[resource].result()
    except KafkaException as error:
        reason = error.args[0]
        failure = NoPermission if reason.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED else Retry
        raise failure(f"Kafka was asked for the settings of {topic}: {reason.str()}") from error
    return {name: entry.value for name, entry in found.items()}


def partitions_in(found: TopicMetadata, topic: str) -> int:
    """The number of partitions in a broker's answer about ``topic``. Raises Retry if it has none."""
    if not found.partitions:
        raise Retry(f"Kafka tells no partitions of {topic}: {found.error}")
    return len(found.partitions)


def existing_partitions(brokers: Brokers) -> dict[str, int]:
    """The number of partitions of each topic that we may know.

    Raises NoPermission when a broker refuses our credentials, Retry when none answers.
    """
    return {topic: len(found.partitions) for topic, found in _existing(brokers).items()}


def _existing(brokers: Brokers) -> dict[str, TopicMetadata]:
    with _asking(brokers, "topics") as admin:
        return dict(admin.list_topics(timeout=REQUEST_SECONDS).topics)


@contextmanager
def _asking(brokers: Brokers, what: str) -> Iterator[AdminClient]:
    """A client for the block, which asks for ``what``.

    Raises NoPermission when a broker refuses our credentials, Retry when none answers.
    """
    refusals: list[KafkaError] = []

    def note(error: KafkaError) -> None:
        if error.code() == KafkaError._AUTHENTICATION:
            refusals.append(error)

    admin = AdminClient(client_properties(brokers) | {"log_level": 0, "error_cb": note})
    try:
        with answered(what):
            yield admin
    except Retry as error:
        admin.poll(0)  # calls back
        if refusals:
            raise NoPermission(
                f"Kafka refuses KAFKA_USERNAME and KAFKA_PASSWORD: {refusals[0].str()}; see 'gitopsctl topics acls'"
            ) from error
        raise


def _described(answer: Future[TopicDescription]) -> int | None:
    """The number of partitions; None if we may not know it. Raises KafkaException if it is unknown."""
    try:
        return len(answer.result().partitions)
    except KafkaException as error:
        match error.args[0].code():
            case KafkaError.UNKNOWN_TOPIC_OR_PART:
                return 0
            case KafkaError.TOPIC_AUTHORIZATION_FAILED:
                return None
            case _:
                raise


def _count(found: TopicMetadata | None, topic: str) -> int:
    if found is None:
        remedy = "workspaces add" if topic.startswith(f"{WORKSPACE}.") else "topics apply"
        raise InvalidConfiguration(f"Kafka has no topic {topic}; run 'gitopsctl {remedy}'")
    return partitions_in(found, topic)
