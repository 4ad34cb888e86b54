"""Reads what a batch of events is about. Called by the store, inside the batch's transaction.

A constant number of statements, whatever the size of the batch: keys go in as arrays, and all statements travel
together. Only a batch with a resync marker needs one statement more, and waits for its answer first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar
from uuid import UUID

from psycopg import Connection

from services.planner.columns import names, width
from services.planner.events import Event
from services.planner.keys import Keys
from services.planner.rows import (
    Check,
    Deployment,
    Holding,
    HoldingKey,
    Instance,
    Observed,
    Resource,
    State,
    SweepScope,
    SyncRun,
    Tenant,
    Usage,
    WorkspaceKey,
    WorkspaceRow,
)

RowT = TypeVar("RowT", Deployment, Resource)

INSTANCES = "SELECT id, namespace, state = 'accepting' FROM engine_instances"

TENANTS = f"""
SELECT {names(Tenant, "t")}
  FROM unnest(%b::uuid[]) AS wanted(id) JOIN tenants t USING (id)
"""

HOLDINGS = """
SELECT wanted.id, e.kind, e.name, e.desired = 'present', e.digest, octet_length(e.manifest)
  FROM unnest(%b::uuid[]) AS wanted(id)
  JOIN engine_resources e ON e.lane = 'app-project-' || wanted.id AND e.kind <> 'Application'
"""

USAGE = """
SELECT d.tenant_id, d.repository, count(*),
       count(*) FILTER (WHERE d.spec IS NULL AND d.offered IS NOT NULL),
       sum(coalesce(octet_length(d.spec), 0) + coalesce(octet_length(d.offered), 0))::int8, 0::int8
  FROM unnest(%b::uuid[]) AS wanted(id) JOIN deployments d ON d.tenant_id = wanted.id
 GROUP BY d.tenant_id, d.repository
 UNION ALL
SELECT r.tenant_id, NULL, 0, 0, 0, sum(octet_length(CASE WHEN r.over_quota THEN r.accepted ELSE r.spec END))::int8
  FROM unnest(%b::uuid[]) AS wanted(id) JOIN resources r ON r.tenant_id = wanted.id AND r.present
 GROUP BY r.tenant_id
 UNION ALL
SELECT wanted.id, NULL, 0, 0, 0, sum(octet_length(e.manifest))::int8
  FROM unnest(%b::uuid[]) AS wanted(id)
  JOIN engine_resources e ON e.lane = 'app-project-' || wanted.id AND e.kind <> 'Application' AND e.desired = 'absent'
 GROUP BY wanted.id
"""

DEPLOYMENTS = f"""
WITH wanted AS (
    SELECT unnest(%b::uuid[]) AS id
    UNION
    SELECT d.id FROM unnest(%b::uuid[], %b::text[]) AS named(tenant_id, name) JOIN deployments d USING (tenant_id, name)
    UNION
    SELECT d.id FROM unnest(%b::uuid[]) AS whole(tenant_id) JOIN deployments d USING (tenant_id)
    UNION
    SELECT d.id FROM unnest(%b::uuid[]) AS reviewed(tenant_id) JOIN deployments d USING (tenant_id)
     WHERE d.environment IS NOT NULL
    UNION
    SELECT d.id
      FROM unnest(%b::uuid[]) AS known(tenant_id)
      JOIN resources r ON r.tenant_id = known.tenant_id AND r.kind = 'GitOpsDeploymentSyncRun'
      JOIN sync_runs s ON s.resource_id = r.id AND s.state NOT IN ('Ended', 'Refused')
      JOIN deployments d ON d.tenant_id = known.tenant_id AND d.name = s.deployment_name
)
SELECT {names(Deployment, "d")}, {names(Observed, "o")}, {names(WorkspaceRow, "w")}
  FROM wanted
  JOIN deployments d USING (id)
  JOIN tenants t ON t.id = d.tenant_id
  LEFT JOIN observed_states o ON o.deployment_id = d.id
  LEFT JOIN workspace_resources w
    ON (w.workspace, w.namespace, w.kind, w.name) = (t.workspace, t.namespace, 'GitOpsDeployment', d.name)
"""

# Of a tenant's resources all count that are within its allowance; Secrets, which are long, only where they matter, and
# runs that are over and gone only if an event names them. Of those beyond the allowance all come along of which an
# engine holds something, with their Secrets, because that stays in force; and the oldest, because what goes makes room.
RESOURCES = f"""
WITH wanted AS (
    SELECT unnest(%b::uuid[]) AS id
    UNION
    SELECT r.id FROM unnest(%b::uuid[], %b::text[], %b::text[]) AS named(tenant_id, kind, name)
      JOIN resources r USING (tenant_id, kind, name)
    UNION
    SELECT r.id FROM unnest(%b::uuid[]) AS known(tenant_id) JOIN resources r USING (tenant_id)
     WHERE NOT r.over_quota AND r.kind <> 'Secret'
       AND (r.present OR r.kind <> 'GitOpsDeploymentSyncRun'
            OR EXISTS (SELECT FROM sync_runs s WHERE s.resource_id = r.id AND s.state IN ('Running', 'Terminating')))
    UNION
    SELECT r.id FROM unnest(%b::uuid[]) AS unsettled(tenant_id) JOIN resources r USING (tenant_id)
     WHERE NOT r.over_quota AND r.kind = 'Secret'
    UNION
    SELECT in_force.id FROM unnest(%b::uuid[]) AS holding(tenant_id)
      JOIN engine_resources e ON e.lane = 'app-project-' || holding.tenant_id AND e.kind <> 'Application'
      JOIN resources r ON r.id = substring(e.name FROM '^(?:managed-env|repo-cred)-(.{{36}})')::uuid
     CROSS JOIN LATERAL (SELECT r.id WHERE r.over_quota
                          UNION ALL
                         SELECT s.id FROM resources s
                          WHERE (s.tenant_id, s.kind, s.name) = (r.tenant_id, 'Secret', r.refers_to) AND s.over_quota
                        ) AS in_force
    UNION
    SELECT r.id FROM unnest(%b::uuid[]) AS crowded(tenant_id)
     CROSS JOIN LATERAL (SELECT waiting.id FROM resources waiting
                          WHERE waiting.tenant_id = crowded.tenant_id AND waiting.over_quota
                          ORDER BY waiting.created_at, waiting.id
                          LIMIT 100) AS r
)
SELECT {names(Resource, "r")}, {names(Check, "c")}, {names(SyncRun, "s")}, {names(WorkspaceRow, "w")}
  FROM wanted
  JOIN resources r USING (id)
  JOIN tenants t ON t.id = r.tenant_id
  LEFT JOIN checks c ON c.resource_id = r.id
  LEFT JOIN sync_runs s ON s.resource_id = r.id
  LEFT JOIN workspace_resources w
    ON (w.workspace, w.namespace, w.kind, w.name) = (t.workspace, t.namespace, r.kind, r.name)
"""

SWEEPS = """
WITH markers AS (
    SELECT * FROM unnest(%b::text[], %b::text[], %b::int4[], %b::int8[]) AS m(source, kind, partition, epoch)
), present AS (
    SELECT m.*, d.id, d.tenant_id, d.epoch < m.epoch AS late
      FROM markers m
      JOIN tenants t ON t.partition = m.partition
      JOIN deployments d ON d.tenant_id = t.id AND d.source = m.source AND d.present
     WHERE m.kind = 'GitOpsDeployment'
     UNION ALL
    SELECT m.*, r.id, r.tenant_id, r.epoch < m.epoch
      FROM markers m
      JOIN tenants t ON t.partition = m.partition
      JOIN resources r ON r.tenant_id = t.id AND r.kind = m.kind AND r.source = m.source AND r.present
)
SELECT source, kind, partition, epoch, count(*),
       coalesce(array_agg(id) FILTER (WHERE late), '{}'), coalesce(array_agg(tenant_id) FILTER (WHERE late), '{}')
  FROM present GROUP BY source, kind, partition, epoch
"""


def load(connection: Connection[Any], events: Sequence[Event]) -> State:
    """The rows that ``events`` are about."""
    keys = Keys.of(events)
    sweeps = _load_sweeps(connection, keys) if keys.sweeps else {}
    tenants = sorted(keys.tenants)
    with connection.pipeline():
        instances = connection.execute(INSTANCES)
        tenant_rows = connection.execute(TENANTS, (tenants,), binary=True)
        holdings = connection.execute(HOLDINGS, (tenants,), binary=True)
        usage = connection.execute(USAGE, (tenants, tenants, tenants), binary=True)
        deployments = connection.execute(DEPLOYMENTS, _deployment_keys(keys, tenants), binary=True)
        resources = connection.execute(RESOURCES, _resource_keys(keys, tenants), binary=True)
    deployed = [_parted(row, (Deployment, Observed, WorkspaceRow)) for row in deployments]
    others = [_parted(row, (Resource, Check, SyncRun, WorkspaceRow)) for row in resources]
    return State(
        instances={row[0]: Instance(*row) for row in instances},
        tenants={row[0]: Tenant(*row) for row in tenant_rows},
        holdings=_holdings(holdings),
        usage=_usage(usage),
        deployments=_by_id(_column(deployed, 0)),
        observed={row.deployment_id: row for row in _column(deployed, 1)},
        resources=_by_id(_column(others, 0)),
        checks={row.resource_id: row for row in _column(others, 1)},
        sync_runs={row.resource_id: row for row in _column(others, 2)},
        statuses=_statuses([*_column(deployed, 2), *_column(others, 3)]),
        sweeps=sweeps,
    )


def _deployment_keys(keys: Keys, tenants: list[UUID]) -> tuple[list[Any], ...]:
    named = sorted(keys.names)
    return (
        sorted(keys.deployments),
        [tenant for tenant, _ in named],
        [name for _, name in named],
        sorted(keys.whole_tenants),
        sorted(keys.reviewed | keys.unsettled),
        tenants,
    )


def _resource_keys(keys: Keys, tenants: list[UUID]) -> tuple[list[Any], ...]:
    named = sorted(keys.resource_names)
    by_column = [list(column) for column in zip(*named, strict=True)] if named else [[], [], []]
    unsettled, crowded = sorted(keys.unsettled), sorted(keys.crowded | keys.unsettled)
    return (sorted(keys.resources), *by_column, tenants, unsettled, tenants, crowded)


def _load_sweeps(connection: Connection[Any], keys: Keys) -> dict[SweepScope, int]:
    """How much the markers' scopes hold; what was not seen in time is added to ``keys``, to be loaded."""
    scopes = sorted(keys.sweeps, key=lambda scope: (scope.source, scope.kind, scope.partition, scope.epoch))
    columns = [[getattr(scope, name) for scope in scopes] for name in ("source", "kind", "partition", "epoch")]
    known = dict.fromkeys(scopes, 0)
    for source, kind, partition, epoch, count, late, tenants in connection.execute(SWEEPS, columns, binary=True):
        known[SweepScope(source, kind, partition, epoch)] = count
        for resource, tenant in zip(late, tenants, strict=True):
            keys.add_unseen(kind, resource, tenant)
    return known


def _parted(row: Sequence[Any], kinds: tuple[type[Any], ...]) -> list[Any]:
    """One joined row cut into a value of each of ``kinds``; None where the join found nothing."""
    parts, first = [], 0
    for kind in kinds:
        last = first + width(kind)
        parts.append(kind(*row[first:last]) if row[first] is not None else None)
        first = last
    return parts


def _column(rows: Iterable[list[Any]], number: int) -> Iterator[Any]:
    return (row[number] for row in rows if row[number] is not None)


def _by_id(rows: Iterable[RowT]) -> dict[UUID, RowT]:
    """In one order, whatever the database's: a plan has to come out the same each time."""
    return {row.id: row for row in sorted(rows, key=lambda row: row.id)}


def _holdings(rows: Iterable[tuple[Any, ...]]) -> dict[UUID, dict[HoldingKey, Holding]]:
    held: dict[UUID, dict[HoldingKey, Holding]] = {}
    for tenant, kind, name, *holding in rows:
        held.setdefault(tenant, {})[kind, name] = Holding(*holding)
    return held


def _usage(rows: Iterable[tuple[Any, ...]]) -> dict[UUID, Usage]:
    repositories: dict[UUID, Counter[str | None]] = {}
    totals: dict[UUID, Counter[str]] = {}
    for tenant, repository, deployments, waiting, of_deployments, of_resources in rows:
        repositories.setdefault(tenant, Counter())[repository] += deployments
        parts = {"waiting": waiting, "deployment_bytes": of_deployments, "resource_bytes": of_resources}
        totals.setdefault(tenant, Counter()).update(parts)
    return {tenant: Usage(+counts, **totals[tenant]) for tenant, counts in repositories.items()}


def _statuses(rows: Iterable[WorkspaceRow]) -> dict[WorkspaceKey, WorkspaceRow]:
    return {(row.workspace, row.namespace, row.kind, row.name): row for row in rows}
