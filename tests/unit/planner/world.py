"""The planner's database as plain dictionaries: what the real store must do, in the fewest words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from services.common.messages import Command, ResyncCompleted
from services.planner.coalesce import coalesce
from services.planner.events import Event
from services.planner.plan import plan
from services.planner.rows import (
    Changes,
    Check,
    Deployment,
    EngineKey,
    EngineRow,
    Holding,
    Instance,
    Observed,
    Operation,
    Resource,
    State,
    SweepScope,
    SyncRun,
    Tenant,
    Usage,
    WorkspaceKey,
    WorkspaceRow,
)
from services.planner.rules import Rules

FLEET = (Instance("engine-1", "argocd-1", accepting=True), Instance("engine-2", "argocd-2", accepting=True))


@dataclass
class World:
    """Rows by key."""

    fleet: Sequence[Instance] = FLEET
    rules: Rules = field(default_factory=Rules)
    tenants: dict[UUID, Tenant] = field(default_factory=dict)
    deployments: dict[UUID, Deployment] = field(default_factory=dict)
    observed: dict[UUID, Observed] = field(default_factory=dict)
    resources: dict[UUID, Resource] = field(default_factory=dict)
    checks: dict[UUID, Check] = field(default_factory=dict)
    sync_runs: dict[UUID, SyncRun] = field(default_factory=dict)
    operations: dict[UUID, Operation] = field(default_factory=dict)
    engine: dict[EngineKey, EngineRow] = field(default_factory=dict)
    workspace: dict[WorkspaceKey, WorkspaceRow] = field(default_factory=dict)

    def take(self, *events: Event) -> Changes:
        """One batch."""
        batch = coalesce(events)
        changes = plan(self.state(batch), batch, self.rules)
        self.apply(changes)
        return changes

    def state(self, events: Sequence[Event]) -> State:
        return State(
            instances={instance.id: instance for instance in self.fleet},
            tenants=dict(self.tenants),
            holdings={tenant: self._holdings(tenant) for tenant in self.tenants},
            usage={tenant: self._usage(tenant) for tenant in self.tenants},
            resources=dict(sorted(self.resources.items())),
            checks=dict(self.checks),
            sync_runs=dict(self.sync_runs),
            deployments=dict(sorted(self.deployments.items())),
            observed=dict(self.observed),
            statuses=dict(self.workspace),
            sweeps=dict(self._sweep(event) for event in events if _is_marker(event)),
        )

    def apply(self, changes: Changes) -> None:
        _drop(self.observed, changes.observed_gone)
        self.tenants |= {row.id: row for row in changes.tenants}
        self.deployments |= {row.id: row for row in changes.deployments}
        for seen in changes.sightings:
            known = self.deployments[seen.id]
            self.deployments[known.id] = replace(known, resource_version=seen.resource_version, epoch=seen.epoch)
        self.observed |= {row.deployment_id: row for row in changes.observed}
        self.resources |= {row.id: row for row in changes.resources}
        for seen in changes.resource_sightings:
            resource = self.resources[seen.id]
            self.resources[seen.id] = replace(resource, resource_version=seen.resource_version, epoch=seen.epoch)
        self.checks |= {row.resource_id: row for row in changes.checks}
        self.sync_runs |= {row.resource_id: row for row in changes.sync_runs}
        self.operations |= {row.id: row for row in changes.operations}
        for moved in changes.operations_moved:
            operation = self.operations.get(moved.id)
            if operation is not None and operation.state in {"Waiting", "Failed"}:
                self.operations[moved.id] = replace(operation, state=moved.state, message=moved.message)
        self.engine |= {(row.engine_instance_id, row.kind, row.namespace, row.name): row for row in changes.engine}
        for gone in changes.engine_absent:
            key = (gone.engine_instance_id, gone.kind, gone.namespace, gone.name)
            assert self.engine[key].desired == "present"
            self.engine[key] = replace(self.engine[key], desired="absent", trace_id=gone.trace_id, seen_at=gone.seen_at)
        _drop(self.engine, changes.engine_gone)
        self.workspace |= {(row.workspace, row.namespace, row.kind, row.name): row for row in changes.workspace}
        _drop(self.workspace, changes.workspace_gone)
        _drop(self.resources, changes.resources_gone)
        _drop(self.checks, changes.resources_gone)
        _drop(self.sync_runs, changes.resources_gone)
        _drop(self.deployments, changes.deployments_gone)
        _drop(self.tenants, changes.tenants_gone)
        assert all(known in self.deployments for known in self.observed)
        assert all(known in self.resources for known in (*self.checks, *self.sync_runs))
        assert all(resource.tenant_id in self.tenants for resource in self.resources.values())
        assert all(deployment.tenant_id in self.tenants for deployment in self.deployments.values())

    def application(self, uid: str = "uid-1") -> EngineRow | None:
        return next((row for row in self.engine.values() if row.name == f"gitopsdepl-{uid}"), None)

    def project(self) -> EngineRow | None:
        """The only tenant's AppProject."""
        (project,) = [row for row in self.engine.values() if row.kind == "AppProject"] or [None]
        return project

    def rows(self) -> dict[str, Any]:
        """Everything, to be compared."""
        ours = ("tenants", "deployments", "observed", "resources", "checks", "sync_runs", "operations")
        names = (*ours, "engine", "workspace")
        return {name: dict(getattr(self, name)) for name in names}

    def _holdings(self, tenant: UUID) -> dict[tuple[str, str], Holding]:
        lane = f"app-project-{tenant}"
        rows = [row for row in self.engine.values() if row.lane == lane and row.kind != "Application"]
        return {(row.kind, row.name): Holding(row.desired == "present", row.digest) for row in rows}

    def _usage(self, tenant: UUID) -> Usage:
        deployments = [known for known in self.deployments.values() if known.tenant_id == tenant]
        resources = [known for known in self.resources.values() if known.tenant_id == tenant and not known.over_quota]
        return Usage(
            Counter(known.repository for known in deployments),
            sum(len(known.spec or "") + len(known.offered or "") for known in deployments),
            sum(len(known.spec) for known in resources),
        )

    def _sweep(self, event: Event) -> tuple[SweepScope, int]:
        assert isinstance(event.message, Command)
        assert isinstance(event.message.event, ResyncCompleted)
        marker = event.message.event
        scope = SweepScope(event.message.source, marker.kind, event.partition, marker.epoch)
        of_kind = [known for known in self.resources.values() if known.kind == marker.kind]
        found: Sequence[Deployment | Resource] = (
            list(self.deployments.values()) if marker.kind == "GitOpsDeployment" else of_kind
        )
        return scope, len([known for known in found if known.present and self._partition(known) == event.partition])

    def _partition(self, known: Deployment | Resource) -> int:
        return self.tenants[known.tenant_id].partition


def _is_marker(event: Event) -> bool:
    return isinstance(event.message, Command) and isinstance(event.message.event, ResyncCompleted)


def _drop(rows: dict[Any, Any], keys: Sequence[Any]) -> None:
    for key in keys:
        rows.pop(key, None)
