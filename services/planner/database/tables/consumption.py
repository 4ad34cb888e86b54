"""How far the planner has come with its input: offsets, complete lists and their sweeps, events of parked tenants."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Identity, Index, Integer, Table, Text, Uuid

from services.planner.database.tables.metadata import METADATA, TIME

consumer_offsets = Table(
    "consumer_offsets",
    METADATA,
    Column("topic", Text, primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("next_offset", BigInteger, nullable=False, comment="The first message whose effect is not in here."),
    Column("topic_id", Text, nullable=False, server_default="", comment="Of the topic that the offset is of."),
    Column("owner", Uuid, comment="The planner that took the partition up last: nobody else may write."),
    comment="Written in the transaction of the effects: what makes them happen exactly once.",
    postgresql_with={"fillfactor": "50"},
)

complete_lists = Table(
    "complete_lists",
    METADATA,
    Column("source", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("epoch", BigInteger, nullable=False, comment="When it began: milliseconds since 1970."),
    comment="The newest complete list of a workspace, kind and partition that was consumed.",
)

sweep_parts = Table(
    "sweep_parts",
    METADATA,
    Column("number", BigInteger, Identity(always=True), primary_key=True),
    Column("source", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("epoch", BigInteger, nullable=False, comment="Of the list that lacked them."),
    Column("turn", Integer, nullable=False, comment="The first part of each sweep comes before the second of any."),
    Column("subjects", Text, nullable=False, comment="JSON of the ids of those that are to be removed."),
    Column("trace_id", Text, nullable=False),
    Column("seen_at", TIME, nullable=False, comment="When the list was complete."),
    Index(None, "partition", "turn", "number"),
    comment="What complete lists lacked and is to be removed, in parts of one transaction each.",
)

refused_sweeps = Table(
    "refused_sweeps",
    METADATA,
    Column("source", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    Column("known", Integer, nullable=False, comment="Resources that there were."),
    Column("subjects", Text, nullable=False, comment="JSON of the ids of those that it would have removed, sorted."),
    Column("digest", Text, nullable=False, comment="Names exactly this refusal: an approval is of what was shown."),
    Column("refused_at", TIME, nullable=False),
    comment="The newest resync of a kind and partition, if it would have removed an implausible share.",
)

parked_tenants = Table(
    "parked_tenants",
    METADATA,
    Column("tenant_id", Uuid, primary_key=True, comment="No foreign key: the tenant itself may be new."),
    Column("workspace", Text, nullable=False),
    Column("namespace", Text, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("error", Text, nullable=False, comment="Type of the exception, and where it was raised."),
    Column("parked_at", TIME, nullable=False),
    Index(None, "workspace", "namespace"),
    comment="Tenants on which a rule of ours failed. Tried again by each planner that takes up their partition.",
)

parked_events = Table(
    "parked_events",
    METADATA,
    Column("number", BigInteger, Identity(always=True), primary_key=True),
    Column("tenant_id", Uuid, ForeignKey("parked_tenants.tenant_id", ondelete="CASCADE"), nullable=False),
    Column("partition", Integer, nullable=False),
    Column("trace_id", Text, nullable=False),
    Column("message", Text, nullable=False, comment="JSON."),
    Index(None, "tenant_id"),
    comment="What has happened to parked tenants since, in its order.",
)
