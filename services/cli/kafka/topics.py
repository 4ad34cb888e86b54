"""``gitopsctl topics``: makes the Kafka cluster agree with the declarations in ``services/common/kafka``."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from itertools import chain
from pathlib import Path
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

from services.cli.kafka import acls as brokers_acls
from services.cli.kafka.topic_changes import (
    AddPartitions,
    AlterSettings,
    CreateTopic,
    TopicChange,
    TopicState,
    topic_changes,
)
from services.common.errors import InvalidConfiguration, Retry
from services.common.kafka import (
    DEFAULT_ENGINE_CLUSTER,
    ENGINE_CLUSTER_NAME,
    Rights,
    Topic,
    check_login,
    client_properties,
    kafka_at,
    load_acls,
    load_topics,
)
from services.common.kafka.topics import ACLS_FILE
from services.common.settings import BrokerSettings, load
from services.common.startup import await_dependency

app = typer.Typer(help="Kafka topics, and who may read and write them.", no_args_is_help=True)

REQUEST_SECONDS = 10.0

MOST_REPLICAS = 3
"""With three, any one broker may be lost while another is down for maintenance."""

TIMEOUT = typer.Option(30.0, help="Seconds to wait for the brokers.")
REPLICATION_FACTOR = typer.Option(
    0,
    envvar="TOPIC_REPLICATION_FACTOR",
    min=0,
    help=f"Copies of each new topic; 0: one on each broker, at most {MOST_REPLICAS}.",
)
ENGINE_CLUSTERS = typer.Option(
    [DEFAULT_ENGINE_CLUSTER],
    "--engine-cluster",
    metavar="ID",
    help="Also what this engine cluster has of its own; once for each, as after the brokers were lost.",
)
RIGHTS = typer.Option(ACLS_FILE, "--from", help="Declaration of rights, as services/common/kafka/acls.yaml.")
KEEP = typer.Option(
    False, "--keep", help="Take no right away: while services of the former release still run, which may need more."
)


@app.command()
def apply(
    *,
    timeout: float = TIMEOUT,
    replication_factor: int = REPLICATION_FACTOR,
    engine_clusters: list[str] = ENGINE_CLUSTERS,
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Print what would be created or changed, and change nothing."
    ),
) -> None:
    """Create missing topics, add missing partitions where that is safe, set the declared settings. Deletes nothing."""
    declared = [load_topics(), *(load_topics(engine_cluster=each) for each in known_clusters(engine_clusters))]
    make_topics(chain.from_iterable(declared), timeout, replication_factor, dry_run=dry_run)


@app.command()
def acls(
    *, timeout: float = TIMEOUT, source: Path = RIGHTS, engine_clusters: list[str] = ENGINE_CLUSTERS, keep: bool = KEEP
) -> None:
    """Give each principal that is declared exactly its rights; and its password, if that is given.

    The password of a principal is taken from KAFKA_PASSWORD_<NAME>; without that variable it stays as it is.
    """
    rights = load_acls(source)
    for each in known_clusters(engine_clusters):
        rights |= load_acls(source, engine_cluster=each)
    grant_rights(rights, timeout, keep=keep)


def known_clusters(names: Iterable[str]) -> list[str]:
    """``names``, if an engine cluster can be called so. Raises InvalidConfiguration."""
    names = list(names)
    for name in names:
        if not re.fullmatch(ENGINE_CLUSTER_NAME, name):
            raise InvalidConfiguration(f"'{name}' cannot be an engine cluster: it is no DNS label")
    return names


def password_variable(principal: str) -> str:
    """The environment variable of a principal's password."""
    return "KAFKA_PASSWORD_" + re.sub(r"[^A-Z0-9]", "_", principal.upper())


def make_topics(
    topics: Iterable[Topic],
    timeout: float,
    replication_factor: int,
    say: Callable[[str], None] = typer.echo,
    *,
    dry_run: bool = False,
) -> None:
    """Have the brokers agree with ``topics``, and ``say`` what is so then; with ``dry_run`` what would be changed.

    Raises InvalidConfiguration, Unavailable.
    """
    topics = tuple(topics)
    where, admin = _connected(timeout)
    brokers, existing = await_dependency(where, lambda: _described(admin, topics), timeout_seconds=timeout)
    copies = replication_factor or min(MOST_REPLICAS, brokers)
    changes = topic_changes(topics, existing, copies)
    if dry_run:
        say("\n".join(map(str, changes)) or "every topic is as declared")
        return
    _carry_out(admin, changes)
    for topic in topics:
        say(f"{topic.name}: {topic.partitions} partitions")
        if topic.name in existing and (there := existing[topic.name].replicas) < copies:
            typer.echo(f"{topic.name}: {there} replicas, not {copies}; see docs/operations/topics.md", err=True)


def grant_rights(
    rights: Mapping[str, Rights], timeout: float, say: Callable[[str], None] = typer.echo, *, keep: bool = False
) -> None:
    """Have the brokers agree with ``rights``, set the passwords that are given, and ``say`` whose.

    With ``keep`` principals also keep what rights they have besides.

    Raises InvalidConfiguration, NoPermission, Unavailable.
    """
    passwords = {name: os.environ.get(password_variable(name), "") for name in rights}
    where, admin = _connected(timeout)
    await_dependency(where, lambda: brokers_acls.require_superuser(admin), timeout_seconds=timeout)
    given = {name: password for name, password in passwords.items() if password}
    await_dependency(where, lambda: brokers_acls.set_passwords(admin, given), timeout_seconds=timeout)
    await_dependency(where, lambda: brokers_acls.set_rights(admin, rights, keep=keep), timeout_seconds=timeout)
    for name, each in rights.items():
        say(f"{name}: {len(each.topics)} topics, {len(each.groups)} groups{', password set' * (name in given)}")


def _connected(timeout: float) -> tuple[str, AdminClient]:
    """What to call the brokers, and a client that they have let in."""
    settings = load(BrokerSettings)
    where = kafka_at(settings)
    await_dependency(where, lambda: check_login(settings), timeout_seconds=timeout)
    return where, AdminClient(client_properties(settings) | {"log_level": 0})


def _described(admin: AdminClient, topics: Iterable[Topic]) -> tuple[int, dict[str, TopicState]]:
    """How many brokers there are, and those of ``topics`` that exist. Raises Retry, InvalidConfiguration."""
    try:
        metadata = admin.list_topics(timeout=REQUEST_SECONDS)
    except KafkaException as error:
        raise Retry(str(error.args[0])) from error
    existing = [topic.name for topic in topics if topic.name in metadata.topics]
    settings = _call_each(admin.describe_configs, [ConfigResource(ResourceType.TOPIC, name) for name in existing])
    return len(metadata.brokers), {
        resource.name: TopicState(
            partitions=len(partitions := metadata.topics[resource.name].partitions),
            replicas=min((len(partition.replicas) for partition in partitions.values()), default=0),
            settings={name: entry.value for name, entry in entries.items()},
        )
        for resource, entries in settings.items()
    }


def _carry_out(admin: AdminClient, changes: Iterable[TopicChange]) -> None:
    created, grown, altered = [], [], []
    for change in changes:
        match change:
            case CreateTopic(topic, copies):
                created.append(
                    NewTopic(
                        topic.name,
                        num_partitions=topic.partitions,
                        replication_factor=copies,
                        config=dict(change.settings),
                    )
                )
            case AddPartitions(topic):
                grown.append(NewPartitions(topic.name, topic.partitions))
            case AlterSettings(topic):
                altered.append(_altered(topic.name, change.settings))
    _call_each(admin.create_topics, created, allowed=KafkaError.TOPIC_ALREADY_EXISTS)
    _call_each(admin.create_partitions, grown)
    _call_each(admin.incremental_alter_configs, altered)


def _altered(topic: str, settings: Mapping[str, str]) -> ConfigResource:
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in settings.items()
    ]
    return ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)


def _call_each(
    call: Callable[[list[Any]], Mapping[Any, Future[Any]]], items: list[Any], allowed: int | None = None
) -> dict[Any, Any]:
    """Run an admin call on ``items`` and wait for each outcome; ``allowed`` is an error code that counts as success."""
    outcomes = {}
    for item, outcome in (call(items) if items else {}).items():
        try:
            outcomes[item] = outcome.result(timeout=REQUEST_SECONDS)
        except KafkaException as error:
            reason = error.args[0]
            if reason.code() != allowed:
                raise InvalidConfiguration(f"topics.yaml: {item}: {reason.str()}") from error
    return outcomes
