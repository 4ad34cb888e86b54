"""Compiles the tenant's projects, which list the repositories and clusters of the earlier steps."""

from __future__ import annotations

from services.common.text_cache import TEXTS
from services.common.urls.repository_url import normalised
from services.kinds.gitops_deployment.rows import Deployment
from services.kinds.registry import Registry
from services.kinds.shared.connections import ConnectionInputs, Repository
from services.kinds.shared.kind import ConnectionsOf
from services.planner.domain.indexed_rows import Counts, index_of
from services.planner.domain.planned_tenant import Context, PlannedTenant, StepResult, upsert_objects, withdraw_objects
from services.planner.domain.state import TenantState
from services.planner.domain.steps.environments import changed_clusters, destinations
from services.planner.engines.interface import Confinement, Destination, Manifest
from services.planner.rows.compiled import TENANT, Owner

REPOSITORIES: Counts[Deployment, str] = Counts(lambda known: known.repository)
"""How many deployments use each repository."""


def compile_projects(planned: PlannedTenant, context: Context) -> PlannedTenant:
    """The tenant with the projects of its own instance."""
    if planned.cause is None:
        return planned
    return planned.after(compile_projects_on(planned.state, context))


def compile_projects_on(state: TenantState, context: Context) -> StepResult:
    """The projects of the instance that ``state`` is on.

    They stay while there is a deployment on the engine, or a repository that a resource is for.
    """
    if context.is_known and _look_the_same(state, context):
        return StepResult(state)
    manifests = _projects(state, context)
    wanted = {manifest.key for manifest in manifests}
    step = upsert_objects(StepResult(state), manifests, Owner(TENANT, state.tenant.id))
    return withdraw_objects(step, [key for key in state.objects_of_kind(TENANT) if key not in wanted], {})


def _look_the_same(now: TenantState, context: Context) -> bool:
    """Whether nothing that projects depend on has changed. This costs less than to compile them."""
    before = context.before
    used, used_before = index_of(now.deployments, REPOSITORIES), index_of(before.deployments, REPOSITORIES)
    if used is not used_before and used.keys() != used_before.keys():
        return False
    if now.objects_of_kind(TENANT) != before.objects_of_kind(TENANT):
        return False
    kinds = context.policy.kinds
    rows = [
        (now.plain_resources_of_kind(kind.name), before.plain_resources_of_kind(kind.name))
        for kind in kinds.others_with_objects
    ]
    if any(each is not then for each, then in rows) and _opened(now, kinds) != _opened(before, kinds):
        return False
    changed = changed_clusters(now, before, kinds)
    return not changed or destinations(now, kinds) == destinations(before, kinds)


def _projects(state: TenantState, context: Context) -> tuple[Manifest, ...]:
    """The projects. Deployments that are going count: the engine needs their project until the last one is gone."""
    repositories = index_of(state.deployments, REPOSITORIES).keys() | _opened(state, context.policy.kinds)
    if not repositories:
        return ()
    reached = destinations(state, context.policy.kinds)
    if context.is_local:
        own = Destination(None, (state.tenant.namespace,))
        confinement = Confinement(repositories, (own, *reached), context.policy.refused_kinds)
    else:
        confinement = Confinement(repositories, reached)
    return context.engine.projects(context.placement, confinement)


def _opened(state: TenantState, kinds: Registry) -> set[str]:
    """Repositories, normalised, that existing resources are for."""
    return {
        url
        for kind in kinds.others_with_objects
        for each in state.plain_resources_of_kind(kind.name).values()
        if each.is_active and each.accepted
        for url in _repositories(kind.connections, each.accepted)
    }


@TEXTS.remember
def _repositories(connections: ConnectionsOf | None, accepted: str) -> tuple[str, ...]:
    wanted = connections(ConnectionInputs(accepted)) if connections is not None else ()
    return tuple(normalised(connection.url) for connection in wanted if isinstance(connection, Repository))
