"""Finds resources that a complete list did not show: one statement for all tenants of a partition.

Parked tenants are left out: what the list did show of them is kept and not written yet. They are told of the marker.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row

from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.planner.database.columns import names
from services.planner.domain.events import SweepPlace, SweepScope
from services.planner.rows import RefusedSweep

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
NEWEST_LISTS = f"""
SELECT {names(SweepScope)} FROM complete_lists
 WHERE (source, kind, partition) IN (SELECT * FROM unnest(%b::text[], %b::text[], %b::int4[]))
"""
PARKED = "SELECT partition, workspace, namespace FROM parked_tenants WHERE partition = ANY(%b::int4[])"


@dataclass(frozen=True, slots=True)
class SweepFound:
    """What there is in the scope of a resync marker."""

    known: int = 0
    """Custom resources that exist."""
    unseen: Mapping[UUID, tuple[str, str]] = field(default_factory=dict)
    """Those of them that were not seen in time, with workspace and namespace of their tenant."""
    parked: tuple[tuple[str, str], ...] = ()
    """Workspace and namespace of the tenants of which that is not known yet; nothing of theirs is counted."""
    refused: RefusedSweep | None = None
    """The newest marker of its source, kind and partition that was refused, if none has come through since."""


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
    refused = _refused(connection, columns[:3])
    return {scope: replace(each, refused=refused.get(scope.place)) for scope, each in found.items()}


def load_newest_lists(connection: Connection[Any], places: Collection[SweepPlace]) -> dict[SweepPlace, int]:
    """Epochs of the newest complete lists of these places, as far as there are any."""
    columns = [[place[each] for place in places] for each in range(3)]
    with connection.cursor(binary=True, row_factory=class_row(SweepScope)) as cursor:
        return {known.place: known.epoch for known in cursor.execute(NEWEST_LISTS, columns)}


def _refused(connection: Connection[Any], columns: Sequence[Sequence[Any]]) -> dict[SweepPlace, RefusedSweep]:
    with connection.cursor(binary=True, row_factory=class_row(RefusedSweep)) as cursor:
        rows = cursor.execute(REFUSED, columns).fetchall()
    return {(row.source, row.kind, row.partition): row for row in rows}
