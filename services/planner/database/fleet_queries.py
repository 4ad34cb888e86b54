"""Reads and forgets rows of the fleet: what operators' orders are decided on, and the audit of these.

Rows that may be thousands are fetched at once: one by one they take three times as long.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import Connection

from services.common.messages import REMEDY, Health, InstallationPhase
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.planner.database.assignment_queries import load_rules
from services.planner.database.columns import names
from services.planner.database.move_queries import TENANTS_GONE, UNDER_WAY, load_moves
from services.planner.database.pool_queries import load_pools
from services.planner.database.remedy_queries import CORDONED, HELD, REASONS_BY_HAND
from services.planner.database.rollout_queries import load_closed, load_figures, load_rollout
from services.planner.domain.fleet.fleet import Fleet, Holding
from services.planner.domain.fleet.loaded_parts import LoadedTenants, TenantHere
from services.planner.domain.fleet.placement.measured_load import measured_load
from services.planner.domain.fleet.reports.report_rows import Installation, InstanceHealth
from services.planner.domain.fleet.rollouts.rollout_rows import Rollout
from services.planner.domain.fleet.rows import ROOM_AGAIN, EngineClusterRow, EngineInstanceRow
from services.planner.engines.interface import Engine
from services.planner.rows.tenants import PART, TenantName, tenant_of_part

CLUSTERS = f"SELECT {names(EngineClusterRow)} FROM engine_clusters"
HEALTH = f"SELECT {names(InstanceHealth)} FROM engine_health ORDER BY engine_instance_id"
INSTALLATIONS = f"SELECT {names(Installation)} FROM engine_installations"
INSTANCES = (
    f"SELECT {names(EngineInstanceRow)} FROM engine_instances WHERE state <> 'retired' OR id = ANY(%s) ORDER BY id"
)
RETIRED = f"SELECT {names(EngineInstanceRow)} FROM engine_instances WHERE state = 'retired'"
# Who inserts a tenant holds a share of its instance's row until the commit (writes/tenants.py): no tenant that another
# planner places meanwhile is missed.
LOCK = "SELECT FROM engine_instances WHERE id = ANY(%s) ORDER BY id FOR UPDATE"
DEPLOYMENTS = f"""
SELECT count(*) FROM engine_resources e
 WHERE e.engine_instance_id = i.id AND e.owner_kind = '{GITOPS_DEPLOYMENT.kind}' AND e.desired = 'present'
"""
# What is on some of the instances, a statement for each sort, which looks them up one by one in an index. OFFSET 0 is a
# fence to the optimizer: while tables are small it would read what all others hold.
ASKED = "unnest(%(instances)s::text[]) AS asked(id)"
TENANTS_OF_ASKED = f"""
       {ASKED} CROSS JOIN LATERAL (SELECT * FROM tenants known
                                    WHERE known.engine_instance_id = asked.id
                                   OFFSET 0) AS here
"""
DEPLOYED_PARTS = "count(spec) AS deployed, count(spec) FILTER (WHERE environment_id IS NULL) AS of_cluster"
PARTS_OF_ASKED = f"""
       {ASKED} CROSS JOIN LATERAL (SELECT tenant_id, {DEPLOYED_PARTS} FROM deployments known
                                    WHERE known.engine_instance_id = asked.id AND known.engine_instance_id <> ''
                                    GROUP BY tenant_id
                                   OFFSET 0) AS part
"""
# Placements are of tenants that a rebuild is about to find on the instance. A move needs both of its instances until it
# is over: its tenant's planner looks them up.
TENANTS_ON = f"""
SELECT engine_instance_id, count(*)
  FROM (SELECT asked.id AS engine_instance_id, here.id FROM {TENANTS_OF_ASKED}
         UNION
        SELECT asked.id, part.tenant_id FROM {PARTS_OF_ASKED}
         UNION
        SELECT engine_instance_id, tenant_id FROM placements WHERE engine_instance_id = ANY(%(instances)s)
         UNION
        SELECT engine_instance_id, NULL FROM deployment_placements
         WHERE engine_instance_id = ANY(%(instances)s)
         UNION
        SELECT unnest(ARRAY[source, target]), tenant_id FROM moves WHERE {UNDER_WAY}
       ) AS placed
 GROUP BY engine_instance_id
"""
DEPLOYMENTS_ON = f"SELECT i.id, ({DEPLOYMENTS}) FROM unnest(%(instances)s::text[]) AS i(id)"
HOLDING_OBJECTS = f"""
SELECT asked.id FROM {ASKED}
 WHERE EXISTS (SELECT FROM engine_resources e
                WHERE e.engine_instance_id = asked.id AND e.kind <> '{REMEDY}'
               OFFSET 0)
"""
DEPLOYED = "count(d.spec), count(d.spec) FILTER (WHERE d.environment_id IS NULL)"
IS_SPLIT = "EXISTS (SELECT FROM deployments p WHERE p.tenant_id = t.id AND p.engine_instance_id <> '')"
# What a tenant has on its own instance, and what on each of the others: a part, which has a name of its own.
PART_NAME = f"t.namespace || CASE on_one.id WHEN '' THEN '' ELSE '{PART}' || on_one.id END"
TENANT_HERE = f"""
t.workspace, {PART_NAME}, t.id, t.partition, coalesce(nullif(on_one.id, ''), t.engine_instance_id), {DEPLOYED},
       {IS_SPLIT}
"""
WITH_PARTS = """
       CROSS JOIN LATERAL (SELECT '' AS id
                            UNION
                           SELECT p.engine_instance_id FROM deployments p
                            WHERE p.tenant_id = t.id AND p.engine_instance_id <> '') AS on_one
       LEFT JOIN deployments d ON (d.tenant_id, d.engine_instance_id) = (t.id, on_one.id)
"""
NAMED = f"""
SELECT {TENANT_HERE}
  FROM unnest(%s::text[], %s::text[]) AS named(workspace, namespace)
  JOIN tenants t USING (workspace, namespace)
 {WITH_PARTS}
 WHERE t.former_since = 0
 GROUP BY t.id, on_one.id
"""
TENANTS_HERE = f"""
SELECT t.workspace, t.namespace, t.id, t.partition, t.engine_instance_id, deployed.*, {IS_SPLIT}
  FROM (SELECT here.* FROM {TENANTS_OF_ASKED}) AS t
 CROSS JOIN LATERAL (SELECT {DEPLOYED} FROM deployments d
                      WHERE d.tenant_id = t.id AND d.engine_instance_id = '') AS deployed
 WHERE t.former_since = 0
 UNION ALL
SELECT t.workspace, t.namespace || '{PART}' || asked.id, t.id, t.partition, asked.id,
       part.deployed, part.of_cluster, true
  FROM {PARTS_OF_ASKED}
 CROSS JOIN LATERAL (SELECT * FROM tenants known WHERE known.id = part.tenant_id OFFSET 0) AS t
 WHERE t.former_since = 0
 ORDER BY 3, 2
"""
ALL_TENANTS = f"""
SELECT {TENANT_HERE}, i.engine
  FROM tenants t
  JOIN engine_instances i ON i.id = t.engine_instance_id
 {WITH_PARTS}
 WHERE t.former_since = 0
 GROUP BY t.id, on_one.id, i.engine
 ORDER BY t.id, on_one.id
"""
OBJECTS = (
    "SELECT lane, engine_instance_id, kind, count(*) FROM engine_resources GROUP BY lane, engine_instance_id, kind"
)
OBJECTS_OF_ASKED = f"""
SELECT held.* FROM {ASKED}
 CROSS JOIN LATERAL (SELECT lane, engine_instance_id, kind, count(*) FROM engine_resources known
                      WHERE known.engine_instance_id = asked.id
                      GROUP BY lane, engine_instance_id, kind
                     OFFSET 0) AS held
"""
ENGINES_OF_ASKED = "SELECT id, engine FROM engine_instances WHERE id = ANY(%(instances)s)"
# Counted along the primary key, and joined only then.
CARRIED = """
SELECT i.id, i.engine, counted.kind, counted.objects
  FROM (SELECT engine_instance_id AS id, kind, count(*) AS objects FROM engine_resources GROUP BY 1, 2) AS counted
  JOIN engine_instances i USING (id)
"""
# A tenant that is on its way counts where it goes, too: for what is not there yet, its deployments.
BOUND_FOR = f"""
SELECT m.target, sum((SELECT count(d.spec) FROM deployments d
                       WHERE d.tenant_id = m.tenant_id
                         AND coalesce(nullif(d.engine_instance_id, ''), t.engine_instance_id) = m.source))::int8
  FROM moves m JOIN tenants t ON t.id = m.tenant_id
 WHERE {UNDER_WAY} AND m.step IN ('ordered', 'reserved', 'preparing', 'pausing', 'releasing')
 GROUP BY m.target
"""
QUEUES = "SELECT engine_instance_id, queue FROM engine_health"
IS_INSTALLATION_DUE = f"""
SELECT EXISTS (
    SELECT FROM engine_instances i
      LEFT JOIN engine_health h ON h.engine_instance_id = i.id
      LEFT JOIN engine_installations p ON p.engine_instance_id = i.id
     WHERE (i.state = 'provisioning'
            AND (i.due_at IS NULL OR i.due_at <= %s OR p.phase = '{InstallationPhase.FAILED.value}'))
        OR (i.state IN ('provisioning', 'failed') AND (h.heartbeat_at IS NOT NULL OR i.wanted_version IS NULL)
            AND (h.health = '{Health.HEALTHY.value}'
                 OR (h.health = '{Health.DEGRADED.value}' AND h.reason IN ({REASONS_BY_HAND}))))
)
"""
IS_REBUILT = "SELECT EXISTS (SELECT FROM rebuild_positions)"
DECIDED = "SELECT id FROM fleet_orders WHERE id = ANY(%s)"
IS_STATE_DUE = f"""
SELECT EXISTS (
    SELECT FROM engine_instances i
     WHERE state IN ('draining', 'drained')
        OR (state = 'accepting' AND ({DEPLOYMENTS}) >= capacity)
        OR (state = 'full' AND ({DEPLOYMENTS}) < capacity * {ROOM_AGAIN})
)
"""
PRUNE = """
DELETE FROM fleet_orders
 WHERE id = ANY(ARRAY(SELECT id FROM fleet_orders WHERE decided_at < %s LIMIT %s FOR UPDATE SKIP LOCKED))
"""

ObjectsHeld = dict[tuple[str, str], list[tuple[str, int]]]
"""Kinds of objects and how many, by lane and instance."""


def _lock_closing(connection: Connection[Any], closing: Collection[str], rollout: Rollout | None) -> None:
    closed = {*closing, *(rollout.source_ids if rollout is not None and rollout.step == "retiring" else ())}
    if closed:
        connection.execute(LOCK, (sorted(closed),))


def load_fleet_rows(
    connection: Connection[Any],
    engines: Mapping[str, Engine],
    orders: Collection[UUID] = (),
    tenants: Collection[TenantName] = (),
    closing: Collection[str] | None = None,
) -> Fleet:
    """All rows of the fleet, those of ``tenants``, and which of ``orders`` are decided; other parts are unloaded.

    Of retired instances it has those that moves lead to. Moves are read before tenants: if a planner takes a step of a
    move meanwhile, the tenant is further than the row says, and never less far.

    Args:
        connection: to the database.
        engines: that this build knows.
        orders: ids.
        tenants: names of them, or of their parts.
        closing: instances to lock, with those that the rollout gives up now: no planner places a tenant there until the
            transaction ends. None: nothing is locked.
    """
    rollout = load_rollout(connection)
    if closing is not None:
        _lock_closing(connection, closing, rollout)
    moves = load_moves(connection)
    gone = frozenset(tenant for (tenant,) in connection.execute(TENANTS_GONE).fetchall())
    named = sorted({tenant_of_part(each) for each in tenants})
    found = connection.execute(NAMED, ([each for each, _ in named], [each for _, each in named])) if named else ()
    clusters = [EngineClusterRow(*row) for row in connection.execute(CLUSTERS)]
    targets = sorted({move.target for move in moves})
    instances = [EngineInstanceRow(*row) for row in connection.execute(INSTANCES, (targets,))]
    health = [InstanceHealth(*row) for row in connection.execute(HEALTH)]
    cordoned = dict(connection.execute(CORDONED).fetchall())
    suspended = frozenset(instance for (instance,) in connection.execute(HELD).fetchall())
    installations = [Installation(*row) for row in connection.execute(INSTALLATIONS)]
    ((is_rebuilt,),) = connection.execute(IS_REBUILT).fetchall()
    decided = frozenset(order for (order,) in connection.execute(DECIDED, (sorted(orders),)))
    return Fleet(
        clusters={each.id: each for each in clusters},
        instances={each.id: each for each in instances},
        holdings={},
        engines=frozenset(engines),
        tenants=LoadedTenants(
            {(workspace, namespace): TenantHere(*rest) for workspace, namespace, *rest in found}, names=frozenset(named)
        ),
        moves={each.tenant_id: each for each in moves},
        gone=gone,
        decided=decided,
        health={each.engine_instance_id: each for each in health},
        cordoned=cordoned,
        suspended=suspended,
        installations={each.engine_instance_id: each for each in installations},
        pools=load_pools(connection),
        rollout=rollout,
        closed=load_closed(connection),
        figures=load_figures(connection, rollout) if rollout is not None else {},
        knows_version=lambda engine, version: engine in engines and engines[engine].knows_version(version),
        is_tested=lambda engine, version: engine in engines and engines[engine].is_tested(version),
        is_rebuilt=is_rebuilt,
        uncounted=frozenset(each.id for each in instances),
    )


def load_retired_and_assignments(connection: Connection[Any], fleet: Fleet) -> Fleet:
    """``fleet`` with retired instances, whose ids are not given out again, and with what operators have assigned.

    Both grow for years, and few decisions read them.
    """
    retired = {row[0]: EngineInstanceRow(*row) for row in connection.execute(RETIRED).fetchall()}
    return replace(
        fleet,
        instances=dict(sorted({**retired, **fleet.instances}.items())),
        has_retired=True,
        uncounted=fleet.uncounted | (retired.keys() - fleet.instances.keys()),
        rules=load_rules(connection),
    )


def load_holdings(connection: Connection[Any], instances: Collection[str]) -> dict[str, Holding]:
    """What is on each of ``instances``: nothing is read of others."""
    if not instances:
        return {}
    asked = {"instances": sorted(instances)}
    tenants: dict[str, int] = dict(connection.execute(TENANTS_ON, asked).fetchall())
    deployments: dict[str, int] = dict(connection.execute(DEPLOYMENTS_ON, asked).fetchall())
    coming: dict[str, int] = dict(connection.execute(BOUND_FOR).fetchall())
    occupied = {instance for (instance,) in connection.execute(HOLDING_OBJECTS, asked)}
    return {
        each: Holding(tenants.get(each, 0), deployments.get(each, 0) + coming.get(each, 0), objects=each in occupied)
        for each in instances
    }


def load_counted_fleet(
    connection: Connection[Any], engines: Mapping[str, Engine], tenants: Collection[TenantName] = ()
) -> Fleet:
    """All rows, those of ``tenants``, and what is on every instance: what operators are shown."""
    fleet = load_retired_and_assignments(connection, load_fleet_rows(connection, engines, tenants=tenants))
    return fleet.with_holdings(load_holdings(connection, fleet.instances))


def load_measured(connection: Connection[Any], engines: Mapping[str, Engine]) -> dict[str, int]:
    """What each instance carries, by its id; none of one that carries nothing that this build knows."""
    objects = Counter[str]()
    for instance, engine, kind, count in connection.execute(CARRIED).fetchall():
        objects[instance] += engines[engine].load_of(kind) * count if engine in engines else 0
    coming: dict[str, int] = dict(connection.execute(BOUND_FOR).fetchall())
    queues: dict[str, int] = dict(connection.execute(QUEUES).fetchall())
    known = {*objects, *coming, *queues}
    return {each: measured_load(objects[each], coming.get(each, 0), queues.get(each, 0)) for each in known}


def load_tenants_on(connection: Connection[Any], instances: Collection[str]) -> LoadedTenants:
    """Tenants that are current and on one of ``instances``; without their load."""
    found = connection.execute(TENANTS_HERE, {"instances": sorted(instances)}).fetchall()
    rows = {(workspace, namespace): TenantHere(*rest) for workspace, namespace, *rest in found}
    return LoadedTenants(rows, instances=frozenset(instances))


def load_measured_tenants_on(
    connection: Connection[Any], engines: Mapping[str, Engine], instances: Collection[str]
) -> LoadedTenants:
    """Tenants that are current and on one of ``instances``, with their load: 0 on an engine that this build lacks."""
    asked = {"instances": sorted(instances)}
    objects = _by_lane(connection.execute(OBJECTS_OF_ASKED, asked).fetchall())
    running: dict[str, str] = dict(connection.execute(ENGINES_OF_ASKED, asked).fetchall())
    rows = {
        (workspace, namespace): _measured((tenant, partition, on, *counts), engines.get(running[on]), objects)
        for workspace, namespace, tenant, partition, on, *counts in connection.execute(TENANTS_HERE, asked).fetchall()
    }
    return LoadedTenants(rows, instances=frozenset(instances))


def load_all_tenants(connection: Connection[Any], engines: Mapping[str, Engine]) -> LoadedTenants:
    """All tenants that are current, with their load: 0 on an engine that this build does not know."""
    objects = _by_lane(connection.execute(OBJECTS).fetchall())
    rows = {
        (workspace, namespace): _measured(rest, engines.get(engine), objects)
        for workspace, namespace, *rest, engine in connection.execute(ALL_TENANTS).fetchall()
    }
    return LoadedTenants.of_all(rows)


def _by_lane(rows: Iterable[tuple[str, str, str, int]]) -> ObjectsHeld:
    held: ObjectsHeld = defaultdict(list)
    for lane, instance, kind, count in rows:
        held[lane, instance].append((kind, count))
    return held


def _measured(row: Sequence[Any], engine: Engine | None, objects: ObjectsHeld) -> TenantHere:
    """Made with its load: to add that to what is made would take as long again, of thousands."""
    tenant, partition, instance, deployments, of_engine_cluster, is_split = row
    load = 0
    if engine is not None:
        held = objects.get((engine.lane(tenant), instance), ())
        load = sum(engine.load_of(kind) * count for kind, count in held)
    return TenantHere(tenant, partition, instance, deployments, of_engine_cluster, is_split, load)


def is_state_due(connection: Connection[Any]) -> bool:
    """Whether an instance may have another state by now: tenants leave it, or it is full, or not any more."""
    row = connection.execute(IS_STATE_DUE).fetchone()
    return row is not None and row[0]


def is_installation_due(connection: Connection[Any], now: datetime) -> bool:
    """Whether an instance that was not ready is so by ``now``, or should be."""
    row = connection.execute(IS_INSTALLATION_DUE, (now,)).fetchone()
    return row is not None and row[0]


def delete_orders(connection: Connection[Any], before: datetime, limit: int) -> int:
    """Delete up to ``limit`` rows of orders that were decided before ``before``; returns how many."""
    return connection.execute(PRUNE, (before, limit)).rowcount
