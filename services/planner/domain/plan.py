"""What a batch of events changes of one tenant. Pure: the same values make the same changes.

Only the state at the end of the batch counts. Resources of a tenant depend on each other, so the order of the steps
matters, and it is here: each step is a function from the tenant's rows to a :class:`StepResult`, the rows with what it
compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from services.common.messages import Command, LookAgain, Observation
from services.planner.domain.appstudio.bindings import plan_bindings
from services.planner.domain.appstudio.deployment_room import plan_next_room
from services.planner.domain.appstudio.environments import plan_environments
from services.planner.domain.appstudio.missing_applications import plan_missing_applications
from services.planner.domain.appstudio.new_snapshots import plan_new_snapshots
from services.planner.domain.appstudio.previews import plan_previews
from services.planner.domain.appstudio.promotions import plan_promotions
from services.planner.domain.appstudio.targets import plan_targets
from services.planner.domain.changes import TenantChanges
from services.planner.domain.collect_changes import changes_of
from services.planner.domain.events import Due, Event, NamespaceReplaced, Unseen
from services.planner.domain.fleet.view import FleetView
from services.planner.domain.planned_tenant import Context, PlannedTenant
from services.planner.domain.policy import Policy
from services.planner.domain.state import TenantState
from services.planner.domain.steps.child_objects import tend_child_objects
from services.planner.domain.steps.copies import compile_copies
from services.planner.domain.steps.deployments import deploy
from services.planner.domain.steps.engine_objects import compile_resources
from services.planner.domain.steps.forced_deletions import take_over
from services.planner.domain.steps.handover.handover import (
    advance,
    due_at,
    end_own_part,
    move_of,
    taken_over,
    touch_moved,
)
from services.planner.domain.steps.handover.move_reports import observe_elsewhere
from services.planner.domain.steps.ingest import (
    end_all,
    incarnations_named,
    ingest_command,
    ingest_unseen,
    look_again,
)
from services.planner.domain.steps.observed_state import concerns, observe_event, observe_manifests
from services.planner.domain.steps.projects import confine
from services.planner.domain.steps.quotas import apply_quotas
from services.planner.domain.steps.status_rows import compile_deployment_statuses, compile_resource_statuses
from services.planner.domain.steps.syncs import request_syncs, terminate_runs
from services.planner.domain.tenants_of_name import tenant_after


def plan(
    tenant: TenantState, events: Sequence[Event], fleet: FleetView, policy: Policy, now: datetime
) -> TenantChanges:
    """What ``events``, in their order, change of ``tenant``. Raises Wait if it is new and cannot be placed."""
    placed = tenant.indexed()._replace(tenant=tenant_after(tenant.tenant, events, fleet, policy))
    if any(map(_is_look_again, events)):
        placed = placed._replace(basis=None)
    context = moved(Context(placed, fleet, policy), events, now)
    planned = PlannedTenant(context.before._replace(move=context.move), incarnations_named(placed, events))
    planned = begin_step(planned, events, context, now)
    planned = end_own_part(planned, events[-1].cause(now))
    planned = ingest_events(planned, events, context, now)
    planned = terminate_runs(planned, events[-1].cause(now), context, now)
    if planned.cause is not None:
        planned = planned.after(apply_quotas(planned.state, context))
    planned = plan_previews(planned, now)
    planned = plan_targets(planned, context)
    if (cause := planned.cause) is not None:
        planned = planned.after(compile_resources(planned.state, context))
        planned = planned.after(deploy(planned.state, planned.touched.keys(), context))
        planned = planned.after(confine(planned.state, context))
        planned = planned.after(request_syncs(planned.state, cause.at, context))
        planned = compile_copies(planned, context)
    planned = plan_environments(planned, context)
    planned = plan_missing_applications(planned, context, now)
    planned = plan_bindings(planned, context, now)
    planned = observe_manifests(planned, events, context, now)
    planned = take_over(planned, context)
    planned, shown = compile_deployment_statuses(planned, context)
    planned = plan_promotions(planned, events, context, now)
    planned = plan_new_snapshots(planned, context, now)
    planned = tend_child_objects(planned, context)
    planned = plan_next_room(planned, context, now)
    planned, shown = compile_resource_statuses(planned, shown, context)
    planned = with_due_move(planned, context, now)
    return changes_of(planned, shown, tenant, context)


def moved(context: Context, events: Sequence[Event], now: datetime) -> Context:
    """With the tenant's move after the steps that can be taken, and on the instance that it is on then.

    One to an instance that was added since the fleet was read has not begun.
    """
    before, told = context.before, move_of(context.before, events)
    if told is None or told.target not in context.fleet.instances:
        return context
    move = advance(before, told, context, now)
    if move.step != "adopting" or told.step == "adopting":
        return replace(context, move=move)
    is_own = before.tenant.engine_instance_id == move.source
    return replace(
        context,
        before=(before.on_instance(move.target) if is_own else before)._replace(basis=None),
        move=move,
        left=context.placement_on(move.source),
        is_own_left=is_own,
        taken_over=frozenset(
            each.id for each in before.deployments.values() if before.instance_of(each) == move.source
        ),
    )


def begin_step(planned: PlannedTenant, events: Sequence[Event], context: Context, now: datetime) -> PlannedTenant:
    """With all deployments that are moved to be compiled anew, if another step of the tenant's move begins.

    Likewise if its source is not waited for any more.
    """
    before, move = context.before.move, context.move
    if move is None or (before is not None and (before.step, before.path) == (move.step, move.path)):
        return planned
    if context.left is not None:
        planned = planned.with_state(taken_over(planned.state, context))
    return touch_moved(planned, context, events[-1].cause(now))


def with_due_move(planned: PlannedTenant, context: Context, now: datetime) -> PlannedTenant:
    """With the time at which the move has to be looked at again."""
    move = planned.state.move
    if move is None:
        return planned
    due = due_at(planned.state, move, context, now)
    return planned.with_state(planned.state._replace(move=replace(move, due_at=due)))


def _is_look_again(event: Event) -> bool:
    """Whether nothing counts as known of what the tenant was planned from."""
    return isinstance(event.message, Command) and isinstance(event.message.event, LookAgain)


def ingest_events(planned: PlannedTenant, events: Sequence[Event], context: Context, now: datetime) -> PlannedTenant:
    """The tenant's rows as ``events`` say they are; nothing follows from that yet."""
    for event in events:
        cause = event.cause(now)
        match event.message:
            case Command() as command:
                planned = ingest_command(planned, command, cause, context)
            case Observation() as observation if concerns(observation, planned.state, context):
                planned = observe_event(planned, observation, cause, context)
            case Observation() as observation:
                planned = observe_elsewhere(planned, observation, cause)
            case Unseen() as unseen:
                planned = ingest_unseen(planned, unseen, cause)
            case NamespaceReplaced():
                planned = end_all(planned, cause)
            case Due(id=subject):
                planned = look_again(planned, subject, cause)
    return planned
