"""From a finished draft to rows: what the engines shall hold, what the CRs shall show, and only what differs.

Called by ``plan`` at the end. Level-based: rows follow from what is true now, not from the events that led to it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar
from uuid import UUID

from services.common.argocd_names import application_name
from services.common.messages.compiled import RowKind
from services.planner.draft import Draft
from services.planner.engines import argocd
from services.planner.kinds.lifecycle import IncarnationT
from services.planner.rows import (
    Cause,
    Changes,
    Check,
    Deployment,
    EngineAbsence,
    EngineRow,
    Observed,
    Resource,
    Sighting,
    SyncRun,
    Tenant,
)
from services.planner.statuses import WorkspaceChanges
from services.planner.tenant_objects import EngineChanges
from services.planner.tenants import SettledTenant, settle_tenant

RowT = TypeVar("RowT", Tenant, Deployment, Resource, Check, SyncRun)


def changes_of(draft: Draft) -> Changes:
    """All rows that the draft changes."""
    tenants = [settle_tenant(draft, tenant, cause) for tenant, cause in draft.tenant_causes.items()]
    finished = {known for tenant in tenants for known in tenant.finished}
    finished |= {known.id for known in draft.deployments.values() if not known.present and known.spec is None}
    empty = {tenant.id for tenant in tenants if tenant.is_empty}
    workspace = WorkspaceChanges.of(draft)
    deployments, sightings = _split(draft.deployments, draft.state.deployments, finished)
    resources, resource_sightings = _split(draft.resources, draft.state.resources, finished)
    engine = _engine(draft, tenants)
    return Changes(
        tenants=_changed(draft.tenants, draft.state.tenants, empty),
        tenants_gone=_dropped(draft.state.tenants, empty),
        deployments=deployments,
        deployments_gone=_dropped(draft.state.deployments, finished),
        sightings=sightings,
        observed=tuple(_observed_rows(draft, finished, workspace)),
        observed_gone=tuple(known for known in draft.state.observed if known not in draft.observed),
        resources=resources,
        resources_gone=_dropped(draft.state.resources, finished),
        resource_sightings=resource_sightings,
        checks=_changed(draft.checks, draft.state.checks, finished),
        sync_runs=_changed(draft.sync_runs, draft.state.sync_runs, finished),
        operations=tuple(draft.operations.values()),
        operations_moved=tuple(draft.moved.values()),
        engine=tuple(engine.rows),
        engine_absent=tuple(engine.absent),
        engine_departing=tuple(engine.departing),
        engine_gone=tuple(engine.gone),
        oversized=tuple(engine.oversized),
        workspace=tuple(workspace.rows.values()),
        workspace_gone=tuple(workspace.gone),
        refused_sweeps=tuple(draft.refused_sweeps),
    )


def _changed(now: Mapping[UUID, RowT], before: Mapping[UUID, RowT], dropped: Collection[UUID]) -> tuple[RowT, ...]:
    return tuple(row for known, row in now.items() if known not in dropped and row != before.get(known))


def _dropped(before: Mapping[UUID, RowT], dropped: Collection[UUID]) -> tuple[UUID, ...]:
    return tuple(known for known in before if known in dropped)


def _split(
    now: Mapping[UUID, IncarnationT], before: Mapping[UUID, IncarnationT], dropped: Collection[UUID]
) -> tuple[tuple[IncarnationT, ...], tuple[Sighting, ...]]:
    """Rows to write in full, and those of which only the sighting is new: most of them, after each resync."""
    full, sightings = [], []
    for row in _changed(now, before, dropped):
        known = before.get(row.id)
        if known is not None and row == replace(known, epoch=row.epoch, resource_version=row.resource_version):
            sightings.append(Sighting(row.id, row.resource_version, row.epoch))
        else:
            full.append(row)
    return tuple(full), tuple(sightings)


def _observed_rows(draft: Draft, finished: Collection[UUID], workspace: WorkspaceChanges) -> Iterator[Observed]:
    for observed in draft.observed.values():
        sent = workspace.generations.get(observed.deployment_id, observed.status_generation)
        now = replace(observed, status_generation=sent) if sent != observed.status_generation else observed
        if now.deployment_id not in finished and now != draft.state.observed.get(now.deployment_id):
            yield now


def _engine(draft: Draft, tenants: Iterable[SettledTenant]) -> EngineChanges:
    """Rows in the order of their waves; one that is written is not deleted in the same batch."""
    changes = EngineChanges(
        rows=list(_application_rows(draft)), absent=list(_absent_applications(draft)), gone=list(draft.engine_gone)
    )
    for tenant in tenants:
        changes.rows += tenant.engine.rows
        changes.absent += tenant.engine.absent
        changes.departing += tenant.engine.departing
        changes.gone += tenant.engine.gone
        changes.oversized += tenant.engine.oversized
    changes.rows.sort(key=lambda row: (row.wave, row.name))
    written = {(row.engine_instance_id, row.kind, row.namespace, row.name, row.lane) for row in changes.rows}
    return replace(changes, gone=[key for key in changes.gone if key not in written])


def _application_rows(draft: Draft) -> Iterator[EngineRow]:
    for deployment_id, manifest in draft.manifests.items():
        now, before = draft.deployments[deployment_id], draft.state.deployments.get(deployment_id)
        if now.spec is None or (before is not None and (before.digest, before.wanted) == (now.digest, now.wanted)):
            continue
        name = application_name(now.uid)
        yield argocd.row(draft.home(now.tenant_id), RowKind.APPLICATION, name, manifest, "present", _since(draft, now))


def _absent_applications(draft: Draft) -> Iterator[EngineAbsence]:
    for now in draft.deployments.values():
        before = draft.state.deployments.get(now.id)
        if now.spec is not None and not now.wanted and before is not None and before.wanted:
            key = draft.home(now.tenant_id).key(RowKind.APPLICATION, application_name(now.uid))
            cause = _since(draft, now)
            yield EngineAbsence(*key, cause.trace_id, cause.at)


def _since(draft: Draft, now: Deployment) -> Cause:
    """What is measured from: the change of the CR, or the event that made it look different to an engine."""
    before = draft.state.deployments.get(now.id)
    asked = before is None or before.seen_at != now.seen_at
    return Cause(now.seen_at, now.trace_id) if asked else draft.causes[now.id]
