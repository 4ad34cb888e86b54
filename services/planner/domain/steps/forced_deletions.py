"""Keeps what forced deletions may have left behind, until the next deployment of the name has it, or time has passed.

A tenant without forced deletions has no such rows, and this costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from services.common.json_values import dicts_of
from services.kinds.gitops_deployment import left_behind
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.gitops_deployment.rows import Deployment, ForcedDeletion
from services.kinds.shared.resource import Cause
from services.planner.domain.planned_tenant import Context, PlannedTenant
from services.planner.domain.state import TenantState

MOST_KEPT = 20
"""Rows that are kept of a tenant: the newest. With :data:`left_behind.MAX_BYTES` they take 320 KiB. The audit has
all."""


def remember_deletion(
    planned: PlannedTenant, deployment: Deployment, resources: Sequence[left_behind.Resource], cause: Cause
) -> PlannedTenant:
    """Store that the removal of ``deployment``, last seen with ``resources``, was forced. Not for former tenants."""
    left = left_behind.forced_deletion(deployment, resources, cause.at)
    if left is None or planned.state.tenant.is_former:
        return planned
    planned = _touching(planned.with_state(planned.state.with_forced_deletions(left)), left, cause)
    known = sorted(planned.state.forced_deletions.values(), key=lambda each: (each.due_at, each.id))
    for oldest in known[:-MOST_KEPT]:
        planned = _without(planned, oldest, cause)
    return planned


def forget_deletion(planned: PlannedTenant, left: ForcedDeletion, cause: Cause) -> PlannedTenant:
    """Drop ``left`` once its retention has passed."""
    return _without(planned, left, cause) if left.due_at <= cause.at else planned


def remove_reclaimed(planned: PlannedTenant, context: Context) -> PlannedTenant:
    """The tenant without left-behind resources that a deployment of the same name has by now."""
    for subject, cause in planned.touched.items() if planned.state.forced_deletions else ():
        deployment = planned.state.deployments.get(subject)
        if deployment is not None and deployment.is_active:
            planned = _without_reclaimed(planned, deployment, cause, context)
    return planned


def _without_reclaimed(planned: PlannedTenant, deployment: Deployment, cause: Cause, context: Context) -> PlannedTenant:
    seen = frozenset(resources_seen(planned.state, deployment, context))
    for left in left_by_formers(planned.state, deployment):
        if left.environment == left_behind.environment_of(deployment):
            rest = left_behind.without_reclaimed(left, seen)
            if rest is None:
                planned = _without(planned, left, cause)
            elif rest is not left:
                planned = planned.with_state(planned.state.with_forced_deletions(rest))
    return planned


def left_by_formers(state: TenantState, deployment: Deployment) -> list[ForcedDeletion]:
    """What earlier deployments of the same name have left behind, the oldest first."""
    found = [each for each in state.forced_deletions.values() if each.name == deployment.name]
    return sorted((each for each in found if each.id != deployment.id), key=lambda each: (each.due_at, each.id))


def resources_seen(state: TenantState, deployment: Deployment, context: Context) -> list[left_behind.Resource]:
    """The resources that ``deployment`` had when it was last reported."""
    observed = state.observed.get(deployment.id)
    report = context.engine.read_status(observed.status if observed is not None else "", None, {})
    return left_behind.resources_of(dicts_of(report.part.get("resources")))


def _without(planned: PlannedTenant, left: ForcedDeletion, cause: Cause) -> PlannedTenant:
    return _touching(planned.with_state(planned.state.without_forced_deletions(left.id)), left, cause)


def _touching(planned: PlannedTenant, left: ForcedDeletion, cause: Cause) -> PlannedTenant:
    """Touches the deployments of the name, because their status may change."""
    key = (GITOPS_DEPLOYMENT.kind, left.name)
    for each in planned.state.ids_named({key})[key]:
        planned = planned.touching(each, cause)
    return planned
