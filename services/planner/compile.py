"""From a finished draft to rows: what the engines shall hold, what the CRs shall show, and only what differs.

Called by ``plan`` at the end. Level-based: rows follow from what is true now, not from the events that led to it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Literal
from uuid import UUID

from services.planner.app_projects import TenantProject
from services.planner.draft import Draft
from services.planner.engines import argocd
from services.planner.rows import Cause, Changes, Deployment, EngineKey, EngineRow, Observed, Sighting, Tenant
from services.planner.statuses import WorkspaceChanges


def changes_of(draft: Draft) -> Changes:
    """All rows that the draft changes."""
    finished = {known for known, deployment in draft.deployments.items() if _finished(deployment)}
    of_tenant = _by_tenant(draft.deployments.values())
    projects = [TenantProject(draft, tenant, of_tenant[tenant], finished) for tenant in draft.tenant_causes]
    engine = sorted(
        [*_application_rows(draft), *filter(None, (project.row() for project in projects))],
        key=lambda row: (row.wave, row.name),
    )
    workspace = WorkspaceChanges.of(draft)
    deployments, sightings = _deployment_rows(draft, finished)
    return Changes(
        tenants=tuple(_tenant_rows(draft, projects)),
        tenants_gone=tuple(p.tenant_id for p in projects if p.tenant_is_empty and p.tenant_id in draft.state.tenants),
        deployments=deployments,
        deployments_gone=tuple(known for known in draft.state.deployments if known in finished),
        sightings=sightings,
        observed=tuple(_observed_rows(draft, finished, workspace)),
        observed_gone=tuple(known for known in draft.state.observed if known not in draft.observed),
        operations=tuple(draft.operations.values()),
        operations_moved=tuple(draft.moved.values()),
        engine=tuple(engine),
        engine_gone=tuple(_engine_keys_gone(draft, projects, engine)),
        workspace=tuple(workspace.rows.values()),
        workspace_gone=tuple(workspace.gone),
        refused_sweeps=tuple(draft.refused_sweeps),
    )


def _finished(deployment: Deployment) -> bool:
    return not deployment.present and deployment.spec is None


def _by_tenant(deployments: Iterable[Deployment]) -> defaultdict[UUID, list[Deployment]]:
    grouped: defaultdict[UUID, list[Deployment]] = defaultdict(list)
    for deployment in deployments:
        grouped[deployment.tenant_id].append(deployment)
    return grouped


def _deployment_rows(draft: Draft, finished: set[UUID]) -> tuple[tuple[Deployment, ...], tuple[Sighting, ...]]:
    """Rows to write in full, and those of which only the sighting is new: most of them, after each resync."""
    full, sightings = [], []
    for now in draft.deployments.values():
        before = draft.state.deployments.get(now.id)
        if now.id in finished or now == before:
            continue
        if before is not None and now == replace(before, epoch=now.epoch, resource_version=now.resource_version):
            sightings.append(Sighting(now.id, now.resource_version, now.epoch))
        else:
            full.append(now)
    return tuple(full), tuple(sightings)


def _observed_rows(draft: Draft, finished: set[UUID], workspace: WorkspaceChanges) -> Iterator[Observed]:
    for observed in draft.observed.values():
        sent = workspace.generations.get(observed.deployment_id, observed.status_generation)
        now = replace(observed, status_generation=sent) if sent != observed.status_generation else observed
        if now.deployment_id not in finished and now != draft.state.observed.get(now.deployment_id):
            yield now


def _application_rows(draft: Draft) -> Iterator[EngineRow]:
    for deployment_id, manifest in draft.manifests.items():
        now, before = draft.deployments[deployment_id], draft.state.deployments.get(deployment_id)
        if now.spec is None or (before is not None and (before.digest, before.wanted) == (now.digest, now.wanted)):
            continue
        asked = before is None or before.seen_at != now.seen_at
        cause = Cause(now.seen_at, now.trace_id) if asked else draft.causes[deployment_id]
        desired: Literal["present", "absent"] = "present" if now.wanted else "absent"
        yield argocd.application_row(draft.home(now.tenant_id), now.uid, manifest, desired, cause)


def _engine_keys_gone(
    draft: Draft, projects: Iterable[TenantProject], engine: Iterable[EngineRow]
) -> Iterator[EngineKey]:
    """Rows to delete; one that is written again in the same batch stays."""
    written = {(row.engine_instance_id, row.kind, row.namespace, row.name) for row in engine}
    removed = [project.home.key(argocd.APP_PROJECT, project.home.project) for project in projects if project.removed]
    return (key for key in [*draft.engine_gone, *removed] if key not in written)


def _tenant_rows(draft: Draft, projects: Iterable[TenantProject]) -> Iterator[Tenant]:
    empty = {project.tenant_id for project in projects if project.tenant_is_empty}
    for tenant in draft.tenants.values():
        if tenant.id not in empty and tenant != draft.state.tenants.get(tenant.id):
            yield tenant
