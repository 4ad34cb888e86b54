"""A command that a watcher sends after another one leads, and after its resource is gone without a trace."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from services.planner.domain.events import Event
from services.planner.domain.policy import Policy
from services.planner.pipeline.batch_planning import plan_batch
from tests.unit.planner.given import (
    ENVIRONMENT,
    NAMESPACE,
    WORKSPACE,
    Removed,
    changed,
    environment,
    gone,
    observed,
    resync,
)
from tests.unit.planner.world import NOW, World

LATE = changed(2, epoch=1)
"""What the former leader has in hand, of a version that nobody was told of."""


def removed(world: World, second: int, uid: str = "uid-1") -> Event:
    row = world.application(uid)
    assert row is not None
    return observed(second, Removed(forced=False), instance=row.engine_instance_id, name=row.name)


def there(world: World) -> list[str]:
    return sorted(each.name for each in world.deployments.values() if each.present)


@pytest.fixture
def deleted(world: World) -> World:
    """A deployment that two leaders have listed, at epochs 1 and 5, and that is gone since, Application and all."""
    world.take(changed(1, epoch=1), resync(1, epoch=1))
    world.take(changed(1, epoch=5), resync(3, epoch=5))
    world.take(gone(4))
    world.take(removed(world, 5))
    assert not world.deployments
    return world


def test_command_when_it_is_late_and_its_resource_is_gone_without_a_trace_then_nothing_comes_of_it(
    deleted: World,
) -> None:
    before = deleted.rows()
    deleted.take(LATE)
    assert deleted.rows() == before


def test_command_when_it_is_late_and_its_resource_was_never_told_of_then_nothing_comes_of_it(world: World) -> None:
    world.take(resync(3, epoch=5))
    world.take(LATE)
    assert there(world) == []


def test_command_when_the_newer_list_ends_in_the_same_batch_then_it_is_late_behind_the_marker_only(
    world: World,
) -> None:
    world.take(changed(1, "before", uid="uid-0", epoch=1), resync(3, epoch=5), changed(2, "behind", epoch=1))
    assert there(world) == []
    assert [each.name for each in world.deployments.values()] == ["before"], "it was planned, and then swept"


@pytest.mark.parametrize("epoch", [5, 6])
def test_command_when_its_resource_is_new_since_the_newest_list_then_it_counts(deleted: World, epoch: int) -> None:
    deleted.take(changed(6, "new", uid="uid-2", epoch=epoch))
    assert there(deleted) == ["new"]


OF_OTHERS = [
    pytest.param([resync(3, epoch=5, kind=ENVIRONMENT)], id="another kind"),
    pytest.param([resync(3, epoch=5, partition=1)], id="another partition"),
    pytest.param([resync(3, epoch=1)], id="its own list"),
    pytest.param([resync(3, epoch=5), changed(1, epoch=5)], id="it is known"),
]


@pytest.mark.parametrize("events", OF_OTHERS)
def test_command_when_the_newer_list_is_of_something_else_or_has_it_then_it_counts(
    world: World, events: Sequence[Event]
) -> None:
    world.take(*events)
    world.take(changed(9, epoch=1))
    assert there(world) == ["web"]


def test_command_when_it_is_of_another_kind_and_late_then_nothing_comes_of_it_either(world: World) -> None:
    world.take(resync(3, epoch=5, kind=ENVIRONMENT))
    world.take(environment(2, epoch=1))
    assert not world.resources


def test_command_when_it_was_kept_of_a_parked_tenant_then_lists_that_ended_since_do_not_make_it_late(
    world: World,
) -> None:
    """It was judged when it came."""
    world.take(resync(3, epoch=5))
    changes = plan_batch([LATE], world, Policy(), NOW, only=(WORKSPACE, NAMESPACE))
    assert [each.name for each in changes.written.deployments] == ["web"]


def test_logs_when_they_are_replayed_into_an_empty_database_then_each_command_counts_as_it_did(world: World) -> None:
    """Whatever the batches: lists are taken as they come in the log."""
    log = [
        changed(1, "first", uid="uid-1", epoch=1),
        resync(2, epoch=1),
        changed(3, "second", uid="uid-2", epoch=1),
        changed(1, "first", uid="uid-1", epoch=5),
        changed(3, "second", uid="uid-2", epoch=5),
        resync(6, epoch=5),
        changed(4, "late", uid="uid-3", epoch=1),
        changed(7, "third", uid="uid-4", epoch=5),
    ]
    at_once = World()
    at_once.take(*log)
    for event in log:
        world.take(event)
    assert there(world) == there(at_once) == ["first", "second", "third"]


@pytest.mark.parametrize("version", [1, 2])
def test_command_when_it_is_late_and_its_application_is_being_removed_then_it_stays_so_whatever_its_version(
    world: World, version: int
) -> None:
    """The list of the next leader lacked it; the version that its predecessor has in hand may be a newer one."""
    world.take(changed(1, epoch=1))
    world.take(resync(3, epoch=5))
    world.take(changed(2, version=version, epoch=1))
    assert there(world) == []
