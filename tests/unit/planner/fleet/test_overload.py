"""What operators are told of an instance that carries too much: why no tenant leaves it, or when some will."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.pools.overload import explain_overload, instances_to_relieve
from services.planner.domain.fleet.pools.pool_rows import Burdens, Overload
from services.planner.domain.fleet.rollouts.rollout_rows import Rollout
from tests.unit.planner.fleet.test_move_orders import MOVE
from tests.unit.planner.fleet.test_scaling import DOWN, FIRST, NOW, OVERLOADED, SECOND, THIRD, alone, row_of

ROLLOUT = Rollout(
    UUID(int=3), "3.2.11", "", "canary,general", 60, False, "soaking", "canary", 10, False, "", "[]", "[]", "", 20, 2,
    "until noon", "ada", NOW, NOW, NOW, NOW,
)  # fmt: skip
SOON = Burdens({FIRST: Overload(FIRST, NOW + timedelta(minutes=7))})
CARRIES = "it carries more than 85% of its capacity"
REASONS: dict[str, tuple[Callable[[Fleet], Fleet], str]] = {
    "some can leave": (
        lambda fleet: fleet,
        "; from 2026-05-04T14:53:40+00:00 on tenants leave it unless it carries less by then: 1",
    ),
    "no other takes any": (
        lambda fleet: row_of(fleet, SECOND, state="full"),
        ", and cannot be relieved: no other of its region, ring, class and owner takes a tenant of it",
    ),
    "a rollout is under way": (
        lambda fleet: fleet.with_rollout(ROLLOUT),
        ", and no tenant leaves it for now: a rollout is under way",
    ),
    "another is evacuated": (
        lambda fleet: replace(fleet, health={THIRD: DOWN}).with_move(replace(MOVE, source=THIRD, step="preparing")),
        f", and no tenant leaves it for now: tenants leave {THIRD}, which is down",
    ),
    "it is down": (
        lambda fleet: replace(fleet, health={FIRST: DOWN}),
        ", and is down: remediation moves its tenants",
    ),
}


@pytest.mark.parametrize(("changed", "told"), REASONS.values(), ids=REASONS)
def test_instance_when_it_carries_too_much_then_operators_are_told_what_becomes_of_that(
    changed: Callable[[Fleet], Fleet], told: str
) -> None:
    assert explain_overload(FIRST, changed(alone(OVERLOADED)), SOON, NOW) == CARRIES + told


def test_instance_when_it_did_not_carry_too_much_at_the_last_look_then_nothing_is_told_of_it() -> None:
    assert explain_overload(SECOND, alone(OVERLOADED), SOON, NOW) == ""
    assert instances_to_relieve(SECOND, alone(OVERLOADED), SOON, NOW) == set()


def test_tenants_when_it_is_explained_then_those_are_read_that_might_leave_it_or_are_where_they_would_go() -> None:
    assert instances_to_relieve(FIRST, alone(OVERLOADED), SOON, NOW) == {FIRST, SECOND}
    assert instances_to_relieve(FIRST, alone(OVERLOADED).with_rollout(ROLLOUT), SOON, NOW) == set()
