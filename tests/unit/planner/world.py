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
from services.planner.plan import SweepGuard, plan
from services.planner.rows import (
    Changes,
    Deployment,
    EngineKey,
    EngineRow,
    Instance,
    Observed,
    Operation,
    Project,
    State,
    SweepScope,
    Tenant,
    WorkspaceKey,
    WorkspaceRow,
)

FLEET = (Instance("engine-1", "argocd-1", accepting=True), Instance("engine-2", "argocd-2", accepting=True))


@dataclass
class World:
    """Rows by key."""

    fleet: Sequence[Instance] = FLEET
    guard: SweepGuard = field(default_factory=SweepGuard)
    tenants: dict[UUID, Tenant] = field(default_factory=dict)
    deployments: dict[UUID, Deployment] = field(default_factory=dict)
    observed: dict[UUID, Observed] = field(default_factory=dict)
    operations: dict[UUID, Operation] = field(default_factory=dict)
    engine: dict[EngineKey, EngineRow] = field(default_factory=dict)
    workspace: dict[WorkspaceKey, WorkspaceRow] = field(default_factory=dict)

    def take(self, *events: Event) -> Changes:
        """One batch."""
        batch = coalesce(events)
        changes = plan(self.state(batch), batch, self.guard)
        self.apply(changes)
        return changes

    def state(self, events: Sequence[Event]) -> State:
        repositories: dict[UUID, Counter[str | None]] = {}
        for deployment in self.deployments.values():
            repositories.setdefault(deployment.tenant_id, Counter())[deployment.repository] += 1
        return State(
            instances={instance.id: instance for instance in self.fleet},
            tenants=dict(self.tenants),
            projects={tenant: project for tenant in self.tenants if (project := self._project(tenant)) is not None},
            repositories=repositories,
            deployments=dict(self.deployments),
            observed=dict(self.observed),
            statuses=dict(self.workspace),
            sweeps=dict(self._sweep(event) for event in events if _is_marker(event)),
        )

    def apply(self, changes: Changes) -> None:
        _drop(self.observed, changes.observed_gone)
        self.tenants |= {row.id: row for row in changes.tenants}
        self.deployments |= {row.id: row for row in changes.deployments}
        for seen in changes.sightings:
            known = self.deployments[seen.deployment_id]
            self.deployments[known.id] = replace(known, resource_version=seen.resource_version, epoch=seen.epoch)
        self.observed |= {row.deployment_id: row for row in changes.observed}
        self.operations |= {row.id: row for row in changes.operations}
        for moved in changes.operations_moved:
            operation = self.operations.get(moved.id)
            if operation is not None and operation.state in {"Waiting", "Failed"}:
                self.operations[moved.id] = replace(operation, state=moved.state, message=moved.message)
        self.engine |= {(row.engine_instance_id, row.kind, row.namespace, row.name): row for row in changes.engine}
        _drop(self.engine, changes.engine_gone)
        self.workspace |= {(row.workspace, row.namespace, row.kind, row.name): row for row in changes.workspace}
        _drop(self.workspace, changes.workspace_gone)
        _drop(self.deployments, changes.deployments_gone)
        _drop(self.tenants, changes.tenants_gone)
        assert all(known in self.deployments for known in self.observed)
        assert all(deployment.tenant_id in self.tenants for deployment in self.deployments.values())

    def application(self, uid: str = "uid-1") -> EngineRow | None:
        return next((row for row in self.engine.values() if row.name == f"gitopsdepl-{uid}"), None)

    def project(self) -> EngineRow | None:
        """The only tenant's AppProject."""
        (project,) = [row for row in self.engine.values() if row.kind == "AppProject"] or [None]
        return project

    def rows(self) -> dict[str, Any]:
        """Everything, to be compared."""
        names = ("tenants", "deployments", "observed", "operations", "engine", "workspace")
        return {name: dict(getattr(self, name)) for name in names}

    def _project(self, tenant: UUID) -> Project | None:
        row = next((row for row in self.engine.values() if row.name == f"app-project-{tenant}"), None)
        return None if row is None else Project(wanted=row.desired == "present", digest=row.digest)

    def _sweep(self, event: Event) -> tuple[SweepScope, int]:
        assert isinstance(event.message, Command)
        assert isinstance(event.message.event, ResyncCompleted)
        marker = event.message.event
        scope = SweepScope(event.message.source, marker.kind, event.partition, marker.epoch)
        known = [d for d in self.deployments.values() if d.present and self._partition(d) == event.partition]
        return scope, len(known)

    def _partition(self, deployment: Deployment) -> int:
        return self.tenants[deployment.tenant_id].partition


def _is_marker(event: Event) -> bool:
    return isinstance(event.message, Command) and isinstance(event.message.event, ResyncCompleted)


def _drop(rows: dict[Any, Any], keys: Sequence[Any]) -> None:
    for key in keys:
        rows.pop(key, None)
