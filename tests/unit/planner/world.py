"""The planner's database as plain dictionaries: what the real store must do, in the fewest words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from services.common.messages import Command, ResyncCompleted
from services.planner.coalesce import coalesce
from services.planner.engines.argocd_secrets import id_of
from services.planner.events import Event
from services.planner.ids import tenant_id
from services.planner.keys import Keys
from services.planner.plan import plan
from services.planner.rows import (
    Changes,
    Check,
    Deployment,
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

WAITING_AT_ONCE = 100
"""As in the query."""

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
    engine: dict[tuple[str, str, str, str], EngineRow] = field(default_factory=dict)
    workspace: dict[WorkspaceKey, WorkspaceRow] = field(default_factory=dict)

    def take(self, *events: Event) -> Changes:
        """One batch."""
        batch = coalesce(events)
        changes = plan(self.state(batch), batch, self.rules)
        self.apply(changes)
        return changes

    def state(self, events: Sequence[Event]) -> State:
        """What the real store would read for these events, and no more."""
        keys = Keys.of(events)
        sweeps = dict(self._sweep(event, keys) for event in events if _is_marker(event))
        tenants = {known: self.tenants[known] for known in sorted(keys.tenants) if known in self.tenants}
        waiting = self._waiting(keys) | self._in_force(keys)
        matter = [row for row in self.resources.values() if self._matters(row, keys) or row.id in waiting]
        resources = {row.id: row for row in sorted(matter, key=_id)}
        deployments = {row.id: row for row in sorted(self.deployments.values(), key=_id) if self._concerns(row, keys)}
        return State(
            instances={instance.id: instance for instance in self.fleet},
            tenants=tenants,
            holdings={tenant: held for tenant in tenants if (held := self._holdings(tenant))},
            usage={tenant: usage for tenant in tenants if (usage := self._usage(tenant)) != Usage()},
            resources=resources,
            checks={known: row for known, row in self.checks.items() if known in resources},
            sync_runs={known: row for known, row in self.sync_runs.items() if known in resources},
            deployments=deployments,
            observed={known: row for known, row in self.observed.items() if known in deployments},
            statuses=self._statuses(deployments, resources),
            sweeps=sweeps,
        )

    def _matters(self, row: Resource, keys: Keys) -> bool:
        """The query RESOURCES."""
        run = self.sync_runs.get(row.id)
        over = row.kind == "GitOpsDeploymentSyncRun" and not row.present and run is not None
        remembered = over and run is not None and run.state not in {"Running", "Terminating"}
        named = row.id in keys.resources or (row.tenant_id, row.kind, row.name) in keys.resource_names
        known = row.tenant_id in keys.tenants and not row.over_quota and row.kind != "Secret" and not remembered
        secret = row.tenant_id in keys.unsettled and not row.over_quota and row.kind == "Secret"
        return named or known or secret

    def _waiting(self, keys: Keys) -> set[UUID]:
        """Of each tenant the oldest resources beyond its allowance."""
        found: set[UUID] = set()
        for tenant in keys.crowded | keys.unsettled:
            beyond = [row for row in self.resources.values() if row.tenant_id == tenant and row.over_quota]
            found |= {row.id for row in sorted(beyond, key=lambda row: (row.created_at, row.id))[:WAITING_AT_ONCE]}
        return found

    def _in_force(self, keys: Keys) -> set[UUID]:
        """Resources beyond the allowance of which an engine holds something, and their Secrets."""
        held = {(tenant, id_of(name)) for tenant in keys.tenants for _, name in self._holdings(tenant)}
        owners = [row for row in self.resources.values() if (row.tenant_id, row.id) in held]
        named = {(row.tenant_id, "Secret", row.refers_to) for row in owners}
        secrets = [row for row in self.resources.values() if (row.tenant_id, row.kind, row.name) in named]
        return {row.id for row in (*owners, *secrets) if row.over_quota}

    def _concerns(self, row: Deployment, keys: Keys) -> bool:
        """The query DEPLOYMENTS."""
        open_runs = {
            (self.resources[run.resource_id].tenant_id, run.deployment_name)
            for run in self.sync_runs.values()
            if run.state not in {"Ended", "Refused"}
        }
        reviewed = row.tenant_id in keys.reviewed | keys.unsettled and row.environment is not None
        synced = row.tenant_id in keys.tenants and (row.tenant_id, row.name) in open_runs
        named = row.id in keys.deployments or (row.tenant_id, row.name) in keys.names
        return named or reviewed or synced or row.tenant_id in keys.whole_tenants

    def _statuses(
        self, deployments: dict[UUID, Deployment], resources: dict[UUID, Resource]
    ) -> dict[WorkspaceKey, WorkspaceRow]:
        """They come joined to the rows of their names."""
        names = {(row.tenant_id, "GitOpsDeployment", row.name) for row in deployments.values()}
        names |= {(row.tenant_id, row.kind, row.name) for row in resources.values()}
        return {key: row for key, row in self.workspace.items() if (tenant_id(*key[:2]), *key[2:]) in names}

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
        self._apply_engine(changes)
        self.workspace |= {(row.workspace, row.namespace, row.kind, row.name): row for row in changes.workspace}
        _drop(self.workspace, changes.workspace_gone)
        _drop(self.resources, changes.resources_gone)
        _drop(self.checks, changes.resources_gone)
        _drop(self.sync_runs, changes.resources_gone)
        _drop(self.deployments, changes.deployments_gone)
        left = {resource.tenant_id for resource in self.resources.values()}
        _drop(self.tenants, [tenant for tenant in changes.tenants_gone if tenant not in left])
        assert all(known in self.deployments for known in self.observed)
        assert all(known in self.resources for known in (*self.checks, *self.sync_runs))
        assert all(resource.tenant_id in self.tenants for resource in self.resources.values())
        assert all(deployment.tenant_id in self.tenants for deployment in self.deployments.values())

    def _apply_engine(self, changes: Changes) -> None:
        """A row of another lane is another tenant's, whatever its name."""
        for row in changes.engine:
            if self._lane(row.engine_instance_id, row.kind, row.namespace, row.name) in {None, row.lane}:
                self.engine[row.engine_instance_id, row.kind, row.namespace, row.name] = row
        for row in changes.engine_departing:
            assert (row.engine_instance_id, row.kind, row.namespace, row.name) in self.engine
            self.engine[row.engine_instance_id, row.kind, row.namespace, row.name] = row
        for gone in changes.engine_absent:
            key = (gone.engine_instance_id, gone.kind, gone.namespace, gone.name)
            if self._lane(*key) == gone.lane:
                absent = replace(self.engine[key], desired="absent", trace_id=gone.trace_id, seen_at=gone.seen_at)
                self.engine[key] = absent
        for instance, kind, namespace, name, lane in changes.engine_gone:
            if self._lane(instance, kind, namespace, name) == lane:
                del self.engine[instance, kind, namespace, name]

    def _lane(self, instance: str, kind: str, namespace: str, name: str) -> str | None:
        held = self.engine.get((instance, kind, namespace, name))
        return held.lane if held is not None else None

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
        return {(row.kind, row.name): _holding(row) for row in rows}

    def _usage(self, tenant: UUID) -> Usage:
        deployments = [known for known in self.deployments.values() if known.tenant_id == tenant]
        resources = [known for known in self.resources.values() if known.tenant_id == tenant and known.present]
        in_force = [known.accepted if known.over_quota else known.spec for known in resources]
        going = sum(held.size for held in self._holdings(tenant).values() if not held.wanted)
        return Usage(
            Counter(known.repository for known in deployments),
            sum(known.spec is None and known.offered is not None for known in deployments),
            sum(len(known.spec or "") + len(known.offered or "") for known in deployments),
            sum(len(text) for text in in_force) + going,
        )

    def _sweep(self, event: Event, keys: Keys) -> tuple[SweepScope, int]:
        assert isinstance(event.message, Command)
        assert isinstance(event.message.event, ResyncCompleted)
        marker = event.message.event
        scope = SweepScope(event.message.source, marker.kind, event.partition, marker.epoch)
        of_kind = [known for known in self.resources.values() if known.kind == marker.kind]
        found: Sequence[Deployment | Resource] = (
            list(self.deployments.values()) if marker.kind == "GitOpsDeployment" else of_kind
        )
        in_scope = [known for known in found if known.present and self._partition(known) == event.partition]
        for known in in_scope:
            if known.epoch < marker.epoch:
                keys.add_unseen(marker.kind, known.id, known.tenant_id)
        return scope, len(in_scope)

    def _partition(self, known: Deployment | Resource) -> int:
        return self.tenants[known.tenant_id].partition


def _holding(row: EngineRow) -> Holding:
    return Holding(row.desired == "present", row.digest, len(row.manifest.encode()))


def _id(row: Deployment | Resource) -> UUID:
    return row.id


def _is_marker(event: Event) -> bool:
    return isinstance(event.message, Command) and isinstance(event.message.event, ResyncCompleted)


def _drop(rows: dict[Any, Any], keys: Sequence[Any]) -> None:
    for key in keys:
        rows.pop(key, None)
