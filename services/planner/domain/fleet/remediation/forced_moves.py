"""What an evacuation makes of moves: those from an instance that is down wait for it no more. Pure.

Such a move is ``forced``, whoever has ordered it: it ends on its target, in whatever step it is (``moves/moves.py``).
One that has not begun is as it was before if the instance works again. Called by ``remedy_orders.py``, before and after
it is decided who leaves (``evacuation.py``).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.remediation.remediation_rows import ACTOR
from services.planner.domain.fleet.rows import ON_SOURCE, Move, MoveStep


def with_forced_moves(instance: str, fleet: Fleet, now: datetime) -> Fleet:
    """With moves from the instance, whoever has ordered them, not waiting for it any more, nor for a place there."""
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
    """With those that others have ordered and that have not begun as they were: the instance is not down any more."""
    return fleet.with_moves(
        replace(move, path="whole", evacuated_for="")
        for move in fleet.moves.values()
        if (move.source, move.step, move.path) == (instance, "ordered", "forced") and move.actor != ACTOR
    )


def without_evacuation(instance: str, fleet: Fleet, why: str) -> Fleet:
    """Without those of its moves that have not begun: its tenants stay for now, and operators are told why."""
    return fleet.with_moves(
        replace(move, is_cancelled=True, message=why)
        for move in fleet.moves.values()
        if move.source == instance and move.actor == ACTOR and move.step == "ordered" and not move.is_cancelled
    )


def changed_moves(before: Fleet, after: Fleet, now: datetime) -> tuple[Move, ...]:
    """The rows of moves that change: before one that takes the place of another that one, which is over by then."""
    found: list[Move] = []
    for move in after.moves.values():
        earlier = before.moves.get(move.tenant_id)
        if earlier is not None and earlier.id != move.id:
            message = f"engine instance {earlier.target} is down, and its tenant goes on to {move.target}"
            has_begun = earlier.step != "ordered"
            end: MoveStep = "done" if has_begun else "cancelled"  # which says nothing of its target
            over = replace(earlier, step=end, is_cancelled=not has_begun, step_since=now, due_at=None, message=message)
            found.append(over)
        if move != earlier:
            found.append(move)
    return tuple(found)


def find_reason(instance: str, fleet: Fleet) -> str:
    """Why an instance is evacuated: what was told last of how it is; empty if nothing was."""
    health = fleet.health.get(instance)
    return health.reason if health is not None else ""
