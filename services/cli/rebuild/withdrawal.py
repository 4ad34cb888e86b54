"""Withdraws what the topics of the compiled tables hold and no row has, as :mod:`unknown_rows` has found it.

Called by :mod:`rebuild`, for ``rebuild sweep``. Nothing but Connect writes these topics, so a row is made for each key,
and deleted again:

1. :func:`withdraw` makes a row for the object of an engine, which says ``absent``. Connect streams it, and an agent
   removes the object.   Crash: the row says so until the next attempt.
2. :func:`require_removed` deletes the row when the agent has reported that the object is gone. Connect streams that:
   the key stands for nothing.   Crash between: the report is read again, from where the rebuild began. A retired
   instance has no agent: its rows are deleted at once.

An object that another instance has, too, is handed over to that one. If a move was under way when the database was
lost, both instances have the tenant's clusters, say, and the other one uses what was made on these.

An order to an agent, and a status, is no object: its row is made and deleted in one transaction. So is the row of a
child object, which says ``absent``: a watcher removes the object if it is that owner's; otherwise the API server
removes it with its owner. Unowned objects stay. The row of a pending claim is made as the topic has it, and deleted:
its provisioner sees that the claim waits no more. If a planner writes a row under such a key meanwhile, that is the
planner's, and is left alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields, replace
from typing import Any, NamedTuple
from uuid import UUID

from psycopg import Connection

from services.cli.database_connection import connected
from services.cli.rebuild.streamed_topics import Key
from services.cli.rebuild.unknown_rows import CompiledRow, Unknown
from services.cli.sending import CLIENT
from services.common.avro import AvroCodec, SchemaRegistry, value_subject
from services.common.errors import Poison, Retry
from services.common.kafka import (
    OBSERVATIONS,
    PartitionReader,
    TopicPartition,
    reporting_cluster,
    tenant_key,
)
from services.common.messages import ORDERS, EngineResource, Observation, Removed, RowKind, WorkspaceObject
from services.common.settings import KafkaSettings
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.planner.engines.available import ENGINES
from services.planner.engines.interface import Manifest
from services.planner.rows.compiled import TENANT, UNOWNED, EngineObjectKey
from services.planner.rows.fleet import DEFAULT_ENGINE

SWEPT = UUID("5b2f7f0e-6c8d-5f53-9a3e-1d2b0f2f6a11")
"""Owner of the rows that are made here."""

# Names are unique over the fleet. A key that is withdrawn has no row of its own: another instance's is found, or none.
WANTED = "SELECT kind, name FROM engine_resources WHERE desired = 'present' AND name = ANY(%s)"
INSERT_OBJECT = """
INSERT INTO engine_resources (engine_instance_id, kind, namespace, name, workspace, tenant_namespace, lane, wave,
                              desired, manifest, digest, trace_id, seen_at, updated_at, owner_kind, owner_id,
                              engine_cluster)
SELECT id, %(kind)s, %(namespace)s, %(name)s, %(workspace)s, %(tenant_namespace)s, %(lane)s, %(wave)s,
       'absent', %(manifest)s, %(digest)s, %(trace_id)s, %(seen_at)s, clock_timestamp(), %(owner_kind)s, %(owner_id)s,
       engine_cluster
  FROM engine_instances WHERE id = %(engine_instance_id)s
    ON CONFLICT DO NOTHING
"""
DELETE_OBJECT = """
DELETE FROM engine_resources
 WHERE (engine_instance_id, kind, namespace, name) = (%s, %s, %s, %s) AND owner_id = %s AND desired = 'absent'
"""
DELETE_OF_RETIRED = """
DELETE FROM engine_resources
 WHERE owner_id = %s AND desired = 'absent'
   AND engine_instance_id IN (SELECT id FROM engine_instances WHERE state = 'retired')
"""
WITHDRAWN = """
SELECT engine_instance_id, kind, namespace, name, workspace, tenant_namespace, engine_cluster
  FROM engine_resources WHERE owner_id = %s AND desired = 'absent'
"""
INSERT_STATUS = """
INSERT INTO workspace_statuses (workspace, namespace, kind, name, uid, generation, status, release_finalizer, digest,
                                trace_id, seen_at, updated_at)
VALUES (%(workspace)s, %(namespace)s, %(kind)s, %(name)s, %(uid)s, %(generation)s, %(status)s, false, %(digest)s,
        %(trace_id)s, %(seen_at)s, clock_timestamp())
    ON CONFLICT DO NOTHING
"""
INSERT_CHILD = """
INSERT INTO workspace_objects (workspace, namespace, kind, name, desired, uid, owner_api_version, owner_kind,
                               owner_name, owner_uid, manifest, digest, revision, trace_id, seen_at, updated_at,
                               live_version)
VALUES (%(workspace)s, %(namespace)s, %(kind)s, %(name)s, 'absent', %(uid)s, %(owner_api_version)s, %(owner_kind)s,
        %(owner_name)s, %(owner_uid)s, %(manifest)s, %(digest)s, %(revision)s + 1, %(trace_id)s, %(seen_at)s,
        clock_timestamp(), '')
    ON CONFLICT DO NOTHING
"""
INSERT_CLAIM = """
INSERT INTO pending_claims (workspace, namespace, name, uid, class_name, provisioner, parameters, generation, state,
                            created_at)
VALUES (%(workspace)s, %(namespace)s, %(name)s, %(uid)s, %(class_name)s, %(provisioner)s, %(parameters)s,
        %(generation)s, %(state)s, %(created_at)s)
    ON CONFLICT DO NOTHING
"""
DELETE_CLAIM = "DELETE FROM pending_claims WHERE (workspace, namespace, name, uid) = (%s, %s, %s, %s)"
DELETE_CHILD = "DELETE FROM workspace_objects WHERE (workspace, namespace, kind, name) = (%s, %s, %s, %s)"
DELETE_STATUS = "DELETE FROM workspace_statuses WHERE (workspace, namespace, kind, name) = (%s, %s, %s, %s)"


class Withdrawn(NamedTuple):
    """A row that an agent is to report the removal of."""

    tenant: bytes
    """Key of its tenant's messages."""
    engine_cluster: str
    """Whose agents remove the object."""


def withdraw(url: str, found: Unknown) -> None:
    """Make a row for each key that goes, in one transaction. Raises Retry."""
    with connected(url) as connection:
        names = sorted({row.name for row in found.objects.values()})
        wanted = frozenset(connection.execute(WANTED, [names]).fetchall())
        for key, row in found.objects.items():
            inserted = connection.execute(INSERT_OBJECT, _columns(departing(row, wanted)) | _owner(row)).rowcount
            if inserted and row.kind in ORDERS:
                connection.execute(DELETE_OBJECT, (*key, SWEPT))
        statuses = {key: _columns(row) for key, row in found.statuses.items()}
        children = {key: _columns(row) | _uid_to_remove(row) for key, row in found.children.items()}
        claims = {key: _columns(row) for key, row in found.claims.items()}
        for insert, delete, rows in (
            (INSERT_STATUS, DELETE_STATUS, statuses),
            (INSERT_CHILD, DELETE_CHILD, children),
            (INSERT_CLAIM, DELETE_CLAIM, claims),
        ):
            for key, columns in rows.items():
                if connection.execute(insert, columns).rowcount:
                    connection.execute(delete, key)


def departing(row: EngineResource, wanted: Collection[EngineObjectKey]) -> EngineResource:
    """The row by which an agent removes an object: what the object made stays if another instance shall have it, too.

    An Application has made what it deployed, a cluster Secret a service account on the tenant's cluster. ``wanted``:
    objects that other instances shall have.
    """
    if (row.kind, row.name) not in wanted:
        return row
    engine, manifest = ENGINES[DEFAULT_ENGINE], Manifest(row.kind, row.name, row.wave, row.manifest)
    match row.kind:
        case RowKind.APPLICATION:
            manifest = engine.released(manifest, at_once=False)
        case RowKind.CLUSTER_SECRET | RowKind.REPOSITORY_SECRET:
            manifest = engine.handed_over(manifest)
        case _:
            return row
    return replace(row, manifest=manifest.text, digest=manifest.digest)


def require_removed(url: str, settings: KafkaSettings, positions: dict[TopicPartition, int]) -> None:
    """Delete the rows of objects that are gone by reports from ``positions`` on. Raises Retry while others are left.

    A retired instance has no agent: its rows are deleted at once. Moves ``positions`` on to what was read, once the
    rows are deleted.
    """
    with connected(url) as connection:
        connection.execute(DELETE_OF_RETIRED, [SWEPT])
        waiting = _waiting(connection)
        removed, ends = _removed(settings, waiting, positions) if waiting else ((), {})
        for key in removed:
            connection.execute(DELETE_OBJECT, (*key, SWEPT))
        left = _waiting(connection)
    positions.update(ends)
    if left:
        raise Retry(f"{len(left)} objects are still there, among them {'/'.join(min(left)[1:])}")


def _removed(
    settings: KafkaSettings, waiting: Mapping[Key, Withdrawn], positions: Mapping[TopicPartition, int]
) -> tuple[list[Key], Mapping[TopicPartition, int]]:
    """The keys of ``waiting`` that agents have removed, and the offsets up to which that was read.

    Only observations of their tenants are decoded, and those from other engine clusters do not count. Topics that are
    newer than ``positions`` are read from their beginning.
    """
    codec = AvroCodec(SchemaRegistry(settings), Observation, value_subject(OBSERVATIONS))
    tenants, by_object = {each.tenant for each in waiting.values()}, _by_object(waiting)
    removed: list[Key] = []
    with PartitionReader(settings, CLIENT) as reader:
        sources = {source: positions.get(source, 0) for source in reader.partitions_of_observations()}
        ends = reader.end_offsets(sources)
        for message in reader.read_messages(ends, sources):
            if message.key not in tenants:
                continue
            try:
                seen = codec.decode_message(message.value)
            except Poison:
                continue
            if isinstance(seen.event, Removed):
                origin = reporting_cluster(message.tracked.source.topic)
                keys = by_object.get((seen.engine_instance_id, seen.kind, seen.name), ())
                removed += (key for key in keys if origin in {None, waiting[key].engine_cluster})
    return removed, ends


def _by_object(keys: Iterable[Key]) -> Mapping[tuple[str, str, str], list[Key]]:
    """Keys by what an observation says of an object: instance, kind and name."""
    found = defaultdict[tuple[str, str, str], list[Key]](list)
    for key in keys:
        instance, kind, _, name = key
        found[instance, kind, name].append(key)
    return found


def _waiting(connection: Connection) -> dict[Key, Withdrawn]:
    """Rows whose object an agent has to remove."""
    rows = connection.execute(WITHDRAWN, [SWEPT])
    return {(row[0], row[1], row[2], row[3]): Withdrawn(tenant_key(row[4], row[5]), row[6]) for row in rows}


def _columns(row: CompiledRow) -> dict[str, Any]:
    return {column.name: getattr(row, column.name) for column in fields(row)}


def _uid_to_remove(child: WorkspaceObject) -> dict[str, str]:
    """The uid of what a watcher may delete; empty for an unowned object, which is somebody else's and stays."""
    return {"uid": "" if child.kind in UNOWNED else child.uid}


def _owner(row: EngineResource) -> dict[str, Any]:
    """Planners load an Application with its deployment, of which there is none, and all else with its tenant."""
    kind = GITOPS_DEPLOYMENT.kind if row.kind == RowKind.APPLICATION else TENANT
    return {"owner_kind": kind, "owner_id": SWEPT}
