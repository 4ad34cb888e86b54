"""One tenant brought to rest after a batch: everything that follows from its rows, in the order in which it follows.

Called by ``compile``. Of a tenant of which only deployments were concerned its resources' recipes are left alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from services.planner import syncs
from services.planner.admission import admit
from services.planner.conclusions import conclude
from services.planner.draft import Draft
from services.planner.engines.argocd_secrets import id_of
from services.planner.environments import environment_views, views_of
from services.planner.kinds.managed_environment import EnvironmentView
from services.planner.kinds.names import MANAGED_ENVIRONMENT, SYNC_RUN
from services.planner.rows import Cause, Resource
from services.planner.settle import settled
from services.planner.tenant_objects import EngineChanges, TenantObjects


@dataclass(frozen=True)
class SettledTenant:
    """What became of a tenant."""

    id: UUID
    engine: EngineChanges
    finished: frozenset[UUID]
    """Deployments and resources of which nothing is left, neither the CR nor anything on an engine."""
    is_empty: bool
    """Nor is there anything left of the tenant."""


def settle_tenant(draft: Draft, tenant_id: UUID, cause: Cause) -> SettledTenant:
    """Bring the tenant to rest.

    1. Who is within the allowance: what is beyond it has no effects.
    2. Recipes of environments and credentials, so that it is known which environments there are.
    3. Deployments that name an environment.
    4. AppProjects, which list what 2 and 3 have come to.
    5. Syncs, of deployments as they are now.
    """
    objects = TenantObjects(draft, tenant_id, cause)
    admit(draft, tenant_id, cause)
    if tenant_id in draft.unsettled:
        objects.want_secrets()
    if tenant_id in draft.reviewed:
        _settle_deployments(draft, tenant_id, draft.reviewed[tenant_id])
    finished = {known.id for known in draft.deployments_of(tenant_id) if not known.present and known.spec is None}
    counts = _by_repository(draft, tenant_id, finished)
    objects.want_projects(repository for repository in counts if repository is not None)
    objects.want_syncs(syncs.arrange(draft, tenant_id, cause))
    engine = objects.changes()
    gone = _finished_resources(draft, tenant_id, engine)
    conclude(draft, tenant_id, gone)
    left = [known for known in draft.resources_of(tenant_id) if known.id not in gone]
    is_empty = not counts and not left and objects.is_empty
    return SettledTenant(tenant_id, engine, frozenset(finished | gone), is_empty)


def _settle_deployments(draft: Draft, tenant_id: UUID, cause: Cause) -> None:
    """Those whose environment looks different now, and those that were settled before that was known."""
    before, now = _views_before(draft, tenant_id), environment_views(draft, tenant_id)
    changed = {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}
    for known in draft.deployments_of(tenant_id):
        if known.wanted and (known.environment in changed or (known.environment and known.id in draft.causes)):
            settled_now = settled(draft, known)
            if settled_now != known:
                draft.put(settled_now, cause, actor="")


def _views_before(draft: Draft, tenant_id: UUID) -> dict[str, EnvironmentView]:
    ids = [known.id for known in draft.of_kind(tenant_id, MANAGED_ENVIRONMENT)]
    known = [draft.state.resources[each] for each in ids if each in draft.state.resources]
    return views_of(known, draft.state.holdings.get(tenant_id, {}), draft.state.checks)


def _by_repository(draft: Draft, tenant_id: UUID, finished: Iterable[UUID]) -> Counter[str | None]:
    """All deployments of the tenant by repository; those without an Application under None.

    Those being deleted count: Argo CD needs their project until the last of them is gone.
    """
    dropped = set(finished)
    usage = draft.state.usage.get(tenant_id)
    counts = Counter(dict(usage.repositories) if usage else {})
    for now in draft.deployments_of(tenant_id):
        before = draft.state.deployments.get(now.id)
        if before is not None:
            counts[before.repository] -= 1
        if now.id not in dropped:
            counts[now.repository] += 1
    return +counts


def _finished_resources(draft: Draft, tenant_id: UUID, engine: EngineChanges) -> set[UUID]:
    going = {name for _, _, _, name, _ in engine.gone}
    held = {id_of(name) for _, name in draft.state.holdings.get(tenant_id, {}) if name not in going}
    return {known.id for known in draft.resources_of(tenant_id) if _is_over(draft, known, held)}


def _is_over(draft: Draft, known: Resource, held: set[UUID | None]) -> bool:
    """A run is remembered for a while after its end: what has run must not run again, whoever tells of it late."""
    if known.kind == SYNC_RUN:
        run = draft.sync_runs.get(known.id)
        return not known.present and (run is None or run.sequence == 0)
    return not known.present and known.id not in held
