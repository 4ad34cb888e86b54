"""The database, as SQLAlchemy Core tables: what the migrations must have made of it.

Only the planner writes here. ``engine_instances``, ``engine_resources``, ``workspace_statuses``, ``workspace_objects``,
``pending_claims`` and ``tenant_clusters`` are streamed to other services, ``engine_clusters``, ``engine_pools``,
``workspace_assignments`` and ``tenant_pins`` to whoever rebuilds the database, so their columns are an interface; all
others are the planner's own. A test holds this module and the migrations together. ``columns.py`` makes the planner's
writes from it, one statement per table, its rows as one JSON text; a component test has PostgreSQL prepare every one.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)

metadata = MetaData(
    naming_convention={
        "pk": "%(table_name)s_pkey",
        "fk": "%(table_name)s_%(column_0_name)s_fkey",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "ck": "%(table_name)s_%(constraint_name)s_check",
        "ix": "%(table_name)s_%(column_0_N_name)s_idx",
    }
)

_NOW = text("now()")
_FALSE = text("false")
_TIME = DateTime(timezone=True)
_NOBODY = text("'00000000-0000-0000-0000-000000000000'")
_UNDER_WAY = "step NOT IN ('done', 'cancelled')"
# Rows that are updated often leave room on their page: the new version stays there and no index is touched.
_ROOM_FOR_UPDATES = {"fillfactor": "80"}


engine_clusters = Table(
    "engine_clusters",
    metadata,
    Column("id", Text, primary_key=True),
    Column("region", Text, nullable=False, comment="Empty: the installation has no regions."),
    Column("created_at", _TIME, nullable=False),
    Column("state", Text, nullable=False),
    Column(
        "ordered_at",
        _TIME,
        nullable=False,
        comment="When the newest order that changed it was given: an older one changes nothing.",
    ),
    UniqueConstraint("id", "region"),
    CheckConstraint("state IN ('active', 'draining', 'retired')", name="state"),
    comment="Streamed: clusters that engine instances run in. A retired one stays: its id is never given out again.",
)

engine_instances = Table(
    "engine_instances",
    metadata,
    Column("id", Text, primary_key=True),
    Column("namespace", Text, nullable=False, comment="Where the objects of this instance are."),
    Column("state", Text, nullable=False),
    Column("created_at", _TIME, nullable=False),
    Column("engine", Text, nullable=False, comment="What it runs."),
    Column("engine_cluster", Text, nullable=False, comment="Which it runs in."),
    Column("region", Text, nullable=False, comment="Its cluster's."),
    Column("engine_class", Text, nullable=False, comment="Whether tenants of one workspace have it to themselves."),
    Column("dedicated_to", Text, nullable=False, comment="That workspace; empty if it is shared."),
    Column("ring", Text, nullable=False, comment="When it gets a new version."),
    Column("capacity", Integer, nullable=False, comment="Applications."),
    Column(
        "ordered_at",
        _TIME,
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
    Column("due_at", _TIME, comment="When it has failed, if it is still being provisioned then."),
    Column("state_message", Text, comment="Why it is in its state. Null: that needs no words."),
    Column("reapply_ordered_at", _TIME, comment="When its provisioner was last told to make anew what is older."),
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
    metadata,
    Column("workspace", Text, primary_key=True),
    Column("region", Text, nullable=False, comment="Of the instances that its tenants are placed on; empty: any."),
    Column("ring", Text, nullable=False, comment="Likewise."),
    Column("assigned_at", _TIME, nullable=False, comment="When the newest order that changed it was given."),
    CheckConstraint("ring IN ('', 'canary', 'early', 'general')", name="ring"),
    CheckConstraint("region <> '' OR ring <> ''", name="assigned"),
    comment="Streamed: which instances tenants of a workspace are placed on, as operators ordered it.",
)

tenant_pins = Table(
    "tenant_pins",
    metadata,
    Column("workspace", Text, primary_key=True),
    Column("namespace", Text, primary_key=True),
    Column("engine_instance_id", Text, ForeignKey("engine_instances.id"), nullable=False),
    Column("pinned_at", _TIME, nullable=False, comment="When that was ordered."),
    comment="Streamed: tenants that stay on an instance, as operators ordered it; and such that are still to come.",
)

engine_health = Table(
    "engine_health",
    metadata,
    Column("engine_instance_id", Text, primary_key=True, comment="No foreign key: as an agent told it."),
    Column("partition", Integer, nullable=False, comment="Of what is told of the instance."),
    Column("health", Text, nullable=False),
    Column("reason", Text, nullable=False, comment="A word; empty if it is well."),
    Column("message", Text, nullable=False, comment="For operators."),
    Column("version", Text, nullable=False, comment="Of what it runs; empty if that is not to be seen."),
    Column("heartbeat_at", _TIME, comment="When its heartbeat Application was compared last."),
    Column("since", _TIME, nullable=False, comment="When its health became what it is."),
    Column("reported_at", _TIME, nullable=False, comment="When its agent last told anything."),
    Column("due_at", _TIME, comment="When its health is Unknown, if nothing more is told. Null: it is."),
    Column(
        "queue",
        Integer,
        nullable=False,
        server_default="0",
        comment="Applications that waited to be compared throughout the last report.",
    ),
    Column("certificate_expires_at", _TIME, comment="The first of those that it depends on. Null: none is told of."),
    CheckConstraint("health IN ('Healthy', 'Degraded', 'Down', 'Unknown')", name="health"),
    comment="What agents tell of instances each minute; what of that is to be streamed is with the instance.",
)

remediations = Table(
    "remediations",
    metadata,
    Column("engine_instance_id", Text, ForeignKey("engine_instances.id"), primary_key=True),
    Column("state", Text, nullable=False),
    Column("number", BigInteger, nullable=False, comment="Of the newest remedy; it grows."),
    Column("rung", Text, nullable=False, comment="The newest remedy since it became ill; empty: none."),
    Column("tried", Text, nullable=False, comment="All since then, JSON."),
    Column("is_cordoned", Boolean, nullable=False, comment="No new tenant is placed on it."),
    Column("message", Text, nullable=False, comment="Why it is in this state."),
    Column("since", _TIME, nullable=False, comment="When it came into this state, or to this rung."),
    Column("due_at", _TIME, comment="When it has to be looked at again, though nothing happens."),
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

engine_installations = Table(
    "engine_installations",
    metadata,
    Column("engine_instance_id", Text, primary_key=True, comment="No foreign key: as a provisioner told it."),
    Column("partition", Integer, nullable=False, comment="Of what is told of the instance."),
    Column("phase", Text, nullable=False),
    Column("version", Text, nullable=False, comment="Of the manifests that are applied; empty: none are."),
    Column("message", Text, nullable=False, comment="For operators; empty if the phase says all."),
    Column("reported_at", _TIME, nullable=False, comment="When its provisioner last told anything."),
    CheckConstraint("phase IN ('Applying', 'Applied', 'Failed', 'Removing', 'Removed')", name="phase"),
    comment="How far provisioners are with what instances run, as they told last.",
)

engine_pools = Table(
    "engine_pools",
    metadata,
    Column("engine_cluster", Text, ForeignKey("engine_clusters.id"), primary_key=True),
    Column("ring", Text, primary_key=True),
    Column("minimum", Integer, nullable=False, comment="Instances."),
    Column("maximum", Integer, nullable=False, comment="Instances."),
    Column("spare", Integer, nullable=False, comment="Instances beyond those that the load needs."),
    Column("capacity", Integer, nullable=False, comment="Applications, of each instance that is added."),
    Column("version", Text, nullable=False, comment="Of Argo CD, likewise."),
    Column("profile", Text, nullable=False, comment="Configuration, likewise; empty: the usual one."),
    Column("ordered_at", _TIME, nullable=False, comment="When the newest order that changed it was given."),
    Column("shrinks_at", _TIME, comment="When an instance is given up, if fewer are enough until then."),
    Column("leaving", Text, comment="The instance that is being given up. Null: none is."),
    Column("message", Text, nullable=False, comment="Why it does not have what it needs; empty: it has."),
    CheckConstraint("ring IN ('canary', 'early', 'general')", name="ring"),
    CheckConstraint("0 <= minimum AND minimum <= maximum AND spare >= 0", name="instances"),
    CheckConstraint("capacity > 0", name="capacity"),
    comment="Streamed: rings of engine clusters in which the planner adds and gives up instances by itself.",
)

engine_overloads = Table(
    "engine_overloads",
    metadata,
    Column("engine_instance_id", Text, ForeignKey("engine_instances.id"), primary_key=True),
    Column("relieved_at", _TIME, nullable=False, comment="When tenants move away, if it is overloaded until then."),
    comment="Instances that carry more of their capacity than they should.",
)

fleet_orders = Table(
    "fleet_orders",
    metadata,
    Column("id", Uuid, primary_key=True, comment="The order's own."),
    Column("kind", Text, nullable=False, comment="What was ordered."),
    Column("subject", Text, nullable=False, comment="Instance or cluster."),
    Column("arguments", Text, nullable=False, comment="All of the order, JSON."),
    Column("actor", Text, nullable=False, comment="Who ordered it, as it told."),
    Column("outcome", Text, nullable=False),
    Column("message", Text, nullable=False, comment="Why; empty if that needs no words."),
    Column("ordered_at", _TIME, nullable=False),
    Column("decided_at", _TIME, nullable=False),
    CheckConstraint("outcome IN ('accepted', 'refused', 'unchanged')", name="outcome"),
    comment="Audit of the fleet: what operators ordered, and what became of it. Pruned after a time.",
)

moves = Table(
    "moves",
    metadata,
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
    Column("ordered_at", _TIME, nullable=False),
    Column("step_since", _TIME, nullable=False),
    Column("due_at", _TIME, comment="When it has to be looked at again, though nothing happens."),
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
    metadata,
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
    Column("ordered_at", _TIME, nullable=False),
    Column("step_since", _TIME, nullable=False),
    Column("moved_at", _TIME, nullable=False, comment="When moved changed last, or the step began."),
    Column("due_at", _TIME, comment="When it is looked at next. Null: it is over, or paused."),
    CheckConstraint(
        "step IN ('ordered', 'provisioning', 'moving', 'soaking', 'draining', 'retiring', 'reverting', 'done',"
        " 'failed', 'aborted')",
        name="step",
    ),
    CheckConstraint("stage IN (0, 1, 10, 100)", name="stage"),
    CheckConstraint("outcome IN ('', 'failed', 'aborted')", name="outcome"),
    comment="Versions that come to the fleet ring by ring, and how far each has come. Pruned after a time.",
)

engine_samples = Table(
    "engine_samples",
    metadata,
    Column("engine_instance_id", Text, primary_key=True, comment="No foreign key: as an agent told it."),
    Column("sampled_at", _TIME, primary_key=True),
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

tenants = Table(
    "tenants",
    metadata,
    Column("id", Uuid, primary_key=True, comment="uuid5 of workspace/namespace, and the namespace's uid if told."),
    Column("workspace", Text, nullable=False),
    Column("namespace", Text, nullable=False),
    Column("partition", Integer, nullable=False, comment="Of gitops.commands: the scope of a resync marker."),
    Column("engine_instance_id", Text, ForeignKey("engine_instances.id"), nullable=False),
    Column("dormant", Boolean, nullable=False, server_default=_FALSE, comment="It may have dormant rows."),
    Column("namespace_uid", Text, nullable=False, server_default="", comment="Empty: no watcher has told."),
    Column("namespace_created_at", BigInteger, nullable=False, server_default="0", comment="Milliseconds since 1970."),
    Column(
        "former_since",
        BigInteger,
        nullable=False,
        server_default="0",
        comment="When the namespace was made that has its name now, milliseconds since 1970; 0: none has.",
    ),
    Column("created_at", _TIME, nullable=False, server_default=_NOW),
    Index(None, "workspace", "namespace"),
    Index("tenants_current_idx", "workspace", "namespace", unique=True, postgresql_where=text("former_since = 0")),
    Index(None, "partition"),
    Index(None, "engine_instance_id"),
    comment="A tenant is a namespace of a workspace, until it is deleted. It lives on one engine instance.",
)

deployments = Table(
    "deployments",
    metadata,
    Column("id", Uuid, primary_key=True, comment="uuid5 of workspace/uid; a label of what it becomes."),
    Column("tenant_id", Uuid, ForeignKey("tenants.id"), nullable=False),
    Column("source", Text, nullable=False, comment="The watched cluster it was seen in: the scope of a resync."),
    Column("name", Text, nullable=False),
    Column("uid", Text, nullable=False),
    Column("resource_version", Text, nullable=False, comment="Newest seen; an older event changes nothing."),
    Column("generation", BigInteger, nullable=False),
    Column("epoch", BigInteger, nullable=False, comment="Newest resync during which it was seen."),
    Column("present", Boolean, nullable=False, comment="The CR exists."),
    Column("deleting", Boolean, nullable=False, comment="The CR has a deletion timestamp."),
    Column("finalizer", Boolean, nullable=False, comment="The CR waits for us with its finalizer."),
    Column("spec", Text, comment="The spec that its manifest was compiled from; null: there is none."),
    Column("pending_spec", Text, comment="A newer, well-formed spec that waits for its environment or for room."),
    Column("environment", Text, comment="Environment that the newest of the two specs names."),
    Column("repository", Text, comment="Normalised repository of that spec, for what confines the tenant."),
    Column("digest", Text, comment="Of its manifest as compiled last."),
    Column("error", Text, nullable=False, comment="What is wrong with the newest spec; empty: nothing."),
    Column("pending_reason", Text, nullable=False, server_default="", comment="Why a well-formed spec cannot be had."),
    Column("over_quota", Boolean, nullable=False, server_default=_FALSE, comment="Waits for room in its tenant."),
    Column("held_back_ms", BigInteger, nullable=False, server_default="0", comment="By the watcher: newest change."),
    Column("sync_sequence", BigInteger, nullable=False, server_default="0", comment="Of the newest sync started."),
    Column("environment_id", Uuid, comment="Environment that the spec goes to, whoever bears its name by now."),
    Column(
        "engine_instance_id",
        Text,
        nullable=False,
        server_default="",
        comment="That it is on, if that is not its tenant's. Empty: its tenant's.",
    ),
    Column("metadata", Text, nullable=False, server_default="", comment="What its kind declares of it. JSON or empty."),
    Column("due_at", _TIME, comment="When it has to be looked at again, though nothing happens."),
    Column("dormant", Boolean, nullable=False, server_default=_FALSE, comment="Not loaded with its tenant."),
    Column("seen_at", _TIME, nullable=False, comment="When the watcher saw the newest change of the CR."),
    Column("trace_id", Text, nullable=False, comment="traceparent of that change."),
    Column("created_at", _TIME, nullable=False, server_default=_NOW),
    Index(None, "tenant_id", "name"),
    Index("deployments_due_idx", "due_at", postgresql_where=text("due_at IS NOT NULL")),
    Index("deployments_parts_idx", "engine_instance_id", postgresql_where=text("engine_instance_id <> ''")),
    Index("deployments_over_quota_idx", "tenant_id", "seen_at", "id", postgresql_where=text("over_quota")),
    comment="One row per incarnation of a GitOpsDeployment, until both it and what it became are gone.",
    postgresql_with=_ROOM_FOR_UPDATES,
)

observed_states = Table(
    "observed_states",
    metadata,
    Column("deployment_id", Uuid, ForeignKey("deployments.id", ondelete="CASCADE"), primary_key=True),
    Column("status", Text, nullable=False, comment="The parts of the engine's status that a CR's status shows."),
    Column("resource_version", Text, nullable=False, comment="Of the engine's object when it had that status."),
    Column("observed_at", _TIME, nullable=False),
    Column("applied_digest", Text, nullable=False, comment="Manifest the engine was last seen to hold; or empty."),
    Column("failed_digest", Text, nullable=False, comment="Manifest the engine last refused; or empty."),
    Column("failure", Text, nullable=False, comment="Why."),
    Column("failure_for_user", Boolean, nullable=False, server_default=_FALSE, comment="Users are told; or operators."),
    Column("status_generation", BigInteger, nullable=False, comment="Newest generation whose status went out."),
    comment="What agents reported about what a deployment became.",
    postgresql_with=_ROOM_FOR_UPDATES,
)

forced_deletions = Table(
    "forced_deletions",
    metadata,
    Column("id", Uuid, primary_key=True, comment="The deployment's; no foreign key: it is gone."),
    Column("tenant_id", Uuid, ForeignKey("tenants.id", ondelete="CASCADE"), nullable=False),
    Column("name", Text, nullable=False, comment="The deployment's."),
    Column("environment", Text, nullable=False, comment="Where it deployed to; empty: its tenant's own namespace."),
    Column("resources", Text, nullable=False, comment="Seen last, and not taken over since. JSON."),
    Column("total", Integer, nullable=False, comment="How many there are, with those too many to be kept."),
    Column("due_at", _TIME, nullable=False, comment="When it is forgotten."),
    Index(None, "tenant_id"),
    Index(None, "due_at"),
    comment="What deployments may have left behind that their engines did not remove in time.",
)

resources = Table(
    "resources",
    metadata,
    Column("id", Uuid, primary_key=True, comment="uuid5 of workspace/uid."),
    Column("tenant_id", Uuid, ForeignKey("tenants.id"), nullable=False),
    Column("kind", Text, nullable=False),
    Column("source", Text, nullable=False, comment="The watched cluster it was seen in: the scope of a resync."),
    Column("name", Text, nullable=False),
    Column("uid", Text, nullable=False),
    Column("resource_version", Text, nullable=False, comment="Newest seen; an older event changes nothing."),
    Column("generation", BigInteger, nullable=False),
    Column("epoch", BigInteger, nullable=False, comment="Newest resync during which it was seen."),
    Column("present", Boolean, nullable=False, comment="It exists."),
    Column("deleting", Boolean, nullable=False, comment="It has a deletion timestamp."),
    Column("finalizer", Boolean, nullable=False, comment="It waits for us with its finalizer."),
    Column("spec", Text, nullable=False, comment="As written; of a Secret its type and its sealed content."),
    Column("omitted", Text, nullable=False, comment="Why the spec was left out; empty: it is there."),
    Column("refers_to", Text, nullable=False, comment="Secret or GitOpsDeployment that it names."),
    Column("secret_type", Text, nullable=False, comment="Type of that Secret, as found at the last change."),
    Column("secret_binding", Text, nullable=False, server_default="", comment="What it may be used for, sealed."),
    Column("created_at", BigInteger, nullable=False, comment="Milliseconds since 1970."),
    Column("target_uid", Text, nullable=False, comment="Of the deployment that a sync run names, at first sight."),
    Column("target_generation", BigInteger, nullable=False, comment="Its generation then."),
    Column("accepted", Text, nullable=False, comment="Spec that counts, JSON; empty: none yet."),
    Column("refusal", Text, nullable=False, comment="What is wrong with it, JSON; empty: nothing."),
    Column("over_quota", Boolean, nullable=False, comment="Its tenant has too many of its kind."),
    Column("due_at", _TIME, comment="When it has to be looked at again, though nothing happens."),
    Column("dormant", Boolean, nullable=False, server_default=_FALSE, comment="Not loaded with its tenant."),
    Column("held_back_ms", BigInteger, nullable=False, comment="By the watcher: newest change."),
    Column("seen_at", _TIME, nullable=False, comment="When the watcher saw the newest change."),
    Column("trace_id", Text, nullable=False, comment="traceparent of that change."),
    Column("metadata", Text, nullable=False, server_default="", comment="What its kind declares of it. JSON or empty."),
    Column(
        "metadata_omitted", Text, nullable=False, server_default="", comment="Why it was left out; empty: it was not."
    ),
    Column("status", Text, nullable=False, server_default="", comment="Likewise, of what other controllers write."),
    Column("status_omitted", Text, nullable=False, server_default="", comment="Likewise."),
    Column("named_class", Text, nullable=False, server_default="", comment="That it names, JSON. Empty: none."),
    Column("progress", Text, nullable=False, server_default="", comment="How far it has come. JSON of its kind's."),
    Column("secret_version", Text, nullable=False, server_default="", comment="Of the Secret that it names, if told."),
    Index(None, "tenant_id", "kind", "name"),
    # Tenants are read without their dormant rows, of which there may be many, and these are counted.
    Index("resources_awake_idx", "tenant_id", postgresql_where=text("NOT dormant")),
    Index(
        "resources_admitted_dormant_idx",
        "tenant_id",
        "kind",
        postgresql_where=text("dormant AND present AND NOT over_quota"),
    ),
    Index("resources_waiting_idx", "tenant_id", "kind", "created_at", "id", postgresql_where=text("over_quota")),
    Index("resources_due_idx", "due_at", postgresql_where=text("due_at IS NOT NULL")),
    Index("resources_gone_idx", "seen_at", postgresql_where=text("NOT present")),
    comment="One row per incarnation of any other CR, and of the Secrets they name.",
    postgresql_with=_ROOM_FOR_UPDATES,
)

checks = Table(
    "checks",
    metadata,
    Column("resource_id", Uuid, ForeignKey("resources.id", ondelete="CASCADE"), primary_key=True),
    Column("digest", Text, nullable=False, comment="Of the compiled manifest that was tried."),
    Column("reason", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column(
        "working_spec", Text, nullable=False, comment="Spec with which credentials last worked, JSON; empty: never."
    ),
    comment="What agents found when they tried a resource's credentials.",
    postgresql_with=_ROOM_FOR_UPDATES,
)

sync_runs = Table(
    "sync_runs",
    metadata,
    Column("resource_id", Uuid, ForeignKey("resources.id", ondelete="CASCADE"), primary_key=True),
    Column("deployment_name", Text, nullable=False, comment="As first seen: immutable."),
    Column("revision", Text, nullable=False, comment="As first seen; empty: what the deployment tracks."),
    Column("first_version", BigInteger, nullable=False, comment="Resource version at first sight: orders one second."),
    Column("deployment_id", Uuid, comment="Whose sync it is; no foreign key: the run outlives it."),
    Column("sequence", BigInteger, nullable=False, comment="Among the deployment's syncs; 0: not started."),
    Column("state", Text, nullable=False),
    Column("phase", Text, nullable=False, comment="The engine's."),
    Column("message", Text, nullable=False),
    Column("synced_revision", Text, nullable=False),
    Column("started_at", Text, nullable=False),
    Column("finished_at", Text, nullable=False),
    CheckConstraint("state IN ('Waiting', 'Running', 'Terminating', 'Ended', 'Refused')", name="state"),
    comment="How far a GitOpsDeploymentSyncRun has come. It runs once: what has ended never starts again.",
    postgresql_with=_ROOM_FOR_UPDATES,
)

audit_records = Table(
    "audit_records",
    metadata,
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
    Column("created_at", _TIME, nullable=False, comment="When the watcher saw the change."),
    Column("updated_at", _TIME, nullable=False),
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
    postgresql_with=_ROOM_FOR_UPDATES,
)

refused_sweeps = Table(
    "refused_sweeps",
    metadata,
    Column("source", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    Column("known", Integer, nullable=False, comment="Resources that there were."),
    Column("subjects", Text, nullable=False, comment="JSON of the ids of those that it would have removed, sorted."),
    Column("digest", Text, nullable=False, comment="Names exactly this refusal: an approval is of what was shown."),
    Column("refused_at", _TIME, nullable=False),
    comment="The newest resync of a kind and partition, if it would have removed an implausible share.",
)

sweep_parts = Table(
    "sweep_parts",
    metadata,
    Column("number", BigInteger, Identity(always=True), primary_key=True),
    Column("source", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("epoch", BigInteger, nullable=False, comment="Of the list that lacked them."),
    Column("turn", Integer, nullable=False, comment="The first part of each sweep comes before the second of any."),
    Column("subjects", Text, nullable=False, comment="JSON of the ids of those that are to be removed."),
    Column("trace_id", Text, nullable=False),
    Column("seen_at", _TIME, nullable=False, comment="When the list was complete."),
    Index(None, "partition", "turn", "number"),
    comment="What complete lists lacked and is to be removed, in parts of one transaction each.",
)

complete_lists = Table(
    "complete_lists",
    metadata,
    Column("source", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("epoch", BigInteger, nullable=False, comment="When it began: milliseconds since 1970."),
    comment="The newest complete list of a workspace, kind and partition that was consumed.",
)

kept_orphans = Table(
    "kept_orphans",
    metadata,
    Column("engine_instance_id", Text, primary_key=True, comment="No foreign key: as an agent told it."),
    Column("partition", Integer, nullable=False, comment="Of what is told of the instance."),
    Column("existing", Integer, nullable=False, comment="Objects of ours that it has."),
    Column("total", Integer, nullable=False, comment="Those that no row desires."),
    Column("objects", Text, nullable=False, comment="JSON of their names, sorted: as many as one approval takes."),
    Column("digest", Text, nullable=False, comment="Names exactly these: an approval is of what was shown."),
    Column("reported_at", _TIME, nullable=False),
    comment="Objects that agents keep though no row desires them, because they are an implausible share.",
)

parked_tenants = Table(
    "parked_tenants",
    metadata,
    Column("tenant_id", Uuid, primary_key=True, comment="No foreign key: the tenant itself may be new."),
    Column("workspace", Text, nullable=False),
    Column("namespace", Text, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("error", Text, nullable=False, comment="Type of the exception, and where it was raised."),
    Column("parked_at", _TIME, nullable=False),
    Index(None, "workspace", "namespace"),
    comment="Tenants on which a rule of ours failed. Tried again by each planner that takes up their partition.",
)

parked_events = Table(
    "parked_events",
    metadata,
    Column("number", BigInteger, Identity(always=True), primary_key=True),
    Column("tenant_id", Uuid, ForeignKey("parked_tenants.tenant_id", ondelete="CASCADE"), nullable=False),
    Column("partition", Integer, nullable=False),
    Column("trace_id", Text, nullable=False),
    Column("message", Text, nullable=False, comment="JSON."),
    Index(None, "tenant_id"),
    comment="What has happened to parked tenants since, in its order.",
)

consumer_offsets = Table(
    "consumer_offsets",
    metadata,
    Column("topic", Text, primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("next_offset", BigInteger, nullable=False, comment="The first message whose effect is not in here."),
    Column("topic_id", Text, nullable=False, server_default="", comment="Of the topic that the offset is of."),
    Column("owner", Uuid, comment="The planner that took the partition up last: nobody else may write."),
    comment="Written in the transaction of the effects: what makes them happen exactly once.",
    postgresql_with={"fillfactor": "50"},
)

placements = Table(
    "placements",
    metadata,
    Column("tenant_id", Uuid, primary_key=True),
    Column("engine_instance_id", Text, ForeignKey("engine_instances.id"), nullable=False),
    comment="Where tenants are that the database does not know yet: input of a rebuild, which leaves it empty.",
)

deployment_placements = Table(
    "deployment_placements",
    metadata,
    Column("deployment_id", Uuid, primary_key=True),
    Column("engine_instance_id", Text, ForeignKey("engine_instances.id"), nullable=False),
    comment="Likewise of deployments that are on another instance than their tenant.",
)

rebuild_positions = Table(
    "rebuild_positions",
    metadata,
    Column("topic", Text, primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("first_offset", BigInteger, nullable=False, comment="Of the oldest message that there was."),
    Column("end_offset", BigInteger, nullable=False, comment="After the newest."),
    Column("began_at", _TIME, nullable=False, server_default=_NOW, comment="When the rebuild began."),
    comment="What the logs held when a rebuild began. Empty but while one is under way.",
)

engine_resources = Table(
    "engine_resources",
    metadata,
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
    Column("seen_at", _TIME, nullable=False),
    Column("updated_at", _TIME, nullable=False),
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
    postgresql_with=_ROOM_FOR_UPDATES,
)

workspace_statuses = Table(
    "workspace_statuses",
    metadata,
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
    Column("seen_at", _TIME, nullable=False),
    Column("updated_at", _TIME, nullable=False),
    comment="Streamed by its partitions: the status that CRs shall show.",
    postgresql_partition_by="LIST (workspace)",
)

workspace_objects = Table(
    "workspace_objects",
    metadata,
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
    Column("seen_at", _TIME, nullable=False),
    Column("updated_at", _TIME, nullable=False),
    Column("live_version", Text, nullable=False, comment="Of the object when this was written. Not streamed."),
    CheckConstraint("desired IN ('present', 'absent')", name="desired"),
    comment="Streamed by its partitions: objects that tenants' own namespaces shall hold, or shall no longer hold.",
    postgresql_partition_by="LIST (workspace)",
)

pending_claims = Table(
    "pending_claims",
    metadata,
    Column("workspace", Text, primary_key=True),
    Column("namespace", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("uid", Text, primary_key=True),
    Column("class_name", Text, nullable=False),
    Column("provisioner", Text, nullable=False, comment="As the class names it."),
    Column("parameters", Text, nullable=False, comment="Of the class, canonical JSON."),
    Column("generation", BigInteger, nullable=False, comment="Of the claim."),
    Column("state", Text, nullable=False),
    Column("created_at", _TIME, nullable=False, comment="Of the claim."),
    CheckConstraint("state IN ('wanted', 'withdrawn')", name="state"),
    comment="Streamed: DeploymentTargetClaims for which services of others shall make targets, or shall no longer.",
)

tenant_clusters = Table(
    "tenant_clusters",
    metadata,
    Column("tenant_id", Uuid, ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True),
    Column("namespace_digest", Text, nullable=False, comment="SHA-256 of workspace/namespace/uid, hexadecimal."),
    Column("engine_clusters", Text, nullable=False, comment="Comma separated; two while it is moved between them."),
    comment="Streamed: the engine clusters of each tenant, whose agents have to open its Secrets.",
)

debezium_signals = Table(
    "debezium_signals",
    metadata,
    Column("id", String(42), primary_key=True),
    Column("type", String(32), nullable=False),
    Column("data", String(2048)),
    comment="Orders to the connector, such as a new snapshot.",
)

debezium_heartbeat = Table(
    "debezium_heartbeat",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("beat_at", _TIME, nullable=False),
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
