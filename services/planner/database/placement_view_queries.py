"""Reads the fleet as tenants' plans see it: its instances, what each carries, and where tenants were placed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from psycopg import Connection

from services.planner.database.assignment_queries import load_rules
from services.planner.database.fleet_queries import load_measured
from services.planner.database.move_queries import UNDER_WAY
from services.planner.database.remedy_queries import IS_CORDONED, IS_DOWN, IS_OUT_OF_REACH
from services.planner.database.rollout_queries import IS_CLOSED
from services.planner.domain.changes import Changes
from services.planner.domain.fleet.placement_view import PlacementView
from services.planner.engines.interface import Engine
from services.planner.rows.fleet import PlacementCandidate

VIEWED = f"""
       id, namespace, state = 'accepting' AND NOT {IS_CORDONED} AND NOT {IS_CLOSED}, engine, dedicated_to, capacity,
       state IN ('draining', 'drained'), engine_cluster, {IS_DOWN}, {IS_OUT_OF_REACH}, region, ring,
       state IN ('provisioning', 'failed'), state = 'retired', state = 'drained'
"""
# Nothing comes to a retired instance. Rows name one that was lost until planners have withdrawn what it had. Each
# sub-query compares one column: of many instances PostgreSQL reads its table once, and not for each.
IS_NAMED = f"""
(state <> 'retired'
 OR EXISTS (SELECT FROM engine_resources e WHERE e.engine_instance_id = engine_instances.id)
 OR EXISTS (SELECT FROM tenants t WHERE t.engine_instance_id = engine_instances.id)
 OR EXISTS (SELECT FROM deployments d
             WHERE d.engine_instance_id = engine_instances.id AND d.engine_instance_id <> '')
 OR EXISTS (SELECT FROM moves m WHERE {UNDER_WAY} AND m.source = engine_instances.id)
 OR EXISTS (SELECT FROM moves m WHERE {UNDER_WAY} AND m.target = engine_instances.id))
"""
INSTANCES = f"SELECT {VIEWED} FROM engine_instances WHERE {IS_NAMED}"
SOME_INSTANCES = f"""
SELECT {VIEWED} FROM unnest(%s::text[]) AS affected(id) JOIN engine_instances USING (id) WHERE {IS_NAMED}
"""
INSTANCES_OF_RINGS = f"{INSTANCES} AND ring = ANY(%s)"
PLACEMENTS = """
SELECT tenant_id, engine_instance_id FROM placements
 UNION ALL
SELECT deployment_id, engine_instance_id FROM deployment_placements
"""
CLUSTERS_OF_INSTANCES = "SELECT id, engine_cluster FROM engine_instances WHERE id = ANY(%s)"


def load_fleet(connection: Connection[Any], engines: Mapping[str, Engine]) -> PlacementView:
    """The engine instances, what each carries, and what operators have assigned."""
    fleet = _fleet(connection.execute(INSTANCES), engines)
    return replace(fleet, load=load_measured(connection, engines), rules=load_rules(connection))


def reload_fleet(connection: Connection[Any], before: PlacementView, written: Changes) -> PlacementView:
    """``before`` with what ``written`` affects read anew; what instances carry stays as it is known."""
    if not before.instances:
        instances = _fleet(connection.execute(INSTANCES), before.engines).instances
    else:
        affected = written.instances_affected
        unaffected = {known: row for known, row in before.instances.items() if known not in affected}
        changed = [*connection.execute(SOME_INSTANCES, (sorted(affected),))] if affected else []
        if written.rings_affected:
            changed += connection.execute(INSTANCES_OF_RINGS, ([*written.rings_affected],))
        instances = {**unaffected, **_fleet(changed, before.engines).instances}
    rules = load_rules(connection) if written.affects_rules else before.rules
    return replace(before, instances=instances, rules=rules)


def read_all_instances(connection: Connection[Any], fleet: PlacementView) -> PlacementView:
    """``fleet`` with all instances that it may have, read anew."""
    return replace(fleet, instances=_fleet(connection.execute(INSTANCES), fleet.engines).instances)


def read_named_instances(connection: Connection[Any], fleet: PlacementView, named: Iterable[str]) -> PlacementView:
    """``fleet`` with those instances that rows name and it lacks: they were added since it was read."""
    missing = sorted({*named} - {""} - fleet.instances.keys())
    if not missing:
        return fleet
    found = _fleet(connection.execute(SOME_INSTANCES, (missing,)), fleet.engines).instances
    return replace(fleet, instances={**fleet.instances, **found})


def load_placements(connection: Connection[Any]) -> dict[UUID, str]:
    """Instances of tenants that were placed before the database was lost, and of their deployments on others."""
    return dict(connection.execute(PLACEMENTS).fetchall())


def load_engine_clusters(connection: Connection[Any], instances: Collection[str]) -> dict[str, str]:
    """The engine cluster of each of these instances, retired ones too, as far as there is one."""
    return dict(connection.execute(CLUSTERS_OF_INSTANCES, (sorted(instances),)).fetchall())


def _fleet(rows: Iterable[Sequence[Any]], engines: Mapping[str, Engine]) -> PlacementView:
    return PlacementView({row[0]: PlacementCandidate(*row) for row in rows}, engines)
