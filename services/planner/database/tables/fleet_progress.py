"""How far the planner has come with what takes many steps in the fleet: moves, rollouts and remediations."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, CheckConstraint, Column, ForeignKey, Index, Integer, Table, Text, Uuid, text

from services.planner.database.tables.metadata import METADATA, TIME

_UNDER_WAY = "step NOT IN ('done', 'cancelled')"

moves = Table(
    "moves",
    METADATA,
    Column("id", Uuid, primary_key=True, comment="The order's."),
    Column("tenant_id", Uuid, nullable=False, comment="No foreign key: the row outlives it."),
    Column("workspace", Text, nullable=False),
    Column("namespace", Text, nullable=False),
    Column("partition", Integer, nullable=False, comment="The tenant's."),
    Column("source", Text, ForeignKey("engine_instances.id"), nullable=False),
    Column("target", Text, ForeignKey("engine_instances.id"), nullable=False),
    Column("step", Text, nullable=False),
    Column("is_cancelled", Boolean, nullable=False, comment="It is to go back, if it still can."),
    Column("reported", Text, nullable=False, comment="What agents have reported that the step waits for. JSON."),
    Column("message", Text, nullable=False, comment="Why it was cancelled; empty if it was not."),
    Column("actor", Text, nullable=False, comment="Who ordered it, as it told."),
    Column("ordered_at", TIME, nullable=False),
    Column("step_since", TIME, nullable=False),
    Column("due_at", TIME, comment="When it has to be looked at again, though nothing happens."),
    Column("path", Text, nullable=False, server_default="whole", comment="Whether its source is waited for."),
    Column(
        "evacuated_for",
        Text,
        nullable=False,
        server_default="",
        comment="Reason of the health of its source, if it is evacuated; empty if it is not.",
    ),
    CheckConstraint("path IN ('whole', 'forced', 'fenced')", name="path"),
    CheckConstraint(
        "step IN ('ordered', 'reserved', 'preparing', 'pausing', 'releasing', 'adopting', 'withdrawing', 'done',"
        " 'cancelling', 'cancelled')",
        name="step",
    ),
    Index("moves_current_idx", "tenant_id", unique=True, postgresql_where=text(_UNDER_WAY)),
    Index(None, "step_since"),
    comment="Tenants that go from one engine instance to another, and how far each has come. Pruned after a time.",
)

rollouts = Table(
    "rollouts",
    METADATA,
    Column("id", Uuid, primary_key=True, comment="The order's."),
    Column("version", Text, nullable=False, comment="That comes to the fleet."),
    Column("profile", Text, nullable=False, comment="Configuration of the new instances; empty: the usual one."),
    Column("rings", Text, nullable=False, comment="In their order, comma separated."),
    Column("soak_seconds", Integer, nullable=False, comment="As ordered: how long each stage is looked at."),
    Column("is_security", Boolean, nullable=False, comment="Soaks are shorter."),
    Column("step", Text, nullable=False),
    Column("ring", Text, nullable=False, comment="Which it is at; empty before the first."),
    Column("stage", Integer, nullable=False, comment="Percent of the ring's tenants; 0 before the first."),
    Column("is_paused", Boolean, nullable=False, comment="Until an operator resumes it."),
    Column("outcome", Text, nullable=False, comment="How it ends after its ring; empty: it goes on."),
    Column("sources", Text, nullable=False, comment="Ids of the ring's old instances, JSON."),
    Column("targets", Text, nullable=False, comment="Ids of its new instances, JSON."),
    Column("baseline", Text, nullable=False, comment="Figures of the old instances before any tenant moved, JSON."),
    Column("tenants", Integer, nullable=False, comment="Of the ring."),
    Column("moved", Integer, nullable=False, comment="Those of them that are on new instances."),
    Column("reason", Text, nullable=False, comment="What it waits for, or why it has stopped; empty: no words needed."),
    Column("actor", Text, nullable=False, comment="Who ordered it, as it told."),
    Column("ordered_at", TIME, nullable=False),
    Column("step_since", TIME, nullable=False),
    Column("moved_at", TIME, nullable=False, comment="When moved changed last, or the step began."),
    Column("due_at", TIME, comment="When it is looked at next. Null: it is over, or paused."),
    CheckConstraint(
        "step IN ('ordered', 'provisioning', 'moving', 'soaking', 'draining', 'retiring', 'reverting', 'done',"
        " 'failed', 'aborted')",
        name="step",
    ),
    CheckConstraint("stage IN (0, 1, 10, 100)", name="stage"),
    CheckConstraint("outcome IN ('', 'failed', 'aborted')", name="outcome"),
    comment="Versions that come to the fleet ring by ring, and how far each has come. Pruned after a time.",
)

remediations = Table(
    "remediations",
    METADATA,
    Column("engine_instance_id", Text, ForeignKey("engine_instances.id"), primary_key=True),
    Column("state", Text, nullable=False),
    Column("number", BigInteger, nullable=False, comment="Of the newest remedy; it grows."),
    Column("rung", Text, nullable=False, comment="The newest remedy since it became ill; empty: none."),
    Column("tried", Text, nullable=False, comment="All since then, JSON."),
    Column("is_cordoned", Boolean, nullable=False, comment="No new tenant is placed on it."),
    Column("message", Text, nullable=False, comment="Why it is in this state."),
    Column("since", TIME, nullable=False, comment="When it came into this state, or to this rung."),
    Column("due_at", TIME, comment="When it has to be looked at again, though nothing happens."),
    Column(
        "replaced_by",
        Text,
        nullable=False,
        server_default="",
        comment="The instance that was ordered last to take its place; empty: none was.",
    ),
    Column("told_number", BigInteger, nullable=False, comment="The remedy that its agent has told of last."),
    Column("told_outcome", Text, nullable=False),
    Column("told_message", Text, nullable=False, comment="Why it could not be carried out; empty: it was."),
    CheckConstraint("state IN ('waiting', 'held', 'acting', 'recovering', 'exhausted', 'well')", name="state"),
    CheckConstraint("told_outcome IN ('', 'done', 'skipped')", name="told_outcome"),
    comment="What was done for engine instances that are ill, or have been, and what comes next.",
)
