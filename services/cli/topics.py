"""``gitopsctl topics``: makes the Kafka cluster agree with ``compose/topics.yaml``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

import typer
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from services.common.errors import InvalidConfiguration, Retry
from services.common.kafka.topics import Topic, load_topics
from services.common.startup import await_dependency

app = typer.Typer(help="Kafka topics, as declared in compose/topics.yaml.", no_args_is_help=True)

REQUEST_SECONDS = 10.0

BOOTSTRAP = typer.Option(..., envvar="KAFKA_BOOTSTRAP_SERVERS", help="Kafka brokers, host:port, comma separated.")
TIMEOUT = typer.Option(30.0, help="Seconds to wait for the brokers.")


@app.command()
def apply(bootstrap_servers: str = BOOTSTRAP, timeout: float = TIMEOUT) -> None:
    """Create missing topics, add missing partitions, set the declared settings. Never deletes anything."""
    topics = load_topics()
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    existing = await_dependency(
        f"Kafka at {bootstrap_servers}", lambda: _partitions_by_topic(admin), timeout_seconds=timeout
    )
    _create(admin, [topic for topic in topics if topic.name not in existing])
    _grow(admin, [topic for topic in topics if existing.get(topic.name, topic.partitions) < topic.partitions])
    _configure(admin, [topic for topic in topics if topic.name in existing])
    for topic in topics:
        typer.echo(f"{topic.name}: {topic.partitions} partitions")


def _partitions_by_topic(admin: AdminClient) -> dict[str, int]:
    try:
        metadata = admin.list_topics(timeout=REQUEST_SECONDS)
    except KafkaException as error:
        raise Retry(str(error.args[0])) from error
    return {name: len(topic.partitions) for name, topic in metadata.topics.items()}


def _create(admin: AdminClient, topics: list[Topic]) -> None:
    new = [
        NewTopic(
            topic.name,
            num_partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            config=dict(topic.config),
        )
        for topic in topics
    ]
    _settle(admin.create_topics, new, allowed=KafkaError.TOPIC_ALREADY_EXISTS)


def _grow(admin: AdminClient, topics: list[Topic]) -> None:
    _settle(admin.create_partitions, [NewPartitions(topic.name, topic.partitions) for topic in topics])


def _configure(admin: AdminClient, topics: list[Topic]) -> None:
    resources = [
        ConfigResource(
            ResourceType.TOPIC,
            topic.name,
            incremental_configs=[
                ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
                for name, value in topic.config.items()
            ],
        )
        for topic in topics
    ]
    _settle(admin.incremental_alter_configs, resources)


def _settle(
    call: Callable[[list[Any]], Mapping[Any, Future[Any]]], items: list[Any], allowed: int | None = None
) -> None:
    """Run an admin call on ``items`` and wait for each outcome; ``allowed`` is an error code that counts as success."""
    for item, outcome in (call(items) if items else {}).items():
        try:
            outcome.result(timeout=REQUEST_SECONDS)
        except KafkaException as error:
            reason = error.args[0]
            if reason.code() != allowed:
                raise InvalidConfiguration(f"compose/topics.yaml: {item}: {reason.str()}") from error
