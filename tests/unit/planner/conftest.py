"""Worlds to begin with."""

from __future__ import annotations

import pytest

from tests.unit.planner.given import changed, environment, secret
from tests.unit.planner.tenant import MANUAL, check
from tests.unit.planner.world import World


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def connected(world: World) -> World:
    """An environment that was checked."""
    world.take(secret(1), environment(2))
    check(world, 3)
    return world


@pytest.fixture
def manual(world: World) -> World:
    world.take(changed(1, content=MANUAL))
    return world
