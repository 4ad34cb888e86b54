"""Compiles the tenant's projects, which list the repositories and clusters of the earlier steps."""

from __future__ import annotations

from services.common.urls.repository_url import normalised
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from services.kinds.repository_credential.model import REPOSITORY_CREDENTIAL
from services.kinds.repository_credential.validation import accepted_credential
from services.planner.domain.planned import Context, Planned, release, want
from services.planner.domain.state import TenantState
from services.planner.domain.steps.environments import destinations
from services.planner.engines.interface import Confinement, Destination, Manifest
from services.planner.rows import Role

LISTED = frozenset({Role.PROJECT, Role.ENVIRONMENT})
"""Objects that projects are, and those that they list while an engine holds them."""


def confine(planned: Planned, context: Context) -> Planned:
    """Projects stay as long as there is a deployment on the engine, or a credential."""
    if context.is_known and _inputs(planned.state) == _inputs(context.before):
        return planned
    manifests = _projects(planned.state, context)
    wanted = {manifest.key for manifest in manifests}
    projects = [key for key, held in planned.state.objects.items() if held.role is Role.PROJECT]
    planned = want(planned, manifests, Role.PROJECT)
    return release(planned, [key for key in projects if key not in wanted], {})


def _inputs(state: TenantState) -> object:
    """What projects follow from, as it is stored: to compare that costs less than to compile them."""
    repositories = {each.repository for each in state.deployments.values()}
    credentials, environments = REPOSITORY_CREDENTIAL.kind, MANAGED_ENVIRONMENT.kind
    opened = [(each.id, each.wanted, each.accepted) for each in state.resources.values() if each.kind == credentials]
    checks = state.checks
    reached = [
        (each.id, each.accepted, checks[each.id].worked if each.id in checks else "")
        for each in state.resources.values()
        if each.kind == environments
    ]
    objects = state.objects.items()
    held = [(key, each if each.role is Role.PROJECT else None) for key, each in objects if each.role in LISTED]
    return (repositories, opened, reached, held)


def _projects(state: TenantState, context: Context) -> tuple[Manifest, ...]:
    """Deployments on their way out count: the engine needs their project until the last of them is gone."""
    used = {each.repository for each in state.deployments.values() if each.repository is not None}
    repositories = used | _opened(state)
    if not repositories:
        return ()
    reached = destinations(state, context.engine)
    if context.is_local:
        own = Destination(None, (state.tenant.namespace,))
        confinement = Confinement(repositories, (own, *reached), context.policy.refused_kinds)
    else:
        confinement = Confinement(repositories, reached)
    return context.engine.projects(context.placement, confinement)


def _opened(state: TenantState) -> set[str]:
    """Repositories, normalised, that the tenant has credentials for."""
    credentials = [each for each in state.of_kind(REPOSITORY_CREDENTIAL.kind) if each.wanted and each.accepted]
    return {normalised(accepted_credential(each.accepted).repository) for each in credentials}
