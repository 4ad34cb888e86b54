"""The request that has Connect send a streamed row again, whose message is a dead letter.

Only Connect writes the topics of streamed rows, so the message itself is never sent again. A signal asks Connect for an
incremental snapshot of the row: Connect sends the row as the database has it by then, in order with its changes.

:mod:`letter_judge` asks whether there is such a request for a letter; :mod:`redrive` sends it.
"""

from __future__ import annotations

import re
from typing import Any

from psycopg import sql

from services.cli.dead_letters.stored_letters import StoredLetter, row_of
from services.cli.installation.signals import quoted
from services.cli.installation.workspaces import TABLES
from services.common.avro import SchemaRegistry
from services.common.kafka import ENGINE, OBJECTS, WORKSPACE, WORKSPACE_NAME, is_engine_topic

IDENTITY = {
    ENGINE: ("engine_instance_id", "kind", "namespace", "name"),
    WORKSPACE: ("workspace", "namespace", "kind", "name"),
}
"""Columns of a streamed row's key."""
PARTITIONED = dict(zip((WORKSPACE, OBJECTS), TABLES, strict=True))
"""Tables that have a partition, and so a topic, for each workspace; by what the names of these topics begin with."""


def table_of(topic: str) -> str | None:
    """The table whose rows ``topic`` streams, as a signal names it; None if it streams none."""
    if is_engine_topic(topic):
        return quoted("engine_resources")
    for prefix, table in PARTITIONED.items():
        if topic == prefix:
            return quoted(table.default)
        workspace = topic.removeprefix(f"{prefix}.")
        if workspace != topic and re.fullmatch(WORKSPACE_NAME, workspace):
            return quoted(f"{table.prefix}{workspace}")
    return None


def condition_of(stored: StoredLetter, registry: SchemaRegistry) -> str:
    """The condition by which the database finds the row of a letter; empty if its key cannot be decoded."""
    key = row_of(stored.letter.key, registry)
    columns = IDENTITY[ENGINE if is_engine_topic(stored.letter.topic) else WORKSPACE]
    if not all(isinstance(key.get(column), str) for column in columns):
        return ""
    return " AND ".join(f"{column} = {sql.Literal(key[column]).as_string(None)}" for column in columns)


def snapshot_request(stored: StoredLetter, registry: SchemaRegistry) -> dict[str, Any]:
    """The signal by which Connect sends the row of a letter again."""
    table = table_of(stored.letter.topic)
    condition = {"data-collection": table, "filter": condition_of(stored, registry)}
    return {"type": "incremental", "data-collections": [table], "additional-conditions": [condition]}
