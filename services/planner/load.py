"""Reads what a batch of events is about. Called by the store, inside the batch's transaction.

A constant number of statements, whatever the size of the batch: keys go in as arrays, and all statements travel
together. Only a batch with a resync marker needs one statement more, and waits for its answer first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from psycopg import Connection

from services.common.messages import Command, Failed, Observation, ResourceChanged, ResourceGone, ResyncCompleted
from services.planner import ids
from services.planner.engines import argocd
from services.planner.events import DeletionOverdue, Event
from services.planner.kinds.gitops_deployment import KIND
from services.planner.rows import (
    Deployment,
    Instance,
    Observed,
    Project,
    State,
    SweepScope,
    Tenant,
    WorkspaceKey,
    WorkspaceRow,
)

INSTANCES = "SELECT id, namespace, state = 'accepting' FROM engine_instances"

TENANTS = """
SELECT t.id, t.workspace, t.namespace, t.partition, t.engine_instance_id, p.desired = 'present', p.digest
  FROM unnest(%b::uuid[]) AS wanted(id)
  JOIN tenants t USING (id)
  JOIN engine_instances i ON i.id = t.engine_instance_id
  LEFT JOIN engine_resources p
    ON (p.engine_instance_id, p.kind, p.namespace, p.name)
     = (t.engine_instance_id, 'AppProject', i.namespace, 'app-project-' || t.id)
"""

REPOSITORIES = """
SELECT d.tenant_id, d.repository, count(*)
  FROM unnest(%b::uuid[]) AS wanted(id) JOIN deployments d ON d.tenant_id = wanted.id
 GROUP BY d.tenant_id, d.repository
"""

DEPLOYMENTS = """
WITH wanted AS (
    SELECT unnest(%b::uuid[]) AS id
    UNION
    SELECT d.id FROM unnest(%b::uuid[], %b::text[]) AS named(tenant_id, name) JOIN deployments d USING (tenant_id, name)
    UNION
    SELECT d.id FROM unnest(%b::uuid[]) AS whole(tenant_id) JOIN deployments d USING (tenant_id)
)
SELECT d.id, d.tenant_id, d.source, d.name, d.uid, d.resource_version, d.generation, d.epoch, d.present, d.deleting,
       d.finalizer, d.spec, d.repository, d.digest, d.error, d.seen_at, d.trace_id,
       o.deployment_id, o.status, o.resource_version, o.observed_at, o.applied_digest, o.failed_digest, o.failure,
       o.status_generation,
       w.workspace, w.namespace, w.kind, w.name, w.uid, w.generation, w.status, w.release_finalizer, w.digest,
       w.trace_id, w.seen_at
  FROM wanted
  JOIN deployments d USING (id)
  JOIN tenants t ON t.id = d.tenant_id
  LEFT JOIN observed_states o ON o.deployment_id = d.id
  LEFT JOIN workspace_resources w
    ON (w.workspace, w.namespace, w.kind, w.name) = (t.workspace, t.namespace, 'GitOpsDeployment', d.name)
"""
_DEPLOYMENT_COLUMNS = len(Deployment.__dataclass_fields__)
_OBSERVED_COLUMNS = len(Observed.__dataclass_fields__)

SWEEPS = """
SELECT m.source, m.partition, m.epoch, d.id, d.tenant_id, d.epoch < m.epoch
  FROM unnest(%b::text[], %b::int4[], %b::int8[]) AS m(source, partition, epoch)
  JOIN tenants t ON t.partition = m.partition
  JOIN deployments d ON d.tenant_id = t.id AND d.source = m.source AND d.present
"""


@dataclass
class Keys:
    """What a batch is about."""

    tenants: set[UUID] = field(default_factory=set)
    deployments: set[UUID] = field(default_factory=set)
    names: set[tuple[UUID, str]] = field(default_factory=set)
    sweeps: set[SweepScope] = field(default_factory=set)
    whole_tenants: set[UUID] = field(default_factory=set)
    """All of whose deployments are concerned: their AppProject was refused."""

    @classmethod
    def of(cls, events: Iterable[Event]) -> Keys:
        """The keys that ``events`` name. Ids are computed, so that no statement waits for another's answer."""
        keys = cls()
        for event in events:
            keys._add(event)
        return keys

    def _add(self, event: Event) -> None:
        match event.message:
            case Command(event=ResyncCompleted() as marker) as command:
                if marker.kind == KIND:
                    self.sweeps.add(SweepScope(command.source, marker.kind, event.partition, marker.epoch))
            case Command(event=ResourceChanged() | ResourceGone() as state) as command:
                self._add_deployment(command.workspace, command.namespace, state.uid)
                self.names.add((ids.tenant_id(command.workspace, command.namespace), state.name))
            case Observation(kind=argocd.APP_PROJECT, event=Failed()) as observation:
                tenant = ids.tenant_id(observation.workspace, observation.namespace)
                self.tenants.add(tenant)
                self.whole_tenants.add(tenant)
            case Observation() as observation:
                uid = argocd.uid_of(observation.name)
                self._add_deployment(observation.workspace, observation.namespace, uid)
            case DeletionOverdue() as overdue:
                self.tenants.add(ids.tenant_id(overdue.workspace, overdue.namespace))
                self.deployments.add(overdue.deployment_id)

    def _add_deployment(self, workspace: str, namespace: str, uid: str) -> None:
        self.tenants.add(ids.tenant_id(workspace, namespace))
        if uid:
            self.deployments.add(ids.deployment_id(workspace, uid))


def load(connection: Connection[Any], events: Sequence[Event]) -> State:
    """The rows that ``events`` are about."""
    keys = Keys.of(events)
    sweeps = _load_sweeps(connection, keys) if keys.sweeps else {}
    tenants, names = sorted(keys.tenants), sorted(keys.names)
    with connection.pipeline():
        instances = connection.execute(INSTANCES)
        tenant_rows = connection.execute(TENANTS, (tenants,), binary=True)
        repositories = connection.execute(REPOSITORIES, (tenants,), binary=True)
        deployments = connection.execute(
            DEPLOYMENTS,
            (
                sorted(keys.deployments),
                [tenant for tenant, _ in names],
                [name for _, name in names],
                sorted(keys.whole_tenants),
            ),
            binary=True,
        )
    found = tenant_rows.fetchall()
    rows = deployments.fetchall()
    return State(
        instances={row[0]: Instance(*row) for row in instances},
        tenants={row[0]: Tenant(*row[:5]) for row in found},
        projects={row[0]: Project(wanted=row[5], digest=row[6]) for row in found if row[6] is not None},
        repositories=_by_tenant(repositories),
        deployments={row[0]: Deployment(*row[:_DEPLOYMENT_COLUMNS]) for row in rows},
        observed=_observed(rows),
        statuses=_statuses(rows),
        sweeps=sweeps,
    )


def _load_sweeps(connection: Connection[Any], keys: Keys) -> dict[SweepScope, int]:
    """How much the markers' scopes hold; what was not seen in time is added to ``keys``, to be loaded."""
    scopes = sorted(keys.sweeps, key=lambda scope: (scope.source, scope.partition, scope.epoch))
    columns = ([s.source for s in scopes], [s.partition for s in scopes], [s.epoch for s in scopes])
    known = dict.fromkeys(scopes, 0)
    for source, partition, epoch, deployment, tenant, late in connection.execute(SWEEPS, columns, binary=True):
        known[SweepScope(source, KIND, partition, epoch)] += 1
        if late:
            keys.deployments.add(deployment)
            keys.tenants.add(tenant)
    return known


def _by_tenant(rows: Iterable[tuple[Any, ...]]) -> dict[UUID, dict[str | None, int]]:
    repositories: dict[UUID, dict[str | None, int]] = {}
    for tenant, repository, deployments in rows:
        repositories.setdefault(tenant, {})[repository] = deployments
    return repositories


def _observed(rows: Iterable[tuple[Any, ...]]) -> dict[UUID, Observed]:
    first, last = _DEPLOYMENT_COLUMNS, _DEPLOYMENT_COLUMNS + _OBSERVED_COLUMNS
    return {row[0]: Observed(*row[first:last]) for row in rows if row[first] is not None}


def _statuses(rows: Iterable[tuple[Any, ...]]) -> dict[WorkspaceKey, WorkspaceRow]:
    first = _DEPLOYMENT_COLUMNS + _OBSERVED_COLUMNS
    found = (WorkspaceRow(*row[first:]) for row in rows if row[first] is not None)
    return {(row.workspace, row.namespace, row.kind, row.name): row for row in found}
