"""The audit: who changed which resource, what operators ordered of the fleet, and what became of it."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, Index, Table, Text, Uuid

from services.planner.database.tables.metadata import METADATA, ROOM_FOR_UPDATES, TIME

audit_records = Table(
    "audit_records",
    METADATA,
    Column("id", Uuid, primary_key=True, comment="uuid5 of the CR and its generation, or its deletion."),
    Column("deployment_id", Uuid, nullable=False, comment="The CR's; no foreign key: the audit outlives it."),
    Column("workspace", Text, nullable=False),
    Column("namespace", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("action", Text, nullable=False),
    Column("actor", Text, nullable=False, comment="Field manager of the change; empty if unknown."),
    Column("state", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("trace_id", Text, nullable=False),
    Column("created_at", TIME, nullable=False, comment="When the watcher saw the change."),
    Column("updated_at", TIME, nullable=False),
    CheckConstraint("action IN ('create', 'update', 'delete', 'reissue')", name="action"),
    CheckConstraint("state IN ('Waiting', 'Completed', 'Failed')", name="state"),
    # Operators ask of a tenant. A tenant's rows arrive in order of time: they are added at the end of its part.
    Index(None, "workspace", "namespace", "created_at"),
    # Rows arrive in order of time and are pruned by it: a block range index is a few pages, whatever their number. What
    # it has not summarized yet is read whenever it is asked.
    Index(
        None,
        "created_at",
        postgresql_using="brin",
        postgresql_with={"pages_per_range": "32", "autosummarize": "on"},
    ),
    comment="Audit: who changed what, and what became of it. Pruned after a time.",
    postgresql_with=ROOM_FOR_UPDATES,
)

fleet_orders = Table(
    "fleet_orders",
    METADATA,
    Column("id", Uuid, primary_key=True, comment="The order's own."),
    Column("kind", Text, nullable=False, comment="What was ordered."),
    Column("subject", Text, nullable=False, comment="Instance or cluster."),
    Column("arguments", Text, nullable=False, comment="All of the order, JSON."),
    Column("actor", Text, nullable=False, comment="Who ordered it, as it told."),
    Column("outcome", Text, nullable=False),
    Column("message", Text, nullable=False, comment="Why; empty if that needs no words."),
    Column("ordered_at", TIME, nullable=False),
    Column("decided_at", TIME, nullable=False),
    CheckConstraint("outcome IN ('accepted', 'refused', 'unchanged')", name="outcome"),
    comment="Audit of the fleet: what operators ordered, and what became of it. Pruned after a time.",
)
