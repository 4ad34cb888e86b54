"""Environments: each is its own namespace, or has a ManagedEnvironment in it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from services.common.api_resource import SECRET
from services.kinds.deployment_target.model import DEPLOYMENT_TARGET, DeploymentTargetSpec
from services.kinds.deployment_target_claim.model import DEPLOYMENT_TARGET_CLAIM
from services.kinds.environment.model import ENVIRONMENT, EnvironmentSpec
from services.kinds.environment.rules import Backing, Family, accept, decide, parent_cycles
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from services.kinds.secret.rules import type_of
from services.kinds.shared.conditions import Refused
from services.kinds.shared.resource import SECRET_ABSENT, PlainResource
from services.kinds.shared.spec_text import readable_spec
from services.planner.domain.appstudio.outcomes import Outcome, differs_by_kind, refused, with_outcome
from services.planner.domain.appstudio.targets import ClaimBacking, claim_backing
from services.planner.domain.planned_tenant import Context, PlannedTenant
from services.planner.domain.state import TenantState

NOT_FOLLOWED = "not followed"
"""Stands for the type of a Secret of which nothing was told."""

LOOKED_AT = (ENVIRONMENT.kind, DEPLOYMENT_TARGET_CLAIM.kind, DEPLOYMENT_TARGET.kind, SECRET.kind)
"""All that the rules look at is of these kinds. There are as many environments at most as the quota allows, so all are
decided again if anything of that differs."""


def plan_environments(planned: PlannedTenant, context: Context) -> PlannedTenant:
    """The tenant with what its environments want, and what is wrong with them."""
    state, cause = planned.state, planned.last_cause
    looked_at = (*LOOKED_AT, MANAGED_ENVIRONMENT.kind)  # one of somebody else may have the name of theirs
    if cause is None or state.tenant.is_former or not differs_by_kind(state, context, looked_at):
        return planned
    present = [each for each in state.plain_resources_in_order(ENVIRONMENT.kind) if each.present]
    families = _families(present)
    for each in present:
        planned = with_outcome(planned, each, _outcome(each, families[each.name], state, context), cause, context)
    return planned


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


NO_PLACE = Place(None, Backing())
"""Of a name that no environment has."""


def places(state: TenantState, context: Context) -> dict[str, Place]:
    """The environments that exist, by name."""
    rows = [each for each in state.plain_resources_in_order(ENVIRONMENT.kind) if each.present]
    return {each.name: _place(each, state, context) for each in rows}


def _place(row: PlainResource, state: TenantState, context: Context) -> Place:
    spec = readable_spec(EnvironmentSpec, row)
    return Place(spec, backing_of(row, spec, state, context) if spec is not None else Backing())


def _outcome(row: PlainResource, family: Family, state: TenantState, context: Context) -> Outcome:
    try:
        spec = accept(row, context.policy.addresses, context.policy.limits)
    except Refused as why:
        return refused(why)
    backing = backing_of(row, spec, state, context)
    decision = decide(row.name, spec, backing, family, deleting=row.deleting)
    return Outcome(decision.children, decision.problem)


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
