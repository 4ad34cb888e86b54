"""Carries a tenant's move out, step by step: what becomes of the tenant's rows at each step.

``fleet/moves/moves.py`` decides which step comes next, by what was seen (``move_progress.py``). A move concerns what
the tenant has on the source: all of it, or a part. Each deployment is on one instance at any time: on the source until
the Applications are released, and on the target from then on. ``copies.py`` compiles what the other one of the two
holds. ``plan.py`` calls this before and after it ingests a batch's events.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from services.common.json_values import canonical
from services.kinds.shared.resource import Check
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
    """The tenant's move, with what ``events`` change of it.

    The planner that decides about the fleet begins a move, cancels it, says that its source is lost, or replaces it by
    another one because its target is lost.
    """
    move = state.move
    for event in events:
        if isinstance(event.message, MoveDue):
            ordered = event.message.move
            move = _with_order(move, ordered) if move is not None and move.id == ordered.id else ordered
    return move


def _with_order(move: Move, ordered: Move) -> Move:
    """``move``, which has begun, with the columns that the planner of the fleet writes."""
    path = ordered.path if move.path == "whole" else move.path
    return replace(move, is_cancelled=ordered.is_cancelled, message=ordered.message, path=path)


def advance_move(context: Context) -> Context:
    """The context with the tenant's move after all steps that can be taken now.

    If the move hands the tenant over, the tenant is on the target from here on. A move to an instance that was added
    after the fleet was read has not begun.
    """
    before, move = context.before, move_of(context.before, context.events)
    if move is None or move.target not in context.fleet.instances:
        return context
    advanced = _after_steps(move, context)
    if advanced.step != "adopting" or move.step == "adopting":
        return replace(context, move=advanced)
    is_own = before.tenant.engine_instance_id == advanced.source
    return replace(
        context,
        before=(before.on_instance(advanced.target) if is_own else before)._replace(basis=None),
        move=advanced,
        left=context.placement_on(advanced.source),
        is_own_left=is_own,
        handed_over=frozenset(
            each.id for each in before.deployments.values() if before.instance_of(each) == advanced.source
        ),
    )


def _after_steps(move: Move, context: Context) -> Move:
    """The move after all steps that what was seen until now allows."""
    before, now = context.before, context.now
    after = next_step(move, seen_of(before._replace(move=move), context), now, context.policy.move_patience)
    is_begun = move.step == "reserved" and after.step == "preparing"
    return replace(after, reported=canonical(_known_there(before, move.target))) if is_begun else after


def begin_move_step(planned: PlannedTenant, context: Context) -> PlannedTenant:
    """If the move begins another step or path, all deployments that it concerns are compiled anew.

    A path changes when nobody waits for the source any more.
    """
    before, move = context.before.move, context.move
    if move is None or (before is not None and (before.step, before.path) == (move.step, move.path)):
        return planned
    if context.left is not None:
        planned = planned.with_state(_hand_over(planned.state, context))
    return _touch_moved(planned, context)


def _known_there(state: TenantState, target: str) -> dict[str, list[str]]:
    """Reports on objects that the target has from an earlier move, as its source. Agents do not repeat them."""
    checks = {owner: check.reason for owner, check in state.checks.items()}
    return {
        name_object(key): [stored.digest, checks.get(stored.owner.id, ""), ""]
        for key, stored in state.objects_on(target).items()
        if stored.is_desired and target != state.tenant.engine_instance_id
    }


def schedule_move(planned: PlannedTenant, context: Context) -> PlannedTenant:
    """The tenant with the time at which its move has to be planned again even if nothing happens."""
    move = planned.state.move
    if move is None:
        return planned
    seen, patience = seen_of(planned.state, context), context.policy.move_patience
    due = None if move.is_over else due_time(move, seen, context.now, patience)
    return planned.with_state(planned.state._replace(move=replace(move, due_at=due)))


def _touch_moved(planned: PlannedTenant, context: Context) -> PlannedTenant:
    """The tenant with all deployments of the move to be compiled: each step has other manifests."""
    cause = context.last_event_cause
    for known in planned.state.deployments.values():
        if context.is_moved(known):
            planned = planned.with_row(replace(known), cause)
    return planned._replace(cause=cause)


def _hand_over(state: TenantState, context: Context) -> TenantState:
    """The tenant with its deployments on the target.

    Their status stays as the source reported it, until the target reports one. If the target becomes the tenant's own
    instance, its agent's checks of credentials replace those of the source's agent. If nobody can reach the source, a
    sync run that was ordered there counts as begun: it may have run, and must not run twice.
    """
    own, handed_over = state.tenant.engine_instance_id, context.handed_over
    on = "" if context.move is None or context.move.target == own else context.move.target
    rows = [replace(state.deployments[each], engine_instance_id=on) for each in sorted(handed_over)]
    observed = [
        replace(each, resource_version="", applied_digest="", failed_digest="", failure="", failure_for_user=False)
        for each in state.observed.values()
        if each.deployment_id in handed_over
    ]
    state = state.with_deployments(*rows).with_observed(*observed)
    if context.move is not None and context.move.path == "fenced":
        ordered = (run for run in state.sync_runs.values() if run.deployment_id in handed_over and run.state in ACTIVE)
        state = state.with_sync_runs(*(replace(run, phase=run.phase or RUNNING) for run in ordered))
    if not context.is_own_left:
        return state
    return state.with_checks(*(found for each in state.checks.values() if (found := _check_there(state, each))))


def _check_there(state: TenantState, check: Check) -> Check | None:
    """The check of a resource by the target's agent; None if it has not reported one."""
    checked = state.checked_object(check.resource_id)
    if checked is None or state.move is None:
        return None
    key, stored = checked
    digest, reason, message = find_report(key, parse_reports(state.move))
    if digest != stored.digest or not reason:
        return None
    return replace(check, digest=digest, reason=reason, message=message)


def end_own_part(planned: PlannedTenant, context: Context) -> PlannedTenant:
    """Correct deployments whose rows name the tenant's own instance as that of a part.

    Only a planner of an earlier release leaves such rows: it let a tenant move to an instance that had a part of it.
    """
    state, own = planned.state, planned.state.tenant.engine_instance_id
    if own not in state.parts:
        return planned
    there = [each for each in state.deployments.values() if each.engine_instance_id == own]
    state = state.with_deployments(*(replace(each, engine_instance_id="") for each in there))
    return planned._replace(state=state, cause=context.last_event_cause)
