"""Carries a tenant's move out, step by step: what becomes of the tenant's rows at each step.

Which step comes next is decided in ``fleet/moves/moves.py``, by what was seen (``move_progress.py``). What is moved is
what the tenant has on the source: all of it, or a part. It has one instance at any time, the source until its
Applications are released and the target from then on. What the other one of the two holds is in ``copies.py``. Called
by ``plan.py``, before and after a batch's events are taken in.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from services.common.json_values import canonical
from services.kinds.shared.resource import Cause, Check
from services.kinds.sync_run.rules import ACTIVE
from services.planner.domain.events import Event, MoveDue
from services.planner.domain.fleet.moves.moves import due_time, next_step
from services.planner.domain.fleet.rows import Move
from services.planner.domain.planned_tenant import Context, PlannedTenant
from services.planner.domain.state import TenantState
from services.planner.domain.steps.handover.move_progress import seen_of
from services.planner.domain.steps.handover.move_reports import find_report, name_object, parse_reports

RUNNING = "Running"
"""Phase of a sync that has begun."""


def move_of(state: TenantState, events: Iterable[Event]) -> Move | None:
    """The tenant's move as ``events`` tell of it.

    One that has begun, is to go back, has lost its source, or has taken the place of one that has lost its target.
    """
    move = state.move
    for event in events:
        if isinstance(event.message, MoveDue):
            told = event.message.move
            move = _as_told(move, told) if move is not None and move.id == told.id else told
    return move


def _as_told(move: Move, told: Move) -> Move:
    """With what the planner that decides on the fleet writes of a move that has begun."""
    path = told.path if move.path == "whole" else move.path
    return replace(move, is_cancelled=told.is_cancelled, message=told.message, path=path)


def advance(before: TenantState, move: Move, context: Context, now: datetime) -> Move:
    """The move after all steps that can be taken by what was seen until now; each waits for what the next one makes."""
    after = next_step(move, seen_of(before._replace(move=move), context, now), now, context.policy.move_patience)
    is_begun = move.step == "reserved" and after.step == "preparing"
    return replace(after, reported=canonical(_known_there(before, move.target))) if is_begun else after


def _known_there(state: TenantState, target: str) -> dict[str, list[str]]:
    """What the target has already, of which its agent tells nothing new: it was the source of the move before."""
    checks = {owner: check.reason for owner, check in state.checks.items()}
    return {
        name_object(key): [held.digest, checks.get(held.owner.id, ""), ""]
        for key, held in state.held_on(target).items()
        if held.is_desired and target != state.tenant.engine_instance_id
    }


def due_at(state: TenantState, move: Move, context: Context, now: datetime) -> datetime | None:
    """When the move has to be looked at again, though nothing happens."""
    return None if move.is_over else due_time(move, seen_of(state, context, now), now, context.policy.move_patience)


def touch_moved(planned: PlannedTenant, context: Context, cause: Cause) -> PlannedTenant:
    """With all deployments that are moved to be compiled anew: another step wants something else of each."""
    for known in planned.state.deployments.values():
        if context.is_moved(known):
            planned = planned.with_row(replace(known), cause)
    return planned._replace(cause=cause)


def taken_over(state: TenantState, context: Context) -> TenantState:
    """What was seen at the source is no news of the target, but it is what its tenant is shown until there is some.

    What the target's agent has found out about credentials takes the place of what the source's had, if the target is
    the tenant's own instance from now on. Of a source that nobody reaches each sync run counts as begun that was
    ordered there: it may have run, and would run twice.
    """
    own, taken = state.tenant.engine_instance_id, context.taken_over
    on = "" if context.move is None or context.move.target == own else context.move.target
    rows = [replace(state.deployments[each], engine_instance_id=on) for each in sorted(taken)]
    observed = [
        replace(each, resource_version="", applied_digest="", failed_digest="", failure="", failure_for_user=False)
        for each in state.observed.values()
        if each.deployment_id in taken
    ]
    state = state.with_deployments(*rows).with_observed(*observed)
    if context.move is not None and context.move.path == "fenced":
        ordered = (run for run in state.sync_runs.values() if run.deployment_id in taken and run.state in ACTIVE)
        state = state.with_sync_runs(*(replace(run, phase=run.phase or RUNNING) for run in ordered))
    if not context.is_own_left:
        return state
    return state.with_checks(*(found for each in state.checks.values() if (found := _check_there(state, each))))


def _check_there(state: TenantState, check: Check) -> Check | None:
    """The check of a resource by the target's agent; None if it has not reported one."""
    checked = state.checked_object(check.resource_id)
    if checked is None or state.move is None:
        return None
    key, held = checked
    digest, reason, message = find_report(key, parse_reports(state.move))
    if digest != held.digest or not reason:
        return None
    return replace(check, digest=digest, reason=reason, message=message)


def end_own_part(planned: PlannedTenant, cause: Cause) -> PlannedTenant:
    """Deployments whose rows name the tenant's own instance as another one are its own from now on.

    Only a planner of an earlier release leaves such rows: it lets a move begin to where the tenant has a part.
    """
    state, own = planned.state, planned.state.tenant.engine_instance_id
    if own not in state.parts:
        return planned
    there = [each for each in state.deployments.values() if each.engine_instance_id == own]
    state = state.with_deployments(*(replace(each, engine_instance_id="") for each in there))
    return planned._replace(state=state, cause=cause)
