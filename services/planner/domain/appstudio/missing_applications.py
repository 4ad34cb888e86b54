"""Bindings whose Application is missing: each is due when it is to be deleted because of that."""

from __future__ import annotations

from datetime import datetime

from services.kinds.application.kind import APPLICATION
from services.kinds.shared.resource import PlainResource
from services.kinds.snapshot_environment_binding.known import known_binding
from services.kinds.snapshot_environment_binding.missing_application import (
    KnownApplications,
    missed_since,
    misses_application,
    with_missed_since,
)
from services.kinds.snapshot_environment_binding.model import BINDING
from services.planner.domain.appstudio.outcomes import differs_by_kind
from services.planner.domain.indexed_rows import Subset, index_of
from services.planner.domain.planned_tenant import Context, PlannedTenant
from services.planner.domain.state import TenantState

WITHOUT_APPLICATION: Subset[PlainResource] = Subset(misses_application)


def plan_missing_applications(planned: PlannedTenant, context: Context) -> PlannedTenant:
    """The tenant whose bindings know since when their Application is missing. Each is due when its time is over.

    The time is by the planner's clock: an Application that a late command reports as gone is missing from now on.
    """
    cause, state, now = planned.last_cause, planned.state, context.now
    if cause is None or state.tenant.is_former:
        return planned
    if differs_by_kind(state, context, (BINDING.kind, APPLICATION.kind)):
        applications = _known_applications(state, context.before)
        for row in state.plain_resources_of_kind(BINDING.kind).values():
            kept = with_missed_since(row, _missed_since(row, applications, now))
            if kept != row:
                planned = planned.with_state(planned.state.with_plain_resources(kept))
                planned = planned if row.id in planned.touched else planned.touching(row.id, cause)
    for row in index_of(planned.state.plain_resources, WITHOUT_APPLICATION).values():
        removal = removal_of(row, context)
        planned = planned.due_by(row.id, removal) if removal is not None and removal > now else planned
    return planned


def removal_of(row: PlainResource, context: Context) -> datetime | None:
    """When a binding is to be deleted because its Application is missing; None: it is not."""
    since = missed_since(row) if row.present else None
    return since + context.policy.binding_patience if since is not None else None


def _known_applications(state: TenantState, before: TenantState) -> KnownApplications:
    """The Applications of a tenant. Not all of those beyond the quota are loaded."""
    rows, former = (each.plain_resources_of_kind(APPLICATION.kind).values() for each in (state, before))
    present, known = (frozenset(row.name for row in each if row.present) for each in (rows, former))
    return KnownApplications(
        present, gone=known - present, are_all=bool(present) and not any(row.over_quota for row in rows)
    )


def _missed_since(row: PlainResource, applications: KnownApplications, now: datetime) -> datetime | None:
    known = known_binding(row) if row.is_active else None
    since = missed_since(row)
    if known is None or not applications.is_missing(known.application, was_missing=since is not None):
        return None
    return since or now
