"""Orphans that an agent keeps, from its report to an operator and, approved, through Kafka back to the planner."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import orjson
import psycopg
import pytest

from services.cli.guards.kept_orphans import Kept, kept_orphans, send_approvals
from services.common.avro import AvroCodec, SchemaRegistry, value_subject
from services.common.kafka import COMMANDS, OBSERVATIONS, PartitionReader, Publisher, observations_topic
from services.common.messages import Command, Observation, OrphansKept
from services.common.settings import KafkaSettings
from services.planner.database import periodic_queries
from services.planner.database.session import DatabaseSession
from services.planner.domain.events import Event
from services.planner.domain.policy import Policy
from services.planner.engines.available import ENGINES
from services.planner.pipeline.batch_planning import plan_batch
from tests.component.conftest import Database
from tests.component.fleet import add_instance
from tests.unit.planner.given import at

INSTANCE = "engine-1"
REPORTS = observations_topic("default")
OBJECTS = ("Application/gitopsdepl-one", "Secret/two")
REMOVALS = "SELECT name, manifest FROM engine_resources WHERE kind = 'OrphanRemoval'"


@pytest.fixture
def session(database: Database) -> Iterator[DatabaseSession]:
    """A session on a database that knows of an agent that keeps two orphans."""
    with psycopg.connect(database.owner_url) as owner:
        add_instance(owner, INSTANCE, "argocd")
    with closing(DatabaseSession(database.planner_url, ENGINES)) as opened:
        take(opened, kept(*OBJECTS))
        yield opened


def kept(*objects: str, finished: tuple[str, ...] = (), instance: str = INSTANCE) -> Event:
    event = OrphansKept(100, len(objects), objects, finished)
    return Event(Observation("", "", instance, "", "", at(1), event), 7, "")


def take(session: DatabaseSession, *events: Event) -> None:
    session.save_changes(plan_batch(events, session, Policy(), at(1000)), ())


def only(database: Database) -> Kept:
    (found,) = kept_orphans(database.owner_url)
    return found


def removals(database: Database) -> dict[str, list[str]]:
    with psycopg.connect(database.owner_url) as owner:
        return {name: orjson.loads(manifest)["objects"] for name, manifest in owner.execute(REMOVALS)}


def test_orphans_when_asked_for_then_operators_are_told_what_an_approval_removes(
    session: DatabaseSession, database: Database
) -> None:
    found = only(database)
    assert (found.place, found.existing, found.total, found.names, found.is_approved) == (
        INSTANCE,
        100,
        2,
        [*OBJECTS],
        False,
    )
    with session.connection() as connection:
        counted = [periodic_queries.count_kept_orphans(connection, [each]) for each in (7, 8)]
    assert counted == [2, 0]


def test_orphans_when_an_agent_tells_of_an_instance_that_there_is_not_then_it_is_passed_over(
    session: DatabaseSession, database: Database
) -> None:
    take(session, kept(*OBJECTS, instance="invented"))
    assert only(database).place == INSTANCE


def test_orphans_when_no_agent_tells_of_them_any_more_then_they_are_forgotten(
    session: DatabaseSession, database: Database
) -> None:
    with session.connection() as connection:
        assert periodic_queries.forget_kept_orphans(connection, at(1)) == 0
        assert periodic_queries.forget_kept_orphans(connection, at(2)) == 1
    assert kept_orphans(database.owner_url) == []


def test_orphans_when_approved_then_the_command_has_the_planner_tell_the_agent_until_that_has_finished(
    session: DatabaseSession, database: Database, kafka_bootstrap: str, registry_url: str
) -> None:
    settings = KafkaSettings(kafka_bootstrap_servers=kafka_bootstrap, schema_registry_url=registry_url)
    with PartitionReader(settings, "tests") as reader:
        before = reader.end_offsets(reader.partitions_of(COMMANDS))
        send_approvals(settings, kept_orphans(database.owner_url))
        (message,) = reader.read_messages(reader.end_offsets(before), before)
    codec = AvroCodec(SchemaRegistry(settings), Command, value_subject(COMMANDS))
    assert message.partition == partition_of_reports(settings)
    take(session, Event(codec.decode_message(message.value), message.partition, ""))
    digest = only(database).digest
    assert removals(database) == {digest: [*OBJECTS]}
    assert only(database).is_approved
    take(session, kept(finished=(digest,)))
    assert removals(database) == {}
    assert kept_orphans(database.owner_url) == []


def partition_of_reports(settings: KafkaSettings) -> int:
    """Where agents' reports of the instance go: the same planner is told of both."""
    publisher = Publisher(settings, "tests")
    with PartitionReader(settings, "tests") as reader:
        before = reader.end_offsets(reader.partitions_of(REPORTS))
        codec = AvroCodec(SchemaRegistry(settings), Observation, value_subject(OBSERVATIONS))
        report = kept(*OBJECTS).message
        assert isinstance(report, Observation)
        publisher.send_message(REPORTS, INSTANCE.encode(), codec.encode_message(report)).result()
        publisher.close()
        (message,) = reader.read_messages(reader.end_offsets(before), before)
    return message.partition
