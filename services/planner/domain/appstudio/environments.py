"""Environments: each is its own namespace, or has a ManagedEnvironment in it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from services.common.api_resource import SECRET
from services.common.messages import UnownedKind
from services.kinds.deployment_target.model import DEPLOYMENT_TARGET, DeploymentTargetSpec
from services.kinds.deployment_target_claim.model import DEPLOYMENT_TARGET_CLAIM
from services.kinds.environment.expiry import expiry_problem, remaining_of
from services.kinds.environment.known import KnownEnvironment, known_environment
from services.kinds.environment.model import ENVIRONMENT
from services.kinds.environment.rules import Backing, Family, accept, decide, parent_cycles
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from services.kinds.secret.rules import TOO_LARGE, type_of
from services.kinds.shared.conditions import Refused
from services.kinds.shared.resource import SECRET_ABSENT, PlainResource, within_quota
from services.kinds.shared.unowned_objects import UnownedObject
from services.planner.domain.appstudio.outcomes import Outcome, differs_by_kind, is_touched, refused, with_outcome
from services.planner.domain.appstudio.previews import any_claim_may_be_needed, ended_claims
from services.planner.domain.appstudio.targets import ClaimBacking, claim_backing
from services.planner.domain.planned_tenant import Context, PlannedTenant
from services.planner.domain.state import TenantState
from services.planner.domain.steps.unowned_objects import UnownedRequest, reconcile_unowned_objects

NOT_FOLLOWED = "not followed"
"""Stands for the type of a Secret that no watcher has reported."""

LOOKED_AT = (ENVIRONMENT.kind, DEPLOYMENT_TARGET_CLAIM.kind, DEPLOYMENT_TARGET.kind, SECRET.kind)
"""The kinds that the rules read. A tenant has at most as many environments as its quota allows, so all are decided
again if any resource of these kinds differs."""


def plan_environments(planned: PlannedTenant, context: Context) -> PlannedTenant:
    """The tenant with what its environments want, and what is wrong with them."""
    state, cause = planned.state, planned.last_cause
    if cause is None or state.tenant.is_former or not _is_concerned(planned, context):
        return planned
    present = [each for each in state.plain_resources_in_order(ENVIRONMENT.kind) if each.present]
    families = _families(present)
    for each in present:
        planned = with_outcome(planned, each, _outcome(each, families[each.name], state, context), cause, context)
    return reconcile_unowned_objects(planned, (ENVIRONMENT.kind,), _removals(present, state), cause, context)


def _is_concerned(planned: PlannedTenant, context: Context) -> bool:
    """Whether something differs. ManagedEnvironments count: one of somebody else may have its name."""
    looked_at = (*LOOKED_AT, MANAGED_ENVIRONMENT.kind)
    return differs_by_kind(planned.state, context, looked_at) or is_touched(planned, (ENVIRONMENT.kind,))


def _removals(rows: Iterable[PlainResource], state: TenantState) -> Iterator[UnownedRequest]:
    """Requests to delete environments that are over, once nothing is left of them and their claims are going."""
    if any_claim_may_be_needed(state):
        return
    claims = state.plain_resources_of_kind(DEPLOYMENT_TARGET_CLAIM.kind).values()
    staying = ended_claims(state) & {each.name for each in claims if each.is_active}
    for row in rows:
        known = known_environment(within_quota(row))
        if remaining_of(row) == 0 and known is not None and known.claim_name not in staying:
            yield UnownedRequest(row, UnownedObject(UnownedKind.ENVIRONMENT, row.name, row.uid, is_deleted=True))


def _backing_of(row: PlainResource, claim_name: str, state: TenantState, context: Context) -> Backing:
    """What exists of what an environment names."""
    claim = claim_backing(state, claim_name) if claim_name else ClaimBacking(None)
    types = _secret_types(state, [row])
    if claim.target is not None:
        types = {**_type_of_targets_secret(claim.target, claim, state), **types}
    version = claim.secret_version if claim.secret_version != SECRET_ABSENT else ""
    return Backing(claim.phase, claim.target, types, version, has_local_cluster=context.is_local)


def _type_of_targets_secret(target: DeploymentTargetSpec, claim: ClaimBacking, state: TenantState) -> dict[str, str]:
    """The type of the Secret that opens a target; empty if there is none.

    If no watcher has reported it, it counts as one of another type: then it is copied if it exists. A followed Secret
    whose content is too large is stored without content and type.
    """
    name = target.kubernetes_credentials.cluster_credentials_secret
    found = state.secrets().get(name)
    if found is not None:
        return {name: TOO_LARGE if found.omitted else type_of(found)}
    return {} if claim.secret_version == SECRET_ABSENT else {name: claim.secret_type or NOT_FOLLOWED}


@dataclass(frozen=True, slots=True)
class Place:
    """An environment as seen by what is deployed there."""

    environment: KnownEnvironment | None
    """None: it cannot be read, or there is no room for it."""
    backing: Backing
    is_expired: bool = False
    """Its time is over: nothing is deployed there any more."""

    @property
    def compiled_from(self) -> object:
        """What a change of the deployments of its bindings depends on."""
        known = self.environment
        where = (known.claim_name, known.target_namespace) if known is not None else None
        return where, self.backing, self.is_expired


NO_PLACE = Place(None, Backing())
"""For a name that no environment has."""


def places(state: TenantState, context: Context) -> dict[str, Place]:
    """The environments that exist, by name."""
    rows = [each for each in state.plain_resources_in_order(ENVIRONMENT.kind) if each.present]
    return {each.name: _place(each, state, context) for each in rows}


def _place(row: PlainResource, state: TenantState, context: Context) -> Place:
    known = known_environment(row)
    backing = _backing_of(row, known.claim_name, state, context) if known is not None else Backing()
    return Place(known, backing, remaining_of(row) is not None)


def _outcome(row: PlainResource, family: Family, state: TenantState, context: Context) -> Outcome:
    known, left = known_environment(within_quota(row)), remaining_of(row)
    expiry = expiry_problem(row, known) if known is not None else None
    if left is not None:
        return Outcome(None if left else (), expiry)
    try:
        spec = accept(row, context.policy.addresses, context.policy.limits)
    except Refused as why:
        return refused(why)
    backing = _backing_of(row, spec.claim_name, state, context)
    decision = decide(row.name, spec, backing, family, deleting=row.deleting)
    return Outcome(decision.children, decision.problem or expiry, decision.warning)


def _families(rows: Collection[PlainResource]) -> dict[str, Family]:
    """By name, the position of each environment among those of its namespace."""
    known = {each.name: known_environment(each) for each in rows}
    parents = {name: each.parent for name, each in known.items() if each is not None and each.parent}
    cycles, children = parent_cycles(parents), dict[str, list[str]]()
    for child, parent in parents.items():
        children.setdefault(parent, []).append(child)
    missing = {name: parent for name, parent in parents.items() if parent not in known}
    return {name: Family(cycles.get(name, ()), children.get(name, ()), missing.get(name, "")) for name in known}


def _secret_types(state: TenantState, naming: Iterable[PlainResource]) -> Mapping[str, str]:
    """Types of the existing Secrets that these resources name.

    A followed Secret has a row. The type of another one comes with the newest command about a resource that names it;
    the watcher sends that again when the Secret is created, deleted or changes its type.
    """
    secrets = state.secrets()
    named = {each.refers_to: each.secret_type for each in naming if each.secret_type}
    followed = {each.refers_to: type_of(secrets[each.refers_to]) for each in naming if each.refers_to in secrets}
    return named | followed
