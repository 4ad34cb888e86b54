"""What agents and provisioners report of engine instances. Of each instance the newest report is kept, and samples."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, Index, Integer, Table, Text

from services.planner.database.tables.metadata import METADATA, TIME

engine_health = Table(
    "engine_health",
    METADATA,
    Column("engine_instance_id", Text, primary_key=True, comment="No foreign key: as an agent told it."),
    Column("partition", Integer, nullable=False, comment="Of what is told of the instance."),
    Column("health", Text, nullable=False),
    Column("reason", Text, nullable=False, comment="A word; empty if it is well."),
    Column("message", Text, nullable=False, comment="For operators."),
    Column("version", Text, nullable=False, comment="Of what it runs; empty if that is not to be seen."),
    Column("heartbeat_at", TIME, comment="When its heartbeat Application was compared last."),
    Column("since", TIME, nullable=False, comment="When its health became what it is."),
    Column("reported_at", TIME, nullable=False, comment="When its agent last told anything."),
    Column("due_at", TIME, comment="When its health is Unknown, if nothing more is told. Null: it is."),
    Column(
        "queue",
        Integer,
        nullable=False,
        server_default="0",
        comment="Applications that waited to be compared throughout the last report.",
    ),
    Column("certificate_expires_at", TIME, comment="The first of those that it depends on. Null: none is told of."),
    CheckConstraint("health IN ('Healthy', 'Degraded', 'Down', 'Unknown')", name="health"),
    comment="What agents tell of instances each minute; what of that is to be streamed is with the instance.",
)

engine_installations = Table(
    "engine_installations",
    METADATA,
    Column("engine_instance_id", Text, primary_key=True, comment="No foreign key: as a provisioner told it."),
    Column("partition", Integer, nullable=False, comment="Of what is told of the instance."),
    Column("phase", Text, nullable=False),
    Column("version", Text, nullable=False, comment="Of the manifests that are applied; empty: none are."),
    Column("message", Text, nullable=False, comment="For operators; empty if the phase says all."),
    Column("reported_at", TIME, nullable=False, comment="When its provisioner last told anything."),
    CheckConstraint("phase IN ('Applying', 'Applied', 'Failed', 'Removing', 'Removed')", name="phase"),
    comment="How far provisioners are with what instances run, as they told last.",
)

engine_samples = Table(
    "engine_samples",
    METADATA,
    Column("engine_instance_id", Text, primary_key=True, comment="No foreign key: as an agent told it."),
    Column("sampled_at", TIME, primary_key=True),
    Column("applications", Integer, nullable=False),
    Column("late", Integer, nullable=False, comment="Not compared in time."),
    Column("failed_syncs", Integer, nullable=False, comment="Whose last sync has failed."),
    Column("comparison_errors", Integer, nullable=False),
    Column("comparison_p95_ms", BigInteger, comment="Since they were compared last. Null: there is none."),
    Column("sync_p95_ms", BigInteger, comment="Of syncs that ended of late. Null: none did."),
    Column("tenants", Integer, nullable=False, server_default="0", comment="Whose Applications they are."),
    Column(
        "failing_tenants",
        Integer,
        nullable=False,
        server_default="0",
        comment="With an Application that could not be compared, or whose last sync has failed.",
    ),
    Index(None, "sampled_at"),
    comment="What agents count of each instance's Applications each minute, for rollouts. Pruned soon.",
)

kept_orphans = Table(
    "kept_orphans",
    METADATA,
    Column("engine_instance_id", Text, primary_key=True, comment="No foreign key: as an agent told it."),
    Column("partition", Integer, nullable=False, comment="Of what is told of the instance."),
    Column("existing", Integer, nullable=False, comment="Objects of ours that it has."),
    Column("total", Integer, nullable=False, comment="Those that no row desires."),
    Column("objects", Text, nullable=False, comment="JSON of their names, sorted: as many as one approval takes."),
    Column("digest", Text, nullable=False, comment="Names exactly these: an approval is of what was shown."),
    Column("reported_at", TIME, nullable=False),
    comment="Objects that agents keep though no row desires them, because they are an implausible share.",
)
