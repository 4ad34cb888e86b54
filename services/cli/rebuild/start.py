"""Begins a rebuild: fills in the fleet and the instance of each tenant, and notes from where to where planners replay.

Orders about the fleet are not replayed. Their results are rows with topics of their own: engine clusters, instances,
pools, assignments and pins. An order that was refused in the fleet of that time might be accepted now.

Called by :mod:`rebuild`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from psycopg import Connection, RawCursor

from services.cli.database_connection import connected
from services.cli.rebuild.moved_since import follow_moves
from services.cli.rebuild.placements import Placements
from services.cli.rebuild.streamed_topics import PlacementTopic, StreamedTopics
from services.cli.sending import CLIENT
from services.common.errors import InvalidConfiguration
from services.common.kafka import FLEET_ORDERS, LogExtent, PartitionReader, TopicPartition, read_extents
from services.common.settings import KafkaSettings
from services.planner.database.columns import document, names, recordset, upsert
from services.planner.database.positions import Position, resume, take_up
from services.planner.database.tables.fleet import (
    engine_clusters,
    engine_instances,
    engine_pools,
    tenant_pins,
    workspace_assignments,
)
from services.planner.domain.fleet.placement.assignments import TenantPin, WorkspaceAssignment
from services.planner.domain.fleet.pools.pool_rows import EnginePool
from services.planner.domain.fleet.rows import EngineClusterRow, EngineInstanceRow

IS_EMPTY = f"""
SELECT NOT EXISTS (SELECT FROM tenants)
   AND NOT EXISTS (SELECT FROM consumer_offsets
                    WHERE topic <> '{FLEET_ORDERS}' AND next_offset > 0 OR owner IS NOT NULL)
"""  # noqa: S608 - of constants
IS_PLANNED = """
SELECT EXISTS (SELECT FROM pg_stat_activity WHERE usename = 'gitops_planner' AND datname = current_database())
"""
CLUSTERS = "SELECT id FROM engine_clusters"
INSTANCES = "SELECT id FROM engine_instances"
PLACE = "INSERT INTO placements (tenant_id, engine_instance_id) SELECT * FROM unnest(%s::uuid[], %s::text[])"
PLACE_DEPLOYMENTS = """
INSERT INTO deployment_placements (deployment_id, engine_instance_id) SELECT * FROM unnest(%s::uuid[], %s::text[])
"""
BEGIN = """
INSERT INTO rebuild_positions (topic, partition, first_offset, end_offset)
SELECT * FROM unnest(%s::text[], %s::int4[], %s::int8[], %s::int8[])
"""
POSITIONS_OF_PLANNERS = "SELECT topic, partition, topic_id, next_offset FROM consumer_offsets"
ADD_CLUSTERS = upsert(engine_clusters, EngineClusterRow)
# Of which there is no row on the topic: none has changed since such rows are streamed.
ADD_CLUSTERS_OF_INSTANCES = f"""
INSERT INTO engine_clusters ({names(EngineClusterRow)})
SELECT * FROM {recordset(EngineClusterRow, "written")}
    ON CONFLICT DO NOTHING
"""  # noqa: S608 - of columns
ADD_INSTANCES = upsert(engine_instances, EngineInstanceRow)
ADD_POOLS = upsert(engine_pools, EnginePool)
ADD_ASSIGNMENTS = upsert(workspace_assignments, WorkspaceAssignment)
ADD_PINS = upsert(tenant_pins, TenantPin)
UNASSIGN = "DELETE FROM workspace_assignments WHERE workspace = ANY(%s)"
UNPIN = "DELETE FROM tenant_pins WHERE (workspace, namespace) IN (SELECT * FROM unnest(%s::text[], %s::text[]))"
REMOVE_POOLS = "DELETE FROM engine_pools WHERE (engine_cluster, ring) IN (SELECT * FROM unnest(%s::text[], %s::text[]))"
SKIP_ORDERS = """
INSERT INTO consumer_offsets (topic, partition, topic_id, next_offset) VALUES (%s, %s, %s, %s)
    ON CONFLICT (topic, partition) DO UPDATE SET topic_id = EXCLUDED.topic_id, next_offset = EXCLUDED.next_offset
"""
END = "DELETE FROM placements; DELETE FROM deployment_placements; DELETE FROM rebuild_positions"


@dataclass(frozen=True, slots=True)
class TopicContents:
    """What the topics hold that planners do not replay."""

    fleet: Mapping[str, EngineInstanceRow]
    placements: Placements
    orders: Mapping[TopicPartition, LogExtent]
    """How far the log of orders about the fleet goes."""
    placement_topic: PlacementTopic = field(default_factory=PlacementTopic)
    """The fleet besides its instances: engine clusters, pools, assignments and pins."""


def read_contents(settings: KafkaSettings, topics: StreamedTopics) -> TopicContents:
    """Read the topics. Raises Retry if the brokers do not answer, Poison if a row of the fleet is not ours."""
    return TopicContents(topics.fleet(), topics.placements(), _extents(settings, FLEET_ORDERS), topics.placement())


def begin(
    url: str,
    contents: TopicContents,
    logs: Mapping[TopicPartition, LogExtent],
    *,
    restored: bool,
    incomplete: bool,
) -> Mapping[TopicPartition, int]:
    """Fill the database in one transaction; returns the offsets that planners replay from.

    Raises InvalidConfiguration if the database is neither empty nor ``restored``, lacks an instance, or has planners;
    or if a log lacks messages from after the backup, unless that was accepted as ``incomplete``.
    """
    with connected(url) as connection:
        if restored:
            first = _resume(connection, logs, incomplete=incomplete)
        else:
            require_empty(connection)
            first = {source: log.first for source, log in logs.items()}
        _fill_fleet(connection, contents)
        if restored:
            follow_moves(connection, contents.placements)
        connection.execute(END)
        for statement, placed in (
            (PLACE, contents.placements.tenants),
            (PLACE_DEPLOYMENTS, contents.placements.deployments),
        ):
            connection.execute(statement, [list(placed), list(placed.values())])
        columns = [(*source, first[source], log.end) for source, log in sorted(logs.items())]
        connection.execute(BEGIN, [list(column) for column in zip(*columns, strict=True)])
    return first


def end_rebuild(url: str) -> None:
    """Delete the positions and placements of the rebuild, which is complete. Raises Retry."""
    with connected(url) as connection:
        connection.execute(END)


def _extents(settings: KafkaSettings, topic: str) -> dict[TopicPartition, LogExtent]:
    with PartitionReader(settings, CLIENT) as reader:
        sources = reader.partitions_of(topic)
    return read_extents(settings, CLIENT, sources)


def _fill_fleet(connection: Connection, contents: TopicContents) -> None:
    """Write the fleet. Raises InvalidConfiguration if tenants are on an instance that it lacks."""
    cursor = RawCursor(connection)
    cursor.execute(ADD_CLUSTERS, (document(contents.placement_topic.clusters),))
    cursor.execute(ADD_CLUSTERS_OF_INSTANCES, (document([_cluster_of(row) for row in contents.fleet.values()]),))
    clusters = {cluster for (cluster,) in connection.execute(CLUSTERS)}
    if missing := sorted({pool.engine_cluster for pool in contents.placement_topic.pools} - clusters):
        raise InvalidConfiguration(
            f"pools are of engine clusters of which no instance and no row was streamed: {', '.join(missing)}; insert "
            "their rows into engine_clusters (id, region, created_at, state, ordered_at)"
        )
    cursor.execute(ADD_POOLS, (document(contents.placement_topic.pools),))
    cursor.execute(ADD_INSTANCES, (document(list(contents.fleet.values())),))
    for source, log in contents.orders.items():
        connection.execute(SKIP_ORDERS, (*source, log.topic_id, log.end))
    instances = {instance for (instance,) in connection.execute(INSTANCES)}
    placed = contents.placements
    used = {
        *placed.tenants.values(),
        *placed.deployments.values(),
        *(pin.engine_instance_id for pin in contents.placement_topic.pins),
    }
    if missing := sorted(used - instances):
        raise InvalidConfiguration(f"tenants are on {', '.join(missing)}; add them with 'gitopsctl engines apply'")
    cursor.execute(ADD_ASSIGNMENTS, (document(contents.placement_topic.assignments),))
    cursor.execute(ADD_PINS, (document(contents.placement_topic.pins),))
    connection.execute(UNASSIGN, (list(contents.placement_topic.unassigned),))
    connection.execute(UNPIN, _columns(contents.placement_topic.unpinned))
    connection.execute(REMOVE_POOLS, _columns(contents.placement_topic.removed_pools))


def _columns(keys: Collection[tuple[str, str]]) -> list[list[str]]:
    return [[key[each] for key in keys] for each in (0, 1)]


def _cluster_of(row: EngineInstanceRow) -> EngineClusterRow:
    """The engine cluster of an instance, as it was when that was added."""
    return EngineClusterRow(row.engine_cluster, row.region, row.created_at, "active", row.created_at)


def require_empty(connection: Connection) -> None:
    """Raises InvalidConfiguration if the database has any tenant, or planners have taken it up."""
    if not connection.execute(IS_EMPTY).fetchone()[0]:  # type: ignore[index]
        raise InvalidConfiguration("the database is not empty: stop the planners, and take an empty one")


def _resume(
    connection: Connection, logs: Mapping[TopicPartition, LogExtent], *, incomplete: bool
) -> Mapping[TopicPartition, int]:
    """Set where in ``logs`` planners go on, from the offsets of the backup; returns these positions."""
    if connection.execute(IS_PLANNED).fetchone()[0]:  # type: ignore[index]
        raise InvalidConfiguration("planners are connected to the database: stop them first")
    rows = connection.execute(POSITIONS_OF_PLANNERS).fetchall()
    stored = {TopicPartition(topic, number): Position(topic_id, offset) for topic, number, topic_id, offset in rows}
    begun = {source: resume(stored.get(source, Position("", 0)), log) for source, log in logs.items()}
    missed = sum(resumed.missed for resumed in begun.values())
    if missed and not incomplete:
        raise InvalidConfiguration(
            f"the logs no longer have {missed} messages that came after the backup; --incomplete goes on without them: "
            "lists of the watchers and reports of the agents make up for them, but for sync runs that came and went"
        )
    take_up(connection, None, begun)
    return {source: resumed.position.next_offset for source, resumed in begun.items()}
