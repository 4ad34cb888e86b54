"""Previews: what is left of environments whose time is over. Other steps remove it, each what it has made.

What an environment has deployed can be removed only with its credentials, so the environment is deleted last: first its
bindings, with their deployments; once an engine has removed these, its claim; then the environment. Its row says how
much is left (``environment/expiry.py``).
"""

from __future__ import annotations

from datetime import datetime

from services.common.errors import Permanent
from services.common.messages import ChildKind
from services.kinds.environment.expiry import expires_at, is_preview, remaining_of, with_remaining
from services.kinds.environment.known import KnownEnvironment, known_environment
from services.kinds.environment.model import ENVIRONMENT
from services.kinds.environment.rules import managed_environment_name
from services.kinds.gitops_deployment.rows import Deployment
from services.kinds.shared.resource import PlainResource, within_quota
from services.planner.domain.appstudio.bound_pairs import BY_ENVIRONMENT
from services.planner.domain.indexed_rows import Groups, Subset, index_of
from services.planner.domain.planned_tenant import Context, PlannedTenant
from services.planner.domain.state import TenantState

PREVIEWS: Subset[PlainResource] = Subset(is_preview)
DEPLOYMENTS: Groups[Deployment, str] = Groups(
    lambda known: known.environment if known.present or known.spec is not None else None
)
"""Deployments that exist or are on an engine, by the ManagedEnvironment that they name."""


def plan_previews(planned: PlannedTenant, context: Context) -> PlannedTenant:
    """The tenant with what is left of environments that are over. The other previews are due when they are over."""
    if planned.last_cause is None or planned.state.tenant.is_former:
        return planned
    for row in index_of(planned.state.plain_resources, PREVIEWS).values():
        at = _expires_at(row)
        is_over = at is not None and at <= context.now
        kept = with_remaining(row, _remaining(planned.state, row.name) if is_over else None)
        planned = planned if kept == row else planned.with_state(planned.state.with_plain_resources(kept))
        planned = planned.due_by(row.id, at) if at is not None and not is_over else planned
    return planned


def ended_claims(state: TenantState) -> frozenset[str]:
    """Names of claims of environments that are over and have nothing left. No other environment names them."""
    if not index_of(state.plain_resources, PREVIEWS) or any_claim_may_be_needed(state):
        return frozenset()
    rows = [row for row in state.plain_resources_of_kind(ENVIRONMENT.kind).values() if row.present]
    ended = {known.claim_name for row in rows if remaining_of(row) == 0 and (known := _known(row))}
    others = {known.claim_name for row in rows if remaining_of(row) != 0 and (known := _known(row))}
    return frozenset(ended - others)


def any_claim_may_be_needed(state: TenantState) -> bool:
    """Whether the spec of some environment in force is not known. No preview is deleted until it is."""
    rows = (row for row in state.plain_resources_of_kind(ENVIRONMENT.kind).values() if row.present)
    return any(_known(row) is None and row.uid in state.child_objects_by_owner() for row in rows)


def _expires_at(row: PlainResource) -> datetime | None:
    """When the preview is over. An invalid time counts as none; the conditions of the environment say so."""
    known = _known(row)
    try:
        return expires_at(row, known) if known is not None else None
    except Permanent:
        return None


def _known(row: PlainResource) -> KnownEnvironment | None:
    """The environment, also if it is beyond its quota: what it has deployed exists."""
    return known_environment(within_quota(row))


def _remaining(state: TenantState, environment: str) -> int:
    """How many of its bindings and deployments have to go before it does."""
    bindings = index_of(state.plain_resources, BY_ENVIRONMENT).get(environment, 0)
    return bindings + _deployments_of(state, environment)


def _deployments_of(state: TenantState, environment: str) -> int:
    """Deployments that bindings have made, and all that are being removed. Those that a user has made stay."""
    there = index_of(state.deployments, DEPLOYMENTS).get(managed_environment_name(environment), {})
    return sum(
        not each.is_active or (ChildKind.DEPLOYMENT.value, each.name) in state.child_objects for each in there.values()
    )
