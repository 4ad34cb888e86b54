"""What an evacuation makes of moves: moves from an instance that is down do not wait for it any more. Pure.

Such a move is ``forced``, whoever has ordered it: it ends on its target, whatever its step is (``moves/moves.py``). If
the instance works again, a move that has not begun is as it was before. ``remedy_orders.py`` calls this before and
after ``evacuation.py`` decides who leaves.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.remediation.remediation_rows import ACTOR
from services.planner.domain.fleet.rows import ON_SOURCE, Move, MoveStep


def with_forced_moves(instance: str, fleet: Fleet, now: datetime) -> Fleet:
    """The fleet with forced moves from the instance: they wait neither for it nor for a place there."""
    return fleet.with_moves(
        replace(
            move,
            path="forced",
            evacuated_for=find_reason(instance, fleet),
            due_at=None if move.step == "ordered" else now,
        )
        for move in fleet.moves.values()
        if move.source == instance and move.path == "whole" and move.step in ("ordered", *ON_SOURCE)
    )


def without_forced_moves(instance: str, fleet: Fleet) -> Fleet:
    """The fleet after the instance is up: moves that others ordered and that have not begun are not forced any more."""
    return fleet.with_moves(
        replace(move, path="whole", evacuated_for="")
        for move in fleet.moves.values()
        if (move.source, move.step, move.path) == (instance, "ordered", "forced") and move.actor != ACTOR
    )


def without_evacuation(instance: str, fleet: Fleet, why: str) -> Fleet:
    """The fleet with the evacuation's moves cancelled that have not begun; ``why``: their message for operators."""
    return fleet.with_moves(
        replace(move, is_cancelled=True, message=why)
        for move in fleet.moves.values()
        if move.source == instance and move.actor == ACTOR and move.step == "ordered" and not move.is_cancelled
    )


def changed_moves(before: Fleet, after: Fleet, now: datetime) -> tuple[Move, ...]:
    """The rows of moves that change. A move that is replaced is over, and comes before the one that replaces it."""
    found: list[Move] = []
    for move in after.moves.values():
        earlier = before.moves.get(move.tenant_id)
        if earlier is not None and earlier.id != move.id:
            message = f"engine instance {earlier.target} is down, and its tenant goes on to {move.target}"
            has_begun = earlier.step != "ordered"
            end: MoveStep = "done" if has_begun else "cancelled"  # neither says that the tenant is on the target
            over = replace(earlier, step=end, is_cancelled=not has_begun, step_since=now, due_at=None, message=message)
            found.append(over)
        if move != earlier:
            found.append(move)
    return tuple(found)


def find_reason(instance: str, fleet: Fleet) -> str:
    """Why an instance is evacuated: the reason of its newest health report; empty if there was no report."""
    health = fleet.health.get(instance)
    return health.reason if health is not None else ""
