"""What the planner makes of tenants for other services: compiled rows, pending claims, and the clusters of tenants.

Everything here is streamed. Who adds a workspace adds its partitions of ``workspace_statuses`` and
``workspace_objects`` (``gitopsctl workspaces add``).
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    SmallInteger,
    Table,
    Text,
    Uuid,
    text,
)

from services.planner.database.tables.metadata import METADATA, ROOM_FOR_UPDATES, TIME

_NOBODY = text("'00000000-0000-0000-0000-000000000000'")

engine_resources = Table(
    "engine_resources",
    METADATA,
    Column("engine_instance_id", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("namespace", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("workspace", Text, nullable=False),
    Column("tenant_namespace", Text, nullable=False),
    Column("lane", Text, nullable=False, comment="Of the tenant: what is in one is in order."),
    Column("wave", SmallInteger, nullable=False, comment="Within a lane lower ones first; deletions in reverse."),
    Column("desired", Text, nullable=False),
    Column("manifest", Text, nullable=False, comment="The full object, canonical JSON."),
    Column("digest", Text, nullable=False, comment="SHA-256 of the manifest, hexadecimal."),
    Column("trace_id", Text, nullable=False),
    Column("seen_at", TIME, nullable=False),
    Column("updated_at", TIME, nullable=False),
    Column("owner_kind", Text, nullable=False, server_default="", comment="Whom it is for: kind. Not streamed."),
    Column("owner_id", Uuid, nullable=False, server_default=_NOBODY, comment="Whom it is for: id. Not streamed."),
    Column(
        "engine_cluster",
        Text,
        primary_key=True,
        comment="Its instance's: the topic that it is streamed to. Of the key, so that the log tells it of a deletion.",
    ),
    CheckConstraint("desired IN ('present', 'absent')", name="desired"),
    ForeignKeyConstraint(
        ["engine_instance_id", "engine_cluster"], ["engine_instances.id", "engine_instances.engine_cluster"]
    ),
    Index("engine_resources_shared_idx", "lane", postgresql_where=text("owner_kind <> 'GitOpsDeployment'")),
    Index(
        "engine_resources_deployments_idx",
        "engine_instance_id",
        postgresql_where=text("owner_kind = 'GitOpsDeployment' AND desired = 'present'"),
    ),
    comment="Streamed: the objects that engine instances shall hold, or shall no longer hold.",
    postgresql_with=ROOM_FOR_UPDATES,
)

workspace_statuses = Table(
    "workspace_statuses",
    METADATA,
    Column("workspace", Text, primary_key=True),
    Column("namespace", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("uid", Text, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("status", Text, nullable=False, comment="The CR's whole status, canonical JSON."),
    Column("release_finalizer", Boolean, nullable=False, comment="Nothing is left that the CR has to wait for."),
    Column("digest", Text, nullable=False, comment="SHA-256 of the status, hexadecimal."),
    Column("trace_id", Text, nullable=False),
    Column("seen_at", TIME, nullable=False),
    Column("updated_at", TIME, nullable=False),
    comment="Streamed by its partitions: the status that CRs shall show.",
    postgresql_partition_by="LIST (workspace)",
)

workspace_objects = Table(
    "workspace_objects",
    METADATA,
    Column("workspace", Text, primary_key=True),
    Column("namespace", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("desired", Text, nullable=False),
    Column("uid", Text, nullable=False, comment="Of the object that is to go; empty: whatever has the name and owner."),
    Column("owner_api_version", Text, nullable=False, comment="Of the CR that it is made for: its controller."),
    Column("owner_kind", Text, nullable=False, comment="Likewise."),
    Column("owner_name", Text, nullable=False, comment="Likewise."),
    Column("owner_uid", Text, nullable=False, comment="Likewise."),
    Column("manifest", Text, nullable=False, comment="What we own of the object, canonical JSON."),
    Column("digest", Text, nullable=False, comment="SHA-256 of the manifest, hexadecimal."),
    Column("revision", BigInteger, nullable=False, comment="Grows: the same manifest is applied anew."),
    Column("trace_id", Text, nullable=False),
    Column("seen_at", TIME, nullable=False),
    Column("updated_at", TIME, nullable=False),
    Column("live_version", Text, nullable=False, comment="Of the object when this was written. Not streamed."),
    CheckConstraint("desired IN ('present', 'absent')", name="desired"),
    comment="Streamed by its partitions: objects that tenants' own namespaces shall hold, or shall no longer hold.",
    postgresql_partition_by="LIST (workspace)",
)

pending_claims = Table(
    "pending_claims",
    METADATA,
    Column("workspace", Text, primary_key=True),
    Column("namespace", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("uid", Text, primary_key=True),
    Column("class_name", Text, nullable=False),
    Column("provisioner", Text, nullable=False, comment="As the class names it."),
    Column("parameters", Text, nullable=False, comment="Of the class, canonical JSON."),
    Column("generation", BigInteger, nullable=False, comment="Of the claim."),
    Column("state", Text, nullable=False),
    Column("created_at", TIME, nullable=False, comment="Of the claim."),
    CheckConstraint("state IN ('wanted', 'withdrawn')", name="state"),
    comment="Streamed: DeploymentTargetClaims for which services of others shall make targets, or shall no longer.",
)

tenant_clusters = Table(
    "tenant_clusters",
    METADATA,
    Column("tenant_id", Uuid, ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True),
    Column("namespace_digest", Text, nullable=False, comment="SHA-256 of workspace/namespace/uid, hexadecimal."),
    Column("engine_clusters", Text, nullable=False, comment="Comma separated; two while it is moved between them."),
    comment="Streamed: the engine clusters of each tenant, whose agents have to open its Secrets.",
)
