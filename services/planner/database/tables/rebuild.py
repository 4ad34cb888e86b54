"""What a rebuild of the database needs until it is over: where tenants were placed, and what the logs held."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Integer, Table, Text, Uuid

from services.planner.database.tables.metadata import METADATA, NOW, TIME

placements = Table(
    "placements",
    METADATA,
    Column("tenant_id", Uuid, primary_key=True),
    Column("engine_instance_id", Text, ForeignKey("engine_instances.id"), nullable=False),
    comment="Where tenants are that the database does not know yet: input of a rebuild, which leaves it empty.",
)

deployment_placements = Table(
    "deployment_placements",
    METADATA,
    Column("deployment_id", Uuid, primary_key=True),
    Column("engine_instance_id", Text, ForeignKey("engine_instances.id"), nullable=False),
    comment="Likewise of deployments that are on another instance than their tenant.",
)

rebuild_positions = Table(
    "rebuild_positions",
    METADATA,
    Column("topic", Text, primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("first_offset", BigInteger, nullable=False, comment="Of the oldest message that there was."),
    Column("end_offset", BigInteger, nullable=False, comment="After the newest."),
    Column("began_at", TIME, nullable=False, server_default=NOW, comment="When the rebuild began."),
    comment="What the logs held when a rebuild began. Empty but while one is under way.",
)
