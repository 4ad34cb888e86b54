"""Parts of sweeps in PostgreSQL: they outlive whoever decided them, and only the partition's owner carries them out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import psycopg
import pytest

from services.common.kafka import COMMANDS, LogExtent, TopicPartition
from services.planner.database import periodic_queries
from services.planner.database.save import Fenced, Span
from services.planner.database.session import DatabaseSession
from services.planner.domain.events import Event
from services.planner.domain.policy import Policy, SweepGuard
from services.planner.engines.available import ENGINES
from services.planner.pipeline.batch_planning import plan_batch, split_at_markers
from tests.component.conftest import Database
from tests.component.fleet import add_instance
from tests.component.planner.sweeping import due_sweep, remove_part, remove_parts
from tests.unit.planner.given import at, changed, gone, resync
from tests.unit.planner.world import FLEET

POLICY = Policy(guard=SweepGuard(share=0.8, minimum=0, at_once=3))
NOW = at(1000)
SOURCE = TopicPartition(COMMANDS, 0)
UNMOVED = [Span(*SOURCE, 0, 0)]


@pytest.fixture
def session(database: Database) -> Iterator[DatabaseSession]:
    """Ten deployments, of which a list lacked eight, which go three at a time."""
    with psycopg.connect(database.owner_url) as owner:
        for instance in FLEET:
            add_instance(owner, instance.id, instance.namespace)
    with closing(DatabaseSession(database.planner_url, ENGINES)) as opened:
        opened.claim_partitions([SOURCE])
        take(opened, *(deployment(number, epoch=1) for number in range(10)))
        take(opened, *(deployment(number, epoch=9) for number in (8, 9)), resync(20, epoch=9))
        yield opened


def take(session: DatabaseSession, *events: Event) -> None:
    for part in split_at_markers(events):
        session.write_changes(plan_batch(part, session, POLICY, NOW), UNMOVED)
    session.save_changes(plan_batch([], session, POLICY, NOW), UNMOVED)


def deployment(number: int, epoch: int) -> Event:
    return changed(1, f"web-{number}", uid=f"uid-{number}", version=1, epoch=epoch)


def left(database: Database) -> set[str]:
    with psycopg.connect(database.owner_url) as owner:
        return {name for (name,) in owner.execute("SELECT name FROM deployments WHERE present")}


def parts(session: DatabaseSession) -> int:
    with session.connection() as connection:
        return periodic_queries.count_sweep_parts(connection, [0])


def test_marker_when_it_is_committed_then_nothing_is_removed_yet_and_all_that_is_to_be_is_in_parts(
    session: DatabaseSession, database: Database
) -> None:
    assert (len(left(database)), parts(session)) == (10, 3)
    assert [len(written.deployments) for written in remove_parts(session, POLICY, NOW)] == [3, 3, 2]
    assert (left(database), parts(session)) == ({"web-8", "web-9"}, 0)


def test_planner_when_it_ends_within_a_part_then_its_successor_goes_on_with_that_part(
    session: DatabaseSession, database: Database
) -> None:
    remove_parts(session, POLICY, NOW, most=1)
    due = due_sweep(session)
    assert due is not None
    event = Event(due, 0, "")
    session.write_changes(plan_batch([event], session, POLICY, NOW), UNMOVED)
    session.close()
    assert (len(left(database)), len(left(database)) - 2) == (7, 5)
    with closing(DatabaseSession(database.planner_url, ENGINES)) as successor:
        successor.claim_partitions([SOURCE])
        assert due_sweep(successor) == due
        remove_parts(successor, POLICY, NOW)
        assert parts(successor) == 0
    assert left(database) == {"web-8", "web-9"}


def test_part_when_another_planner_has_the_partition_then_it_is_fenced_and_nothing_goes(
    session: DatabaseSession, database: Database
) -> None:
    due = due_sweep(session)
    assert due is not None
    with closing(DatabaseSession(database.planner_url, ENGINES)) as successor:
        successor.claim_partitions([SOURCE])
        with pytest.raises(Fenced):
            remove_part(session, due, POLICY, NOW, UNMOVED)
        assert (len(left(database)), parts(successor)) == (10, 3)
        remove_part(successor, due, POLICY, NOW, UNMOVED)
    assert len(left(database)) == 7


def test_resource_when_it_is_made_anew_or_seen_between_two_parts_then_it_stays(
    session: DatabaseSession, database: Database
) -> None:
    remove_parts(session, POLICY, NOW, most=1)
    seen, named = sorted(left(database) - {"web-8", "web-9"})[:2]
    number = int(seen.removeprefix("web-"))
    take(session, deployment(number, epoch=9), changed(30, named, uid="uid-new", epoch=9))
    remove_parts(session, POLICY, NOW)
    assert left(database) == {"web-8", "web-9", seen, named}
    assert parts(session) == 0


def test_list_when_it_is_complete_between_two_parts_then_what_goes_already_is_neither_counted_nor_decided_again(
    session: DatabaseSession, database: Database
) -> None:
    """Of the two that it knows it lacks one: more would be refused, and all eight are."""
    remove_parts(session, POLICY, NOW, most=1)
    policy = replace(POLICY, guard=replace(POLICY.guard, share=0.5))
    take(session, deployment(8, epoch=12))
    session.save_changes(plan_batch([resync(40, epoch=12)], session, policy, NOW), ())
    with session.connection() as connection:
        assert periodic_queries.count_refused_sweeps(connection, [0]) == 0
    assert parts(session) == 3, "two of the former list, one of the newer"
    remove_parts(session, policy, NOW)
    assert left(database) == {"web-8"}


def test_part_when_its_resources_are_gone_meanwhile_then_it_ends_without_changes(
    session: DatabaseSession, database: Database
) -> None:
    take(session, *(gone(30, f"web-{number}", uid=f"uid-{number}") for number in range(8)))
    assert [(written.deployments, len(written.sweep_parts_done)) for written in remove_parts(session, POLICY, NOW)] == [
        ((), 1)
    ] * 3
    assert left(database) == {"web-8", "web-9"}


def test_log_when_it_is_made_anew_then_what_lists_of_the_former_one_lacked_stays(
    session: DatabaseSession, database: Database
) -> None:
    """Its epochs may be lower: what it shows would count as unseen."""
    other = TopicPartition(COMMANDS, 1)
    session.claim_partitions([SOURCE, other], {SOURCE: LogExtent("a", 0, 9), other: LogExtent("a", 0, 9)})
    take_elsewhere = replace(changed(1, "api", uid="uid-api", namespace="team-b"), partition=1)
    session.save_changes(plan_batch([take_elsewhere], session, POLICY, NOW), ())
    everything = Policy(guard=SweepGuard(share=1.0))
    session.save_changes(plan_batch([resync(20, epoch=9, partition=1)], session, everything, NOW), ())
    session.claim_partitions([SOURCE, other], {SOURCE: LogExtent("b", 0, 3), other: LogExtent("a", 0, 9)})
    assert due_sweep(session) is None
    assert due_sweep(session, partition=1) is not None, "the other partition is the same as before"
    assert len(left(database)) == 11
