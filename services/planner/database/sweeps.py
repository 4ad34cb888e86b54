"""Finds resources that a complete list did not show: one statement for all tenants of a partition.

Parked tenants are left out: what the list did show of them is stored as events and not written yet. The marker becomes
one of these events. Left out are also resources that earlier lists lacked and that are still to be removed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row

from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.planner.database.columns import names
from services.planner.domain.events import SweepPlace, SweepScope
from services.planner.domain.sweeps import SweepFound, subjects_of
from services.planner.rows.consumption import RefusedSweep, SweepPart
from services.planner.rows.tenants import TenantName

SWEEPS = f"""
WITH markers AS (
    SELECT * FROM unnest(%b::text[], %b::text[], %b::int4[], %b::int8[]) AS m(source, kind, partition, epoch)
), planned AS NOT MATERIALIZED (
    SELECT id, workspace, namespace, partition FROM tenants
     WHERE NOT EXISTS (SELECT FROM parked_tenants parked WHERE parked.tenant_id = tenants.id)
), present AS (
    SELECT m.*, d.id, t.workspace, t.namespace, d.epoch < m.epoch AS late
      FROM markers m
      JOIN planned t ON t.partition = m.partition
      JOIN deployments d ON d.tenant_id = t.id AND d.source = m.source AND d.present
     WHERE m.kind = '{GITOPS_DEPLOYMENT.kind}'
     UNION ALL
    SELECT m.*, r.id, t.workspace, t.namespace, r.epoch < m.epoch
      FROM markers m
      JOIN planned t ON t.partition = m.partition
      JOIN resources r ON r.tenant_id = t.id AND r.kind = m.kind AND r.source = m.source AND r.present
)
SELECT source, kind, partition, epoch, count(*), coalesce(array_agg(id) FILTER (WHERE late), '{{}}'),
       coalesce(array_agg(workspace) FILTER (WHERE late), '{{}}'),
       coalesce(array_agg(namespace) FILTER (WHERE late), '{{}}')
  FROM present GROUP BY source, kind, partition, epoch
"""
REFUSED = f"""
SELECT {names(RefusedSweep)} FROM refused_sweeps
 WHERE (source, kind, partition) IN (SELECT * FROM unnest(%b::text[], %b::text[], %b::int4[]))
"""
DECIDED = """
SELECT source, kind, partition, value::uuid
  FROM unnest(%b::text[], %b::text[], %b::int4[]) AS asked(source, kind, partition)
  JOIN sweep_parts part USING (partition, source, kind)
 CROSS JOIN json_array_elements_text(part.subjects::json)
"""
UNSEEN_OF_PART = """
SELECT unseen.id, t.workspace, t.namespace
  FROM (SELECT id, tenant_id FROM deployments WHERE id = ANY(%(ids)b::uuid[]) AND present AND epoch < %(epoch)b
         UNION ALL
        SELECT id, tenant_id FROM resources WHERE id = ANY(%(ids)b::uuid[]) AND present AND epoch < %(epoch)b
       ) AS unseen
  JOIN tenants t ON t.id = unseen.tenant_id
"""
NEWEST_LISTS = f"""
SELECT {names(SweepScope)} FROM complete_lists
 WHERE (source, kind, partition) IN (SELECT * FROM unnest(%b::text[], %b::text[], %b::int4[]))
"""
PARKED = "SELECT partition, workspace, namespace FROM parked_tenants WHERE partition = ANY(%b::int4[])"


def find_unseen(connection: Connection[Any], scopes: Sequence[SweepScope]) -> dict[SweepScope, SweepFound]:
    """For each of ``scopes``."""
    parked: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for partition, *name in connection.execute(PARKED, ([scope.partition for scope in scopes],), binary=True):
        parked[partition].append((name[0], name[1]))
    # One of each: a marker may come twice.
    found = {scope: SweepFound(parked=tuple(parked[scope.partition])) for scope in scopes}
    columns = [[getattr(scope, name) for scope in found] for name in ("source", "kind", "partition", "epoch")]
    for *key, known, ids, workspaces, namespaces in connection.execute(SWEEPS, columns, binary=True):
        tenants = zip(workspaces, namespaces, strict=True)
        scope = SweepScope(*key)
        found[scope] = replace(found[scope], known=known, unseen=dict(zip(ids, tenants, strict=True)))
    refused, decided = _refused(connection, columns[:3]), _decided(connection, columns[:3])
    return {
        scope: replace(each, refused=refused.get(scope.place)).without(decided[scope.place])
        for scope, each in found.items()
    }


def find_unseen_of(connection: Connection[Any], part: SweepPart) -> dict[UUID, TenantName]:
    """What of a part still exists and has not been seen since, and whose it is."""
    values = {"ids": subjects_of(part), "epoch": part.epoch}
    rows = connection.execute(UNSEEN_OF_PART, values, binary=True)
    return {subject: (workspace, namespace) for subject, workspace, namespace in rows}


def load_newest_lists(connection: Connection[Any], places: Collection[SweepPlace]) -> dict[SweepPlace, int]:
    """Epochs of the newest complete lists of these places, as far as there are any."""
    columns = [[place[each] for place in places] for each in range(3)]
    with connection.cursor(binary=True, row_factory=class_row(SweepScope)) as cursor:
        return {known.place: known.epoch for known in cursor.execute(NEWEST_LISTS, columns)}


def _decided(connection: Connection[Any], columns: Sequence[Sequence[Any]]) -> dict[SweepPlace, set[UUID]]:
    decided: dict[SweepPlace, set[UUID]] = defaultdict(set)
    for *place, subject in connection.execute(DECIDED, columns, binary=True):
        decided[place[0], place[1], place[2]].add(subject)
    return decided


def _refused(connection: Connection[Any], columns: Sequence[Sequence[Any]]) -> dict[SweepPlace, RefusedSweep]:
    with connection.cursor(binary=True, row_factory=class_row(RefusedSweep)) as cursor:
        rows = cursor.execute(REFUSED, columns).fetchall()
    return {(row.source, row.kind, row.partition): row for row in rows}
