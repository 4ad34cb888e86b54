"""Deployments that were moved, until the target reports on them: which stay on the engine, and what their CRs show.

What the source reported stays, except what does not hold for the target, such as versions of objects
(``begin_move_step`` in ``handover.py``). So the rows of a deployment show whether the instance that has it now has made
its Application, and has reported on it. Called by the steps that compile deployments and statuses and that apply
reports, and when changes are collected.
"""

from __future__ import annotations

from services.kinds.gitops_deployment.rows import Deployment, Observed
from services.planner.domain.fleet.moves.moves import KEEPING
from services.planner.domain.fleet.rows import ON_SOURCE, Move
from services.planner.domain.planned_tenant import Context
from services.planner.domain.state import TenantState


def stays_on_engine(row: Deployment | None, state: TenantState, move: Move | None) -> bool:
    """Whether an engine shall have the object of a deployment; ``state``: its tenant.

    If the move before lost its target, the engine may not have the object yet. Then it could not remove what was
    deployed.
    """
    if row is None or row.spec is None or row.is_active:
        return row is not None and row.spec is not None
    if move is None or move.holder != state.instance_of(row):
        return False
    is_waiting = move.path != "whole" and move.step in ON_SOURCE
    return move.step in KEEPING or (is_waiting and _was_never_made(state.observed.get(row.id)))


def shows_former_status(state: TenantState, known: Deployment) -> bool:
    """Whether the CR keeps its status: the source's report is out of date, and the target has not reported yet.

    Also after a move that is over because its target was lost and there was no other.
    """
    move, observed = state.move, state.observed.get(known.id)
    if observed is None or not observed.status:
        return False
    if move is None:
        return is_unseen(observed) and not observed.failure
    return state.is_moved(known) and (move.step in ("pausing", "releasing") or is_unseen(observed))


def has_compared(known: Observed, status: str, context: Context) -> bool:
    """Whether a status counts. The first ones of the target come before it has compared anything."""
    if not is_unseen(known):
        return True
    return "sync" in context.engine.read_status(status, None, {}).part


def is_unseen(known: Observed | None) -> bool:
    """Whether all reports on a deployment are from the instance that had it before."""
    return known is not None and bool(known.status) and not known.resource_version


def _was_never_made(known: Observed | None) -> bool:
    """Whether the instance that has a deployment since a move has not made its Application."""
    return known is not None and is_unseen(known) and not known.applied_digest


def is_missing(known: Observed | None) -> bool:
    """Whether that instance has neither made the Application, nor reported that it cannot."""
    return known is not None and _was_never_made(known) and not known.failed_digest
