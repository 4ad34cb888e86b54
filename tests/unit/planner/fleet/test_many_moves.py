"""What is decided while thousands of tenants move: all moves are copied once for a batch, and not once for each."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import ClassVar
from uuid import UUID

import pytest

from services.common.messages import FleetOrder, RebalanceFleet
from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.moves.move_orders import begin_moves
from services.planner.domain.fleet.moves.rebalance_orders import rebalance_fleet
from services.planner.domain.fleet.remediation.evacuation import evacuate
from services.planner.domain.fleet.remediation.forced_moves import with_forced_moves
from services.planner.domain.fleet.rollouts.rollout import advance_rollout
from services.planner.domain.fleet.rollouts.rollout_rows import Rollout
from services.planner.domain.fleet.rollouts.transitions import withdraw_moves
from services.planner.domain.fleet.rows import EngineInstanceRow, Move, MoveStep
from tests.unit.planner.fleet.rolled import EVERY, NEW, Rolled
from tests.unit.planner.fleet.test_move_orders import MOVE
from tests.unit.planner.given import at

TENANTS = 60
NOW = at(1000)
OLD_ONE, NEW_ONE = "general-old-0", "general-new-0"
MOST_COPIES = 2
"""Of all moves, in a step that changes many of them."""


@dataclass(frozen=True)
class CountedFleet(Fleet):
    """A fleet that knows which mappings of moves were made of it."""

    made: ClassVar[dict[int, Mapping[UUID, Move]]] = {}

    def __post_init__(self) -> None:
        self.made[id(self.moves)] = self.moves


def counted(fleet: Fleet) -> CountedFleet:
    """The same, of which nothing was made yet."""
    CountedFleet.made.clear()
    return CountedFleet(**{each.name: getattr(fleet, each.name) for each in fields(Fleet)})


def rolled() -> Rolled:
    """Tenants of one old instance, while a rollout moves all of them to a new one."""
    found = Rolled.of({"general": (1, 1)}, tenants=TENANTS)
    found.rollout = Rollout(
        id=UUID(int=5), version=NEW, profile="", rings="general", soak_seconds=300, is_security=False, step="moving",
        ring="general", stage=100, is_paused=False, outcome="", sources=json.dumps([OLD_ONE]),
        targets=json.dumps([NEW_ONE]), baseline="", tenants=TENANTS, moved=0, reason="", actor="ada",
        ordered_at=at(1), step_since=NOW, moved_at=NOW, due_at=NOW,
    )  # fmt: skip
    return found


def moves(step: MoveStep) -> dict[UUID, Move]:
    """One of each tenant, from the old instance to the new one."""
    one = replace(MOVE, source=OLD_ONE, target=NEW_ONE, step=step)
    return {known: replace(one, id=known, tenant_id=known) for known in (UUID(int=n + 1) for n in range(TENANTS))}


def in_states(fleet: Fleet, **states: str) -> Mapping[str, EngineInstanceRow]:
    """The two instances in other states, and in no rollout."""
    return {
        name: replace(row, state=states[name.split("-")[1]], ring="early")  # type: ignore[arg-type]
        for name, row in fleet.instances.items()
    }


def changed(before: Fleet, after: Fleet) -> int:
    """How many moves are others than before."""
    return sum(move != before.moves.get(known) for known, move in after.moves.items())


def test_moves_when_none_of_many_can_begin_then_the_fleet_is_the_very_same() -> None:
    ordered = replace(rolled().fleet, moves=moves("ordered"))
    assert begin_moves(ordered, NOW, at_once=0) is ordered


EVENTS: dict[str, tuple[MoveStep | None, Callable[[Fleet], Fleet]]] = {
    "their target drains": (
        "ordered",
        lambda fleet: begin_moves(
            replace(fleet, instances=in_states(fleet, old="accepting", new="draining")), NOW, at_once=5
        ),
    ),
    "as many begin as there is room for": ("ordered", lambda fleet: begin_moves(fleet, NOW, at_once=TENANTS)),
    "a rollout is paused": ("ordered", lambda fleet: withdraw_moves(fleet, NOW, "the rollout is paused")),
    "their source is evacuated": ("pausing", lambda fleet: with_forced_moves(OLD_ONE, fleet, NOW)),
    "a rollout orders all of them": (None, lambda fleet: advance_rollout(fleet, NOW, EVERY)),
    "a rebalance orders all of them": (
        None,
        lambda fleet: rebalance_fleet(
            FleetOrder(UUID(int=9), "ada", NOW, RebalanceFleet()),
            replace(fleet, instances=in_states(fleet, old="draining", new="accepting"), rollout=None),
        )[1],
    ),
    "an evacuation orders all of them": (None, lambda fleet: evacuate(OLD_ONE, replace(fleet, rollout=None), NOW)[1]),
}


@pytest.mark.parametrize("event", EVENTS.values(), ids=[*EVENTS])
def test_moves_when_many_change_at_once_then_all_of_them_are_copied_for_the_batch_and_not_for_each(
    event: tuple[MoveStep | None, Callable[[Fleet], Fleet]],
) -> None:
    step, decide = event
    before = counted(replace(rolled().fleet, moves=moves(step) if step is not None else {}))
    after = decide(before)
    assert changed(before, after) == TENANTS
    assert len(CountedFleet.made) - 1 <= MOST_COPIES
