"""Asks the connector for rows of a streamed table once more, beside what changes."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

from services.cli.database_connection import connected

SIGNAL = "INSERT INTO debezium_signals VALUES (%s, 'execute-snapshot', %s)"
FORGET_SIGNAL = "DELETE FROM debezium_signals WHERE id = %s"
"""In the transaction of the signal: Connect reads that from the write-ahead log, and the table stays empty."""


def quoted(table: str) -> str:
    """A table as a signal names it.

    Debezium takes a name for a regular expression on names without quotes, and if none matches for a name. Without
    quotes the dots of a workspace would part it, and stand for any character.
    """
    return f'"public"."{table}"'


def send_signal(url: str, request: Mapping[str, Any]) -> None:
    """``request`` is carried out once the connector reads it. Raises Retry, InvalidConfiguration."""
    with connected(url) as connection:
        signal = str(uuid.uuid4())
        connection.execute(SIGNAL, (signal, json.dumps(request)))
        connection.execute(FORGET_SIGNAL, (signal,))
