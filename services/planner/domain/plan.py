"""What a batch of events changes of one tenant. Pure: the same values make the same changes.

Only the state at the end of the batch counts. Resources of a tenant depend on each other, so the order of the steps
matters: :func:`plan` has it. Each step takes the tenant as planned so far and the :class:`Context`, and returns the
tenant with what the step adds.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from services.planner.domain.fleet.placement_view import PlacementView
from services.planner.domain.planned_tenant import Context, PlannedTenant
from services.planner.domain.policy import Policy
from services.planner.domain.state import TenantState
from services.planner.domain.steps.child_objects import reconcile_child_objects
from services.planner.domain.steps.copies import compile_copies
from services.planner.domain.steps.deployments import compile_deployments
from services.planner.domain.steps.engine_objects import compile_resources
from services.planner.domain.steps.forced_deletions import remove_reclaimed
from services.planner.domain.steps.handover.handover import (
    advance_move,
    begin_move_step,
    end_own_part,
    schedule_move,
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
from services.planner.domain.steps.projects import compile_projects
from services.planner.domain.steps.quotas import apply_quotas
from services.planner.domain.steps.status_rows import compile_deployment_statuses, compile_resource_statuses
from services.planner.domain.steps.syncs import request_syncs, terminate_runs
from services.planner.domain.tenants_of_name import tenant_after


def plan(
    tenant: TenantState, events: Sequence[Event], fleet: PlacementView, policy: Policy, now: datetime
) -> TenantChanges:
    """What ``events``, in their order, change of ``tenant``. Raises Wait if it is new and cannot be placed."""
    placed = tenant.indexed()._replace(tenant=tenant_after(tenant.tenant, events, fleet, policy))
    if any(map(_is_look_again, events)):
        placed = placed._replace(basis=None)
    context = advance_move(Context(placed, fleet, policy, events, now))
    planned = PlannedTenant(context.before._replace(move=context.move), incarnations_named(placed, events))
    planned = begin_move_step(planned, context)
    planned = end_own_part(planned, context)
    planned = ingest_events(planned, context)
    planned = terminate_runs(planned, context)
    planned = apply_quotas(planned, context)
    planned = plan_previews(planned, context)
    planned = plan_targets(planned, context)
    planned = compile_resources(planned, context)
    planned = compile_deployments(planned, context)
    planned = compile_projects(planned, context)
    planned = request_syncs(planned, context)
    planned = compile_copies(planned, context)
    planned = plan_environments(planned, context)
    planned = plan_missing_applications(planned, context)
    planned = plan_bindings(planned, context)
    planned = observe_manifests(planned, context)
    planned = remove_reclaimed(planned, context)
    planned = compile_deployment_statuses(planned, context)
    planned = plan_promotions(planned, context)
    planned = plan_new_snapshots(planned, context)
    planned = reconcile_child_objects(planned, context)
    planned = plan_next_room(planned, context)
    planned = compile_resource_statuses(planned, context)
    planned = schedule_move(planned, context)
    return changes_of(planned, tenant, context)


def _is_look_again(event: Event) -> bool:
    """Whether the event forces a full replan."""
    return isinstance(event.message, Command) and isinstance(event.message.event, LookAgain)


def ingest_events(planned: PlannedTenant, context: Context) -> PlannedTenant:
    """The tenant with its rows as the events report them; nothing is compiled yet."""
    for event in context.events:
        cause = event.cause(context.now)
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
