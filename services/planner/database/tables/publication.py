"""What Debezium streams: the tables of the publication ``gitops_compiled``, and the connector's own two.

Columns of a streamed table are an interface. Other services read it; or, of ``engine_clusters``, ``engine_pools``,
``workspace_assignments`` and ``tenant_pins``, whoever rebuilds the database. All other tables are the planner's own.
"""

from __future__ import annotations

from sqlalchemy import Column, Integer, String, Table

from services.planner.database.tables.compiled import (
    engine_resources,
    pending_claims,
    tenant_clusters,
    workspace_objects,
    workspace_statuses,
)
from services.planner.database.tables.fleet import (
    engine_clusters,
    engine_instances,
    engine_pools,
    tenant_pins,
    workspace_assignments,
)
from services.planner.database.tables.metadata import METADATA, TIME

debezium_signals = Table(
    "debezium_signals",
    METADATA,
    Column("id", String(42), primary_key=True),
    Column("type", String(32), nullable=False),
    Column("data", String(2048)),
    comment="Orders to the connector, such as a new snapshot.",
)

debezium_heartbeat = Table(
    "debezium_heartbeat",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("beat_at", TIME, nullable=False),
    comment="Moved by the connector, so that its replication slot advances while the streamed tables rest.",
)

STREAMED = (
    engine_clusters,
    engine_pools,
    engine_instances,
    workspace_assignments,
    tenant_pins,
    engine_resources,
    workspace_statuses,
    workspace_objects,
    pending_claims,
    tenant_clusters,
    debezium_signals,
    debezium_heartbeat,
)
"""Tables of the publication ``gitops_compiled``."""
