"""Engine instances: newest reports, silent ones, how many are well, and what retired ones leave behind."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from psycopg import Connection

from services.common.messages import ORPHAN_REMOVAL, REMEDY, Health, Observation, Removed
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.planner.database.columns import names
from services.planner.domain.events import Event, HealthDue
from services.planner.domain.fleet.reports.report_rows import InstanceHealth, KeptOrphans

KEPT_ORPHANS = f"SELECT {names(KeptOrphans)} FROM kept_orphans WHERE engine_instance_id = ANY(%s)"
HEALTH = f"SELECT {names(InstanceHealth)} FROM engine_health WHERE engine_instance_id = ANY(%s)"
# A retired instance has no reports any more, and needs none.
HEALTH_DUE = """
SELECT h.engine_instance_id, h.partition
  FROM engine_health h JOIN engine_instances i ON i.id = h.engine_instance_id
 WHERE h.due_at <= %(now)s AND h.partition = ANY(%(partitions)s) AND i.state <> 'retired'
   AND i.engine_cluster = ANY(%(clusters)s)
 ORDER BY h.due_at, h.engine_instance_id
 LIMIT %(limit)s
"""
FORGET_RETIRED = (
    "DELETE FROM engine_health k USING engine_instances i WHERE i.id = k.engine_instance_id AND i.state = 'retired'",
    "DELETE FROM kept_orphans k USING engine_instances i WHERE i.id = k.engine_instance_id AND i.state = 'retired'",
    f"""
    DELETE FROM engine_resources k USING engine_instances i
     WHERE i.id = k.engine_instance_id AND i.state = 'retired' AND k.kind IN ('{REMEDY}', '{ORPHAN_REMOVAL}')
    """,
)
# All tenants of a name are of one partition. An event for a parked one would be stored each time that it is found.
LOST_OBJECTS = f"""
SELECT lost.workspace, lost.tenant_namespace, i.id, lost.kind, lost.name,
       lost.owner_kind = '{GITOPS_DEPLOYMENT.kind}', named.partition
  FROM engine_instances i
 CROSS JOIN LATERAL (SELECT * FROM engine_resources e
                      WHERE e.engine_instance_id = i.id AND e.desired = 'absent'
                        AND (i.id, e.kind, e.name) > (%(instance)s, %(kind)s, %(name)s) OFFSET 0) AS lost
 CROSS JOIN LATERAL (SELECT partition FROM tenants t
                      WHERE (t.workspace, t.namespace) = (lost.workspace, lost.tenant_namespace) LIMIT 1) AS named
 WHERE i.state = 'retired' AND named.partition = ANY(%(partitions)s)
   AND NOT EXISTS (SELECT FROM parked_tenants parked
                    WHERE (parked.workspace, parked.namespace) = (lost.workspace, lost.tenant_namespace))
 ORDER BY i.id, lost.kind, lost.name
 LIMIT %(limit)s
"""
COUNT_BY_HEALTH = """
SELECT coalesce(health, 'Unknown'), count(*) FROM engine_instances
 WHERE state NOT IN ('provisioning', 'failed', 'retired') GROUP BY 1
"""


class LostObject(NamedTuple):
    """An object of a retired instance."""

    instance: str
    kind: str
    name: str


def load_kept_orphans(connection: Connection[Any], instances: Collection[str]) -> dict[str, KeptOrphans]:
    """Objects on these instances that no row desires, by the newest reports."""
    rows = connection.execute(KEPT_ORPHANS, (sorted(instances),))
    return {each.engine_instance_id: each for each in (KeptOrphans(*row) for row in rows)}


def load_engine_health(connection: Connection[Any], instances: Collection[str]) -> dict[str, InstanceHealth]:
    """The health of these instances, by the newest reports."""
    rows = connection.execute(HEALTH, (sorted(instances),))
    return {each.engine_instance_id: each for each in (InstanceHealth(*row) for row in rows)}


def find_due_health(
    connection: Connection[Any], now: datetime, partitions: Sequence[int], clusters: Sequence[str], limit: int
) -> list[Event]:
    """Events for engine instances of these clusters that are not retired, and that no agent has reported for long."""
    values = {"now": now, "partitions": list(partitions), "clusters": list(clusters), "limit": limit}
    return [Event(HealthDue(known), at, "") for known, at in connection.execute(HEALTH_DUE, values)]


def find_lost_objects(
    connection: Connection[Any], now: datetime, partitions: Sequence[int], limit: int, after: LostObject | None
) -> tuple[list[Event], LostObject | None]:
    """Reports that objects are removed which a retired instance was to remove: it is lost, and no agent will send them.

    The removal of a deployment's object is forced: what it has deployed is left behind. Objects come in their order,
    and only those ``after`` one, so that one whose row stays holds up no other. Also returns the last of them, if there
    may be more behind it.
    """
    first = after or LostObject("", "", "")
    values = {"partitions": list(partitions), "limit": limit, **first._asdict()}
    rows = connection.execute(LOST_OBJECTS, values).fetchall()
    events = [
        Event(Observation(workspace, namespace, instance, kind, name, now, Removed(forced)), partition, "")
        for workspace, namespace, instance, kind, name, forced, partition in rows
    ]
    return events, LostObject(*rows[-1][2:5]) if len(rows) == limit else None


def forget_retired(connection: Connection[Any]) -> int:
    """Delete reports of instances that are retired by now, and orders to their agents; returns how many rows."""
    return sum(connection.execute(statement).rowcount for statement in FORGET_RETIRED)


def count_by_health(connection: Connection[Any]) -> dict[str, int]:
    """How many engine instances there are of each health, that were ready once and are not retired."""
    return dict.fromkeys(Health, 0) | {Health(health): count for health, count in connection.execute(COUNT_BY_HEALTH)}
