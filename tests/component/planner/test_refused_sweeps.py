"""A refused resync, from the planner's table to an operator and, approved, through Kafka back to the planner."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import psycopg
import pytest

from services.cli.guards.resync import RefusedList, lacked_resources, refused_lists, send_approvals
from services.common.avro import AvroCodec, SchemaRegistry, value_subject
from services.common.kafka import COMMANDS, PartitionReader, TopicPartition
from services.common.messages import Command
from services.common.settings import KafkaSettings
from services.planner.database import periodic_queries
from services.planner.database.session import DatabaseSession
from services.planner.domain.events import Event
from services.planner.domain.policy import Policy, SweepGuard
from services.planner.engines.available import ENGINES
from services.planner.pipeline.batch_planning import plan_batch
from tests.component.conftest import Database
from tests.component.fleet import add_instance
from tests.component.planner.sweeping import remove_parts
from tests.unit.planner.given import at, changed, environment, resync
from tests.unit.planner.world import FLEET

PARTITION = 7
POLICY = Policy(guard=SweepGuard(share=0.5, minimum=1))


@pytest.fixture
def session(database: Database) -> Iterator[DatabaseSession]:
    """A session on a database that knows the fleet, and of which a list lacked three deployments of four."""
    with psycopg.connect(database.owner_url) as owner:
        for instance in FLEET:
            add_instance(owner, instance.id, instance.namespace)
    with closing(DatabaseSession(database.planner_url, ENGINES)) as opened:
        take(opened, *(changed(number, f"web-{number}", uid=f"uid-{number}") for number in range(1, 5)), environment(5))
        take(opened, changed(4, "web-4", uid="uid-4", epoch=9))
        take(opened, resync(10, epoch=9))
        yield opened


def take(session: DatabaseSession, *events: Event) -> None:
    placed = [replace(event, partition=PARTITION) for event in events]
    session.save_changes(plan_batch(placed, session, POLICY, at(1000)), ())
    remove_parts(session, POLICY, at(1000), PARTITION)


def only(database: Database) -> RefusedList:
    (found,) = refused_lists(database.owner_url)
    return found


def left(database: Database) -> list[str]:
    with psycopg.connect(database.owner_url) as owner:
        return [name for (name,) in owner.execute("SELECT name FROM deployments WHERE present ORDER BY name")]


def test_refusal_when_asked_for_then_it_tells_how_much_and_what_would_go(
    session: DatabaseSession, database: Database
) -> None:
    found = only(database)
    assert (found.place, found.epoch, found.known, found.unseen) == (f"local/GitOpsDeployment/{PARTITION}", 9, 4, 3)
    lacked = lacked_resources(database.owner_url, [found], 10)
    assert [(each["tenant"], each["resource"], each["uid"]) for each in lacked] == [
        ("local/team-a", f"GitOpsDeployment/web-{number}", f"uid-{number}") for number in (1, 2, 3)
    ]
    with session.connection() as connection:
        counted = [periodic_queries.count_refused_sweeps(connection, [each]) for each in (PARTITION, PARTITION + 1)]
    assert counted == [1, 0]


def test_refusal_when_some_were_seen_since_then_these_are_not_shown_any_more(
    session: DatabaseSession, database: Database
) -> None:
    take(session, changed(2, "web-2", uid="uid-2", epoch=9))
    found = only(database)
    assert found.unseen == 2
    assert [each["uid"] for each in lacked_resources(database.owner_url, [found], 10)] == ["uid-1", "uid-3"]


def test_refusal_when_approved_then_the_command_has_the_planner_remove_what_was_shown(
    session: DatabaseSession, database: Database, kafka_bootstrap: str, registry_url: str
) -> None:
    settings = KafkaSettings(kafka_bootstrap_servers=kafka_bootstrap, schema_registry_url=registry_url)
    source = TopicPartition(COMMANDS, PARTITION)
    with PartitionReader(settings, "tests") as reader:
        before = reader.end_offsets([source])
        send_approvals(settings, refused_lists(database.owner_url))
        (message,) = reader.read_messages(reader.end_offsets([source]), before)
    codec = AvroCodec(SchemaRegistry(settings), Command, value_subject(COMMANDS))
    take(session, Event(codec.decode_message(message.value), message.partition, ""))
    assert left(database) == ["web-4"]
    assert refused_lists(database.owner_url) == []


def test_refusal_when_a_newer_list_is_refused_then_it_takes_its_place_and_an_older_does_not(
    session: DatabaseSession, database: Database
) -> None:
    take(session, resync(20, epoch=12))
    take(session, resync(20, epoch=11))
    assert (only(database).epoch, only(database).unseen) == (12, 4)
