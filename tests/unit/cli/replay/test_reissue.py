"""A spec that is put in force again: until the resource changes or is listed again, and not against a newer change."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from services.cli.replay.reissue import StoredDeployment, reissued
from services.common.messages import Command
from services.planner.domain.events import Event
from tests.unit.planner.given import NAMESPACE, WORKSPACE, at, changed, spec, traceparent
from tests.unit.planner.world import World

TENANT = (WORKSPACE, NAMESPACE)
OLD, NEW, NEWEST = (spec(source={"path": path}) for path in ("old", "new", "newest"))


@pytest.fixture
def world() -> World:
    """A deployment whose spec was changed."""
    world = World()
    world.take(changed(1, content=OLD))
    world.take(changed(2, generation=2, content=NEW))
    return world


def former_spec(world: World, content: Any = OLD) -> Event:
    """As ``replay at --apply`` sends it by what is known now."""
    (known,) = world.deployments.values()
    row = StoredDeployment(
        known.source,
        known.name,
        known.uid,
        known.resource_version,
        known.generation,
        known.epoch,
        known.finalizer,
        known.metadata,
        "",
        0,
    )
    message: Command = reissued(TENANT, row, content, at(50))
    return Event(message, 0, traceparent(50))


def deployed(world: World) -> str:
    (row,) = (row for row in world.engine.values() if row.kind == "Application")
    path: str = orjson.loads(row.manifest)["spec"]["source"]["path"]
    return path


def test_spec_when_it_is_re_issued_then_it_is_deployed(world: World) -> None:
    world.take(former_spec(world))
    assert deployed(world) == "old"


def test_spec_when_the_resource_changes_afterwards_then_what_that_says_is_deployed(world: World) -> None:
    world.take(former_spec(world))
    world.take(changed(60, generation=3, content=NEWEST))
    assert deployed(world) == "newest"


def test_spec_when_the_resource_is_listed_again_then_what_that_says_is_deployed(world: World) -> None:
    world.take(former_spec(world))
    world.take(changed(2, generation=2, content=NEW, epoch=9))
    assert deployed(world) == "new"


def test_spec_when_the_resource_has_changed_meanwhile_then_it_counts_for_nothing(world: World) -> None:
    late = former_spec(world)
    world.take(changed(60, generation=3, content=NEWEST))
    world.take(late)
    assert deployed(world) == "newest"


def test_spec_when_re_issued_as_it_is_in_the_database_then_it_is_taken_as_it_is(world: World) -> None:
    (known,) = world.deployments.values()
    assert known.spec is not None
    assert world.take(former_spec(world, orjson.loads(known.spec))).engine == ()
