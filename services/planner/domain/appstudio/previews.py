"""Previews: what is left of environments whose time is over. The other steps have it removed, each what is its own.

Nothing that an environment has deployed can be removed without its credentials, so it goes last, and it is what
remembers: its bindings are deleted first, with their deployments; when an engine has removed these, its claim; then the
environment itself. How much is left is in the row of the environment (``environment/expiry.py``).
"""

from __future__ import annotations

from datetime import datetime

from services.common.errors import Permanent
from services.common.messages import ChildKind
from services.kinds.environment.expiry import expires_at, is_preview, remaining_of, with_remaining
from services.kinds.environment.model import ENVIRONMENT, EnvironmentSpec
from services.kinds.environment.rules import managed_environment_name
from services.kinds.shared.resource import PlainResource
from services.kinds.shared.spec_text import readable_spec
from services.kinds.snapshot_environment_binding.model import BINDING, BindingSpec
from services.planner.domain.indexed_rows import Subset, index_of
from services.planner.domain.planned_tenant import PlannedTenant
from services.planner.domain.state import TenantState

PREVIEWS: Subset[PlainResource] = Subset(is_preview)


def plan_previews(planned: PlannedTenant, now: datetime) -> PlannedTenant:
    """The tenant with what is left of its environments that are over; the others are due when they will be."""
    if planned.last_cause is None or planned.state.tenant.is_former:
        return planned
    for row in index_of(planned.state.plain_resources, PREVIEWS).values():
        at = _expires_at(row)
        is_over = at is not None and at <= now
        kept = with_remaining(row, _remaining(planned.state, row.name) if is_over else None)
        planned = planned if kept == row else planned.with_state(planned.state.with_plain_resources(kept))
        planned = planned.due_by(row.id, at) if at is not None and not is_over else planned
    return planned


def ended_claims(state: TenantState) -> frozenset[str]:
    """Names of claims of environments that are over and have nothing left, and that no other environment names."""
    if not index_of(state.plain_resources, PREVIEWS):
        return frozenset()
    rows = [row for row in state.plain_resources_of_kind(ENVIRONMENT.kind).values() if row.present]
    ended, others = (
        {spec.claim_name for row in rows if (remaining_of(row) == 0) == is_over and (spec := _spec(row)) is not None}
        for is_over in (True, False)
    )
    return frozenset(ended - others)


def _expires_at(row: PlainResource) -> datetime | None:
    """What cannot be meant counts as nothing; the conditions of the environment say so."""
    spec = _spec(row)
    try:
        return expires_at(row, spec) if spec is not None else None
    except Permanent:
        return None


def _remaining(state: TenantState, environment: str) -> int:
    """How many bindings and deployments there are of it that have to go before it does."""
    return _bindings_of(state, environment) + _deployments_of(state, environment)


def _bindings_of(state: TenantState, environment: str) -> int:
    rows = (row for row in state.plain_resources_of_kind(BINDING.kind).values() if row.present)
    specs = (readable_spec(BindingSpec, row) for row in rows)
    return sum(spec is not None and spec.environment == environment for spec in specs)


def _deployments_of(state: TenantState, environment: str) -> int:
    """Those that bindings have made, and all that are going. One that a user has made stays, and has lost its place."""
    place = managed_environment_name(environment)
    there = (each for each in state.deployments.values() if each.environment == place)
    return sum(
        (each.present or each.spec is not None)
        and (not each.is_active or (ChildKind.DEPLOYMENT.value, each.name) in state.child_objects)
        for each in there
    )


def _spec(row: PlainResource) -> EnvironmentSpec | None:
    return readable_spec(EnvironmentSpec, row)
