"""The fleet: engine clusters, instances and pools, and where tenants are placed, as operators ordered it."""

from __future__ import annotations

from sqlalchemy import (
    CheckConstraint,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from services.planner.database.tables.metadata import METADATA, TIME

engine_clusters = Table(
    "engine_clusters",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("region", Text, nullable=False, comment="Empty: the installation has no regions."),
    Column("created_at", TIME, nullable=False),
    Column("state", Text, nullable=False),
    Column(
        "ordered_at",
        TIME,
        nullable=False,
        comment="When the newest order that changed it was given: an older one changes nothing.",
    ),
    UniqueConstraint("id", "region"),
    CheckConstraint("state IN ('active', 'draining', 'retired')", name="state"),
    comment="Streamed: clusters that engine instances run in. A retired one stays: its id is never given out again.",
)

engine_instances = Table(
    "engine_instances",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("namespace", Text, nullable=False, comment="Where the objects of this instance are."),
    Column("state", Text, nullable=False),
    Column("created_at", TIME, nullable=False),
    Column("engine", Text, nullable=False, comment="What it runs."),
    Column("engine_cluster", Text, nullable=False, comment="Which it runs in."),
    Column("region", Text, nullable=False, comment="Its cluster's."),
    Column("engine_class", Text, nullable=False, comment="Whether tenants of one workspace have it to themselves."),
    Column("dedicated_to", Text, nullable=False, comment="That workspace; empty if it is shared."),
    Column("ring", Text, nullable=False, comment="When it gets a new version."),
    Column("capacity", Integer, nullable=False, comment="Applications."),
    Column(
        "ordered_at",
        TIME,
        nullable=False,
        comment="When the newest order that changed it was given: an older one changes nothing.",
    ),
    # None of these three until an agent has told: they have no default, which would be in the schema of the stream.
    Column("health", Text, comment="As its agent told last; Unknown if that tells nothing any more."),
    Column("health_reason", Text, comment="A word; empty if it is well."),
    Column("version", Text, comment="Of what it runs; empty if that is not to be seen."),
    # Of an instance that somebody else looks after there is no wanted_version, profile or reapply_ordered_at.
    Column("wanted_version", Text, comment="Of Argo CD, that a provisioner installs and keeps. Null: it is not ours."),
    Column("profile", Text, comment="Configuration that it is installed with. Null: the usual one."),
    Column("due_at", TIME, comment="When it has failed, if it is still being provisioned then."),
    Column("state_message", Text, comment="Why it is in its state. Null: that needs no words."),
    Column("reapply_ordered_at", TIME, comment="When its provisioner was last told to make anew what is older."),
    ForeignKeyConstraint(["engine_cluster", "region"], ["engine_clusters.id", "engine_clusters.region"]),
    UniqueConstraint("id", "engine_cluster"),
    CheckConstraint(
        "state IN ('provisioning', 'accepting', 'full', 'draining', 'drained', 'failed', 'retired')", name="state"
    ),
    CheckConstraint("engine_class IN ('shared', 'dedicated')", name="engine_class"),
    CheckConstraint("(engine_class = 'dedicated') = (dedicated_to <> '')", name="dedicated_to"),
    CheckConstraint("ring IN ('canary', 'early', 'general')", name="ring"),
    CheckConstraint("capacity > 0", name="capacity"),
    Index(
        "engine_instances_namespace_idx",
        "engine_cluster",
        "namespace",
        unique=True,
        postgresql_where=text("state <> 'retired'"),
    ),
    comment="Streamed: the fleet, as operators ordered it. A retired instance stays: its id is never given out again.",
)

workspace_assignments = Table(
    "workspace_assignments",
    METADATA,
    Column("workspace", Text, primary_key=True),
    Column("region", Text, nullable=False, comment="Of the instances that its tenants are placed on; empty: any."),
    Column("ring", Text, nullable=False, comment="Likewise."),
    Column("assigned_at", TIME, nullable=False, comment="When the newest order that changed it was given."),
    CheckConstraint("ring IN ('', 'canary', 'early', 'general')", name="ring"),
    CheckConstraint("region <> '' OR ring <> ''", name="assigned"),
    comment="Streamed: which instances tenants of a workspace are placed on, as operators ordered it.",
)

tenant_pins = Table(
    "tenant_pins",
    METADATA,
    Column("workspace", Text, primary_key=True),
    Column("namespace", Text, primary_key=True),
    Column("engine_instance_id", Text, ForeignKey("engine_instances.id"), nullable=False),
    Column("pinned_at", TIME, nullable=False, comment="When that was ordered."),
    comment="Streamed: tenants that stay on an instance, as operators ordered it; and such that are still to come.",
)

engine_pools = Table(
    "engine_pools",
    METADATA,
    Column("engine_cluster", Text, ForeignKey("engine_clusters.id"), primary_key=True),
    Column("ring", Text, primary_key=True),
    Column("minimum", Integer, nullable=False, comment="Instances."),
    Column("maximum", Integer, nullable=False, comment="Instances."),
    Column("spare", Integer, nullable=False, comment="Instances beyond those that the load needs."),
    Column("capacity", Integer, nullable=False, comment="Applications, of each instance that is added."),
    Column("version", Text, nullable=False, comment="Of Argo CD, likewise."),
    Column("profile", Text, nullable=False, comment="Configuration, likewise; empty: the usual one."),
    Column("ordered_at", TIME, nullable=False, comment="When the newest order that changed it was given."),
    Column("shrinks_at", TIME, comment="When an instance is given up, if fewer are enough until then."),
    Column("leaving", Text, comment="The instance that is being given up. Null: none is."),
    Column("message", Text, nullable=False, comment="Why it does not have what it needs; empty: it has."),
    CheckConstraint("ring IN ('canary', 'early', 'general')", name="ring"),
    CheckConstraint("0 <= minimum AND minimum <= maximum AND spare >= 0", name="instances"),
    CheckConstraint("capacity > 0", name="capacity"),
    comment="Streamed: rings of engine clusters in which the planner adds and gives up instances by itself.",
)

engine_overloads = Table(
    "engine_overloads",
    METADATA,
    Column("engine_instance_id", Text, ForeignKey("engine_instances.id"), primary_key=True),
    Column("relieved_at", TIME, nullable=False, comment="When tenants move away, if it is overloaded until then."),
    comment="Instances that carry more of their capacity than they should.",
)
