"""Compiles the tenant's projects, which list the repositories and clusters of the earlier steps."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from services.common.urls.repository_url import normalised
from services.kinds.gitops_deployment.rows import Deployment
from services.kinds.repository_credential.model import REPOSITORY_CREDENTIAL
from services.kinds.repository_credential.validation import accepted_credential
from services.kinds.shared.rows import Resource
from services.planner.domain.planned import Context, Planned, release, want
from services.planner.domain.state import TenantState
from services.planner.domain.steps.environments import changed_environments, destinations
from services.planner.domain.table import Counts, view_of
from services.planner.engines.interface import Confinement, Destination, Manifest
from services.planner.rows import Role

REPOSITORIES: Counts[Deployment, str] = Counts(lambda known: known.repository)
"""How many deployments use each repository."""


def confine(planned: Planned, context: Context) -> Planned:
    """Projects stay as long as there is a deployment on the engine, or a credential."""
    if context.is_known and _look_the_same(planned.state, context):
        return planned
    manifests = _projects(planned.state, context)
    wanted = {manifest.key for manifest in manifests}
    projects = list(planned.state.objects_of_role(Role.PROJECT))
    planned = want(planned, manifests, Role.PROJECT)
    return release(planned, [key for key in projects if key not in wanted], {})


def _look_the_same(now: TenantState, context: Context) -> bool:
    """Whether nothing that projects follow from has changed: to know that costs less than to compile them."""
    before = context.before
    used, used_before = view_of(now.deployments, REPOSITORIES), view_of(before.deployments, REPOSITORIES)
    if used is not used_before and used.keys() != used_before.keys():
        return False
    if now.objects_of_role(Role.PROJECT) != before.objects_of_role(Role.PROJECT):
        return False
    if _credentials(now) is not _credentials(before) and _opened(now) != _opened(before):
        return False
    changed = changed_environments(now, before, context.engine)
    return not changed or destinations(now, context.engine) == destinations(before, context.engine)


def _credentials(state: TenantState) -> Mapping[UUID, Resource]:
    return state.rows_of_kind(REPOSITORY_CREDENTIAL.kind)


def _projects(state: TenantState, context: Context) -> tuple[Manifest, ...]:
    """Deployments on their way out count: the engine needs their project until the last of them is gone."""
    repositories = view_of(state.deployments, REPOSITORIES).keys() | _opened(state)
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
    credentials = {each.accepted for each in _credentials(state).values() if each.wanted and each.accepted}
    return {normalised(accepted_credential(text).repository) for text in credentials}
