"""Engine instances in a test's database, without an order to a planner, and what their agents tell."""

from __future__ import annotations

from typing import Any

from psycopg import Connection

from services.common.messages import EngineHealth, Health, Observation
from services.planner.domain.events import Event
from tests.unit.planner.given import at

CLUSTER = "SELECT FROM engine_clusters WHERE id = 'default'"
ADD_CLUSTER = "INSERT INTO engine_clusters VALUES ('default', '', now(), 'active', now())"
ADD_INSTANCE = """
INSERT INTO engine_instances (id, namespace, state, created_at, engine, engine_cluster, region, engine_class,
                              dedicated_to, ring, capacity, ordered_at)
VALUES (%s, %s, 'accepting', to_timestamp(0), 'argocd', 'default', '', 'shared', '', 'general', 2500, to_timestamp(0))
    ON CONFLICT DO NOTHING
"""


def add_instance(owner: Connection[Any], instance: str, namespace: str) -> None:
    """In cluster ``default``, which every database has that nobody has emptied; also in one of an older revision."""
    if owner.execute(CLUSTER).fetchone() is None:
        owner.execute(ADD_CLUSTER)
    owner.execute(ADD_INSTANCE, (instance, namespace))


def told_working(instance: str, second: int = 1) -> Event:
    """Its agent, which has no heartbeat, tells that it works: before that one that was ordered takes no tenants."""
    health = EngineHealth(Health.HEALTHY.value, "", "", "3.2.11", None)
    return Event(Observation("", "", instance, "", "", at(second), health), 0, "")
