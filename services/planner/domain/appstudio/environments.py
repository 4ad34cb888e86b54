"""Environments: each is its own namespace, or has a ManagedEnvironment in it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from services.common.api_resource import SECRET
from services.common.messages import UnownedKind
from services.kinds.deployment_target.model import DEPLOYMENT_TARGET, DeploymentTargetSpec
from services.kinds.deployment_target_claim.model import DEPLOYMENT_TARGET_CLAIM
from services.kinds.environment.expiry import expiry_problem, remaining_of
from services.kinds.environment.model import ENVIRONMENT, EnvironmentSpec
from services.kinds.environment.rules import Backing, Family, accept, decide, parent_cycles
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from services.kinds.secret.rules import type_of
from services.kinds.shared.conditions import Refused
from services.kinds.shared.resource import SECRET_ABSENT, PlainResource
from services.kinds.shared.spec_text import readable_spec
from services.kinds.shared.unowned_objects import UnownedObject
from services.planner.domain.appstudio.outcomes import Outcome, differs_by_kind, is_touched, refused, with_outcome
from services.planner.domain.appstudio.previews import ended_claims
from services.planner.domain.appstudio.targets import ClaimBacking, claim_backing
from services.planner.domain.planned_tenant import Context, PlannedTenant
from services.planner.domain.state import TenantState
from services.planner.domain.steps.unowned_objects import UnownedRequest, tend_unowned_objects

NOT_FOLLOWED = "not followed"
"""Stands for the type of a Secret of which nothing was told."""

LOOKED_AT = (ENVIRONMENT.kind, DEPLOYMENT_TARGET_CLAIM.kind, DEPLOYMENT_TARGET.kind, SECRET.kind)
"""All that the rules look at is of these kinds. There are as many environments at most as the quota allows, so all are
decided again if anything of that differs."""


def plan_environments(planned: PlannedTenant, context: Context) -> PlannedTenant:
    """The tenant with what its environments want, and what is wrong with them."""
    state, cause = planned.state, planned.last_cause
    if cause is None or state.tenant.is_former or not _is_concerned(planned, context):
        return planned
    present = [each for each in state.plain_resources_in_order(ENVIRONMENT.kind) if each.present]
    families = _families(present)
    for each in present:
        planned = with_outcome(planned, each, _outcome(each, families[each.name], state, context), cause, context)
    return tend_unowned_objects(planned, (ENVIRONMENT.kind,), _removals(present, state), cause, context)


def _is_concerned(planned: PlannedTenant, context: Context) -> bool:
    """Also if a ManagedEnvironment differs: one of somebody else may have the name of theirs."""
    looked_at = (*LOOKED_AT, MANAGED_ENVIRONMENT.kind)
    return differs_by_kind(planned.state, context, looked_at) or is_touched(planned, (ENVIRONMENT.kind,))


def _removals(rows: Iterable[PlainResource], state: TenantState) -> Iterator[UnownedRequest]:
    """Environments that are over, once nothing is left of them and their claims are going."""
    claims = state.plain_resources_of_kind(DEPLOYMENT_TARGET_CLAIM.kind).values()
    staying = ended_claims(state) & {each.name for each in claims if each.is_active}
    for row in rows:
        spec = readable_spec(EnvironmentSpec, row)
        if remaining_of(row) == 0 and spec is not None and spec.claim_name not in staying:
            yield UnownedRequest(row, UnownedObject(UnownedKind.ENVIRONMENT, row.name, row.uid, is_deleted=True))


def backing_of(row: PlainResource, spec: EnvironmentSpec, state: TenantState, context: Context) -> Backing:
    """What there is of what an environment names."""
    claim = claim_backing(state, spec.claim_name) if spec.claim_name else ClaimBacking(None)
    types = _secret_types(state, [row])
    if claim.target is not None:
        types = {**_type_of_targets_secret(claim.target, claim, state), **types}
    version = claim.secret_version if claim.secret_version != SECRET_ABSENT else ""
    return Backing(claim.phase, claim.target, types, version, has_local_cluster=context.is_local)


def _type_of_targets_secret(target: DeploymentTargetSpec, claim: ClaimBacking, state: TenantState) -> dict[str, str]:
    """Of the Secret that opens a target; nothing if there is none.

    Where no watcher has told of it, it counts as one of another type: it is copied then, if it is there.
    """
    name = target.kubernetes_credentials.cluster_credentials_secret
    found = state.secrets().get(name)
    if found is not None:
        return {name: type_of(found)}
    return {} if claim.secret_version == SECRET_ABSENT else {name: claim.secret_type or NOT_FOLLOWED}


@dataclass(frozen=True, slots=True)
class Place:
    """An environment as what is deployed there sees it."""

    spec: EnvironmentSpec | None
    """None: it cannot be read, or there is no room for it."""
    backing: Backing
    is_expired: bool = False
    """Its time is over: nothing is deployed there any more."""


NO_PLACE = Place(None, Backing())
"""Of a name that no environment has."""


def places(state: TenantState, context: Context) -> dict[str, Place]:
    """The environments that exist, by name."""
    rows = [each for each in state.plain_resources_in_order(ENVIRONMENT.kind) if each.present]
    return {each.name: _place(each, state, context) for each in rows}


def _place(row: PlainResource, state: TenantState, context: Context) -> Place:
    spec = readable_spec(EnvironmentSpec, row)
    backing = backing_of(row, spec, state, context) if spec is not None else Backing()
    return Place(spec, backing, remaining_of(row) is not None)


def _outcome(row: PlainResource, family: Family, state: TenantState, context: Context) -> Outcome:
    try:
        spec = accept(row, context.policy.addresses, context.policy.limits)
    except Refused as why:
        return refused(why)
    expiry, left = expiry_problem(row, spec), remaining_of(row)
    if left is not None:
        return Outcome(None if left else (), expiry)
    decision = decide(row.name, spec, backing_of(row, spec, state, context), family, deleting=row.deleting)
    return Outcome(decision.children, decision.problem or expiry)


def _families(rows: Collection[PlainResource]) -> dict[str, Family]:
    """Where each stands among those of its namespace, by name."""
    specs = {each.name: readable_spec(EnvironmentSpec, each) for each in rows}
    parents = {name: spec.parent_environment for name, spec in specs.items() if spec and spec.parent_environment}
    cycles, children = parent_cycles(parents), dict[str, list[str]]()
    for child, parent in parents.items():
        children.setdefault(parent, []).append(child)
    return {name: Family(cycles.get(name, ()), children.get(name, ())) for name in specs}


def _secret_types(state: TenantState, naming: Iterable[PlainResource]) -> Mapping[str, str]:
    """Types of the Secrets that there are, of those that these resources name.

    Of one that is followed there is a row. Of another one its type came with the newest command about a resource that
    names it; the watcher sends that again when the Secret comes, goes or changes its type.
    """
    secrets = state.secrets()
    told = {each.refers_to: each.secret_type for each in naming if each.secret_type}
    followed = {each.refers_to: type_of(secrets[each.refers_to]) for each in naming if each.refers_to in secrets}
    return told | followed
