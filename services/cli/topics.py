"""``gitopsctl topics``: makes the Kafka cluster agree with ``compose/topics.yaml`` and ``compose/kafka/acls.yaml``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
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

from services.cli import acls as brokers_acls
from services.common.errors import InvalidConfiguration, Retry
from services.common.kafka import (
    COMMANDS,
    ENGINE,
    OBSERVATIONS,
    Topic,
    check_login,
    client_properties,
    kafka_at,
    load_acls,
    load_topics,
)
from services.common.settings import BrokerSettings, load
from services.common.startup import await_dependency

app = typer.Typer(help="Kafka topics, and who may read and write them.", no_args_is_help=True)

REQUEST_SECONDS = 10.0

VARIABLE = "KAFKA_PASSWORD_{}"

PARTITIONED_FOR_EVER = (COMMANDS, OBSERVATIONS, ENGINE)
"""With another number of partitions keys move. Of tenants that moved a resync in their former partition would miss
everything, and instances would lose their desired state: either way live Applications are deleted."""

MOST_REPLICAS = 3
"""With three, any one broker may be lost while another is down for maintenance."""

TIMEOUT = typer.Option(30.0, help="Seconds to wait for the brokers.")


@dataclass(frozen=True, slots=True)
class Cluster:
    """What there is: brokers, and of each topic the partitions and the least replicas that one of them has."""

    brokers: int
    partitions: Mapping[str, int]
    replicas: Mapping[str, int]


@app.command()
def apply(
    timeout: float = TIMEOUT,
    replication_factor: int = typer.Option(
        0,
        envvar="TOPIC_REPLICATION_FACTOR",
        min=0,
        help=f"Copies of each new topic; 0: one on each broker, at most {MOST_REPLICAS}.",
    ),
) -> None:
    """Create missing topics, add missing partitions where that is safe, set the declared settings. Deletes nothing."""
    topics = load_topics()
    where, admin = _connected(timeout)
    cluster = await_dependency(where, lambda: _described(admin), timeout_seconds=timeout)
    existing = cluster.partitions
    copies = replication_factor or min(MOST_REPLICAS, cluster.brokers)
    _require_partitions(existing, topics)
    _create(admin, [topic for topic in topics if topic.name not in existing], copies)
    _grow(admin, [topic for topic in topics if existing.get(topic.name, topic.partitions) < topic.partitions])
    _configure(admin, [(topic, cluster.replicas[topic.name]) for topic in topics if topic.name in existing])
    for topic in topics:
        typer.echo(f"{topic.name}: {topic.partitions} partitions")
        if (there := cluster.replicas.get(topic.name, copies)) < copies:
            typer.echo(f"{topic.name}: {there} replicas, not {copies}; see 'Replicas' in docs/operations.md", err=True)


@app.command()
def acls(timeout: float = TIMEOUT) -> None:
    """Give each principal of compose/kafka/acls.yaml exactly its rights; and its password, if that is given.

    The password of a principal is taken from KAFKA_PASSWORD_<NAME>; without that variable it stays as it is.
    """
    rights = load_acls()
    passwords = {name: os.environ.get(VARIABLE.format(name.upper().replace("-", "_")), "") for name in rights}
    where, admin = _connected(timeout)
    await_dependency(where, lambda: brokers_acls.require_superuser(admin), timeout_seconds=timeout)
    given = {name: password for name, password in passwords.items() if password}
    await_dependency(where, lambda: brokers_acls.set_passwords(admin, given), timeout_seconds=timeout)
    await_dependency(where, lambda: brokers_acls.set_rights(admin, rights), timeout_seconds=timeout)
    for name, each in rights.items():
        typer.echo(f"{name}: {len(each.topics)} topics, {len(each.groups)} groups{', password set' * (name in given)}")


def _connected(timeout: float) -> tuple[str, AdminClient]:
    """What to call the brokers, and a client that they have let in."""
    settings = load(BrokerSettings)
    where = kafka_at(settings)
    await_dependency(where, lambda: check_login(settings), timeout_seconds=timeout)
    return where, AdminClient(client_properties(settings) | {"log_level": 0})


def _described(admin: AdminClient) -> Cluster:
    try:
        metadata = admin.list_topics(timeout=REQUEST_SECONDS)
    except KafkaException as error:
        raise Retry(str(error.args[0])) from error
    return Cluster(
        brokers=len(metadata.brokers),
        partitions={name: len(topic.partitions) for name, topic in metadata.topics.items()},
        replicas={
            name: min((len(partition.replicas) for partition in topic.partitions.values()), default=0)
            for name, topic in metadata.topics.items()
        },
    )


def _require_partitions(existing: Mapping[str, int], topics: Iterable[Topic]) -> None:
    """Refuse to move keys. Raises InvalidConfiguration."""
    for topic in topics:
        there = existing.get(topic.name, topic.partitions)
        if topic.name in PARTITIONED_FOR_EVER and there != topic.partitions:
            raise InvalidConfiguration(
                f"compose/topics.yaml: {topic.name} has {there} partitions, not {topic.partitions}, and their number "
                "must not change: keys would move, and Applications that are in use would be deleted; write "
                f"{there} again. For more, see 'Partitions' in docs/operations.md"
            )


def _settings(topic: Topic, copies: int) -> dict[str, str]:
    """As declared; and a write counts (acks=all) once all copies but one have it, so that losing one loses nothing."""
    return {"min.insync.replicas": str(max(1, copies - 1))} | topic.config


def _create(admin: AdminClient, topics: list[Topic], copies: int) -> None:
    new = [
        NewTopic(
            topic.name,
            num_partitions=topic.partitions,
            replication_factor=copies,
            config=_settings(topic, copies),
        )
        for topic in topics
    ]
    _settle(admin.create_topics, new, allowed=KafkaError.TOPIC_ALREADY_EXISTS)


def _grow(admin: AdminClient, topics: list[Topic]) -> None:
    _settle(admin.create_partitions, [NewPartitions(topic.name, topic.partitions) for topic in topics])


def _configure(admin: AdminClient, topics: list[tuple[Topic, int]]) -> None:
    """Of each topic also how many copies it has."""
    resources = [
        ConfigResource(
            ResourceType.TOPIC,
            topic.name,
            incremental_configs=[
                ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
                for name, value in _settings(topic, copies).items()
            ],
        )
        for topic, copies in topics
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
