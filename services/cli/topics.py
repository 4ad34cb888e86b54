"""``gitopsctl topics``: makes the Kafka cluster agree with ``compose/topics.yaml`` and ``compose/kafka/acls.yaml``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
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

from services.cli import acls as brokers_acls
from services.common.errors import InvalidConfiguration, Retry
from services.common.kafka import (
    COMMANDS,
    ENGINE,
    OBSERVATIONS,
    Topic,
    check_login,
    client_properties,
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

TIMEOUT = typer.Option(30.0, help="Seconds to wait for the brokers.")


@app.command()
def apply(timeout: float = TIMEOUT) -> None:
    """Create missing topics, add missing partitions where that is safe, set the declared settings. Deletes nothing."""
    topics = load_topics()
    where, admin = _connected(timeout)
    existing = await_dependency(where, lambda: _partitions_by_topic(admin), timeout_seconds=timeout)
    _require_partitions(existing, topics)
    _create(admin, [topic for topic in topics if topic.name not in existing])
    _grow(admin, [topic for topic in topics if existing.get(topic.name, topic.partitions) < topic.partitions])
    _configure(admin, [topic for topic in topics if topic.name in existing])
    for topic in topics:
        typer.echo(f"{topic.name}: {topic.partitions} partitions")


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
    where = f"Kafka at {settings.kafka_bootstrap_servers}"
    await_dependency(where, lambda: check_login(settings), timeout_seconds=timeout)
    return where, AdminClient(client_properties(settings) | {"log_level": 0})


def _partitions_by_topic(admin: AdminClient) -> dict[str, int]:
    try:
        metadata = admin.list_topics(timeout=REQUEST_SECONDS)
    except KafkaException as error:
        raise Retry(str(error.args[0])) from error
    return {name: len(topic.partitions) for name, topic in metadata.topics.items()}


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
