"""What was desired at a time is told from logs that begin behind their first offset, unless what is needed is gone."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from typer.testing import CliRunner, Result

from services.cli.__main__ import app
from services.cli.replay.complete_lists import listed_kinds
from services.cli.replay.replay_at import partition_of
from services.common.avro import AvroCodec, SchemaRegistry, value_subject
from services.common.kafka import (
    COMMANDS,
    OBSERVATIONS,
    Publisher,
    count_partitions,
    load_topics,
    observations_topic,
    tenant_key,
)
from services.common.messages import Applied, Command, Observation
from tests.component.conftest import Database
from tests.component.fleet import add_instance
from tests.unit.planner.given import changed, observed, resync
from tests.unit.planner.world import FLEET

HOUR_MS = "3600000"
"""Less than the time within which agents report again."""
REPORTS = observations_topic("default")
(DECLARED,) = [topic.config["retention.ms"] for topic in load_topics(engine_cluster="default") if topic.name == REPORTS]


class Log:
    """The partition of a tenant, of which commands and observations are sent."""

    def __init__(self, kafka: str, registry: SchemaRegistry, publisher: Publisher) -> None:
        self.workspace, self.namespace = f"w-{uuid.uuid4().hex[:8]}", "team-a"
        self.key = tenant_key(self.workspace, self.namespace)
        self.partition = partition_of(self.key, count_partitions(kafka, [COMMANDS])[COMMANDS])
        self._admin, self._publisher = AdminClient({"bootstrap.servers": kafka, "log_level": 0}), publisher
        self._commands = AvroCodec(registry, Command, value_subject(COMMANDS))
        self._observations = AvroCodec(registry, Observation, value_subject(OBSERVATIONS))

    def list_all(self) -> None:
        """One deployment is all there is."""
        epoch = round(time.time() * 1000)
        self._command(changed(1, epoch=epoch, workspace=self.workspace), self.key)
        for kind in listed_kinds():
            self._command(resync(1, epoch, kind=kind), None)

    def report(self) -> int:
        """Returns the offset after the observation."""
        message: Any = observed(1, Applied("uid-1"), instance=str(FLEET[0].id)).message
        value = self._observations.encode_message(replace(message, workspace=self.workspace))
        return self._publisher.send_message(REPORTS, self.key, value, {}, self.partition).result(timeout=30) + 1

    def remove_reports(self, before: int) -> None:
        """As retention does."""
        partition = ClientPartition(REPORTS, self.partition, before)
        self._admin.delete_records([partition])[partition].result(timeout=30)

    def set_retention(self, milliseconds: str) -> None:
        """Of observations."""
        entry = ConfigEntry("retention.ms", milliseconds, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, REPORTS, incremental_configs=[entry])
        self._admin.incremental_alter_configs([resource])[resource].result(timeout=30)

    def _command(self, event: Any, key: bytes | None) -> None:
        message = replace(event.message, source=self.workspace, workspace=self.workspace)
        value = self._commands.encode_message(message)
        self._publisher.send_message(COMMANDS, key, value, {}, self.partition).result(timeout=30)


@pytest.fixture
def log(kafka_bootstrap: str, registry_url: str) -> Iterator[Log]:
    """A list of everything, and observations of which none is left."""
    with closing(Publisher(kafka_bootstrap, "tests")) as publisher:
        made = Log(kafka_bootstrap, SchemaRegistry(registry_url), publisher)
        made.list_all()
        made.remove_reports(before=made.report())
        yield made
        made.set_retention(DECLARED)


@pytest.fixture
def replay_now(
    log: Log, database: Database, kafka_bootstrap: str, registry_url: str, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], Result]:
    """Tells what is desired now by the log, beside a database that knows the fleet and nothing else."""
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", kafka_bootstrap)
    monkeypatch.setenv("SCHEMA_REGISTRY_URL", registry_url)
    monkeypatch.setenv("DATABASE_OWNER_URL", database.owner_url)
    with psycopg.connect(database.owner_url) as owner:
        for each in FLEET:
            add_instance(owner, each.id, each.namespace)
    command = ["replay", "at", "PT0S", "--tenant", f"{log.workspace}/{log.namespace}"]
    return lambda: CliRunner().invoke(app, command)


@pytest.mark.parametrize("reports", [0, 1])
def test_replay_when_what_is_gone_is_older_than_what_is_needed_then_it_tells(
    log: Log, replay_now: Callable[[], Result], reports: int
) -> None:
    """Of a partition in which nothing is left, and of one that begins behind its first offset."""
    for _ in range(reports):
        log.report()
    told = replay_now()
    assert told.exit_code == 0, told.output
    assert f"--- {log.workspace}/{log.namespace}: GitOpsDeployment/web then" in told.stdout


def test_replay_when_what_is_needed_may_be_gone_then_it_is_refused_by_the_partitions_name(
    log: Log, replay_now: Callable[[], Result]
) -> None:
    log.set_retention(HOUR_MS)
    told = replay_now()
    assert (told.exit_code, told.stdout) == (1, "")
    assert f"{REPORTS}, partition {log.partition}: nothing is left from before" in told.stderr
