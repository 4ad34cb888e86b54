"""The database as the service sees it: load, save, and what the log's positions are.

One connection, one transaction per batch: opened by the first read, closed by the commit in :meth:`Store.save`.
Library errors are translated here: Retry (the database is away or busy), Poison (it refuses these values).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, LiteralString

import psycopg
from psycopg import Connection

from services.common.errors import Poison, Retry
from services.planner.events import Due, Event
from services.planner.kinds.limits import Limits
from services.planner.load import load
from services.planner.offsets import Span, TopicPartition
from services.planner.persist import persist
from services.planner.rows import Changes, State

# Every statement looks up keys given as arrays. With fresh statistics missing (a new database filling up) the
# optimizer would choose to read whole tables, and keep that plan for as long as the connection lives.
_DISABLED = ("seqscan", "hashjoin", "mergejoin", "material")
OPTIONS = " ".join(f"-c enable_{node}=off" for node in _DISABLED) + " -c jit=off -c statement_timeout=30s"

ENSURE_POSITIONS = """
INSERT INTO consumer_offsets (topic, partition, next_offset)
SELECT *, 0 FROM unnest(%s::text[], %s::int4[]) ON CONFLICT DO NOTHING
"""
POSITIONS = """
SELECT topic, partition, next_offset
  FROM consumer_offsets JOIN unnest(%s::text[], %s::int4[]) AS asked(topic, partition) USING (topic, partition)
"""
OVERDUE = """
SELECT t.workspace, t.namespace, d.id, t.partition, d.trace_id
  FROM deployments d JOIN tenants t ON t.id = d.tenant_id
 WHERE d.present AND d.deleting AND d.spec IS NOT NULL AND d.seen_at < %(since)s AND t.partition = ANY(%(partitions)s)
   AND NOT EXISTS (SELECT FROM workspace_resources w
                    WHERE (w.workspace, w.namespace, w.name, w.uid) = (t.workspace, t.namespace, d.name, d.uid)
                      AND w.status LIKE '%%"type":"Deleting"%%')
 ORDER BY d.seen_at
 LIMIT %(limit)s
"""
WITH_ROOM = """
WITH crowded AS (
    SELECT DISTINCT d.tenant_id FROM deployments d JOIN tenants t ON t.id = d.tenant_id
     WHERE d.over_quota AND t.partition = ANY(%(partitions)s)
), roomy AS (
    SELECT c.tenant_id, %(deployments)s - held.count AS room
      FROM crowded c
     CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE d.repository IS NOT NULL) AS count,
                                sum(coalesce(octet_length(d.spec), 0) + coalesce(octet_length(d.offered), 0)) AS bytes
                           FROM deployments d WHERE d.tenant_id = c.tenant_id) AS held
     WHERE held.count < %(deployments)s AND held.bytes < %(bytes)s
)
SELECT t.workspace, t.namespace, first.id, t.partition, first.trace_id
  FROM roomy
  JOIN tenants t ON t.id = roomy.tenant_id
 CROSS JOIN LATERAL (SELECT d.id, d.trace_id FROM deployments d
                      WHERE d.tenant_id = roomy.tenant_id AND d.over_quota
                      ORDER BY d.seen_at, d.id
                      LIMIT roomy.room) AS first
 LIMIT %(limit)s
"""
HELD_BACK = """
SELECT t.workspace, t.namespace, throttled.id, t.partition, throttled.trace_id
  FROM (SELECT id, tenant_id, trace_id FROM deployments WHERE held_back_ms >= 1000 AND seen_at < %(since)s
         UNION ALL
        SELECT id, tenant_id, trace_id FROM resources WHERE held_back_ms >= 1000 AND seen_at < %(since)s AND present
       ) AS throttled
  JOIN tenants t ON t.id = throttled.tenant_id
 WHERE t.partition = ANY(%(partitions)s)
 LIMIT %(limit)s
"""
FORGET_RUNS = """
DELETE FROM resources
 WHERE id = ANY(ARRAY(SELECT r.id FROM resources r JOIN sync_runs s ON s.resource_id = r.id
                       WHERE NOT r.present AND r.seen_at < %s AND s.state IN ('Ended', 'Refused')
                       LIMIT %s FOR UPDATE OF r SKIP LOCKED))
"""
PRUNE = """
DELETE FROM operations
 WHERE id = ANY(ARRAY(SELECT id FROM operations
                       WHERE created_at < %s
                       LIMIT %s FOR UPDATE SKIP LOCKED))
"""
COUNT = """
SELECT count(*) FROM deployments d JOIN tenants t ON t.id = d.tenant_id WHERE d.present AND t.partition = ANY(%s)
"""


TOO_MUCH = (
    psycopg.errors.ProgramLimitExceeded,
    psycopg.errors.StatementTooComplex,
    psycopg.errors.TooManyColumns,
    psycopg.errors.TooManyArguments,
)
"""Limits of the database (SQLSTATE class 54). psycopg files them under operational errors, but no waiting helps."""


class Store:
    """See the module. Not for more than one thread."""

    def __init__(self, url: str) -> None:
        """Connects at first use, and again after the connection was lost."""
        self._url = url
        self._connection: Connection[Any] | None = None

    def load(self, events: Sequence[Event]) -> State:
        """The rows that ``events`` are about. Begins the batch's transaction."""
        with self._translated() as connection:
            return load(connection, events)

    def save(self, changes: Changes, spans: Sequence[Span]) -> None:
        """Write ``changes`` and the offsets, and commit both. Raises Fenced if another planner has taken over."""
        with self._translated() as connection:
            persist(connection, changes, spans)
            connection.commit()

    def positions(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each partition whose effect is not in the database; 0 if nothing is known."""
        columns = [[topic for topic, _ in partitions], [partition for _, partition in partitions]]
        with self._translated() as connection:
            connection.execute(ENSURE_POSITIONS, columns)
            rows = connection.execute(POSITIONS, columns).fetchall()
            connection.commit()
        return {(topic, partition): offset for topic, partition, offset in rows}

    def overdue(self, since: datetime, now: datetime, partitions: Sequence[int], limit: int) -> list[Event]:
        """Deletions that were asked for before ``since`` and that CRs still wait for."""
        return self._due(OVERDUE, {"since": since, "partitions": list(partitions), "limit": limit}, now)

    def with_room(self, limits: Limits, now: datetime, partitions: Sequence[int], limit: int) -> list[Event]:
        """Deployments beyond their tenant's allowance that there is room for by now."""
        values = {"deployments": limits.deployments, "bytes": limits.bytes, "partitions": list(partitions)}
        return self._due(WITH_ROOM, values | {"limit": limit}, now)

    def held_back(self, since: datetime, now: datetime, partitions: Sequence[int], limit: int) -> list[Event]:
        """CRs whose newest change was held back, but before ``since``."""
        return self._due(HELD_BACK, {"since": since, "partitions": list(partitions), "limit": limit}, now)

    def forget_runs(self, before: datetime, limit: int) -> int:
        """Delete up to ``limit`` ended runs whose CR went before ``before``; returns how many."""
        with self._translated() as connection:
            deleted = connection.execute(FORGET_RUNS, (before, limit)).rowcount
            connection.commit()
        return deleted

    def prune_operations(self, before: datetime, limit: int) -> int:
        """Delete up to ``limit`` audit rows made before ``before``; returns how many."""
        with self._translated() as connection:
            deleted = connection.execute(PRUNE, (before, limit)).rowcount
            connection.commit()
        return deleted

    def count_deployments(self, partitions: Sequence[int]) -> int:
        """CRs that exist in these partitions."""
        with self._translated() as connection:
            row = connection.execute(COUNT, (list(partitions),)).fetchone()
            connection.commit()
        return int(row[0]) if row else 0

    def _due(self, query: LiteralString, values: Mapping[str, Any], now: datetime) -> list[Event]:
        with self._translated() as connection:
            rows = connection.execute(query, values).fetchall()
            connection.commit()
        return [Event(Due(row[0], row[1], row[2], now), row[3], row[4]) for row in rows]

    def abandon(self) -> None:
        """End the transaction of a batch that cannot be done now, so that nothing waits for it."""
        self._undo()

    def close(self) -> None:
        """Close the connection; what is not committed never happened."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @contextmanager
    def _translated(self) -> Iterator[Connection[Any]]:
        """The connection; whatever fails on it, nothing of the transaction stays."""
        try:
            yield self._connected()
        except (psycopg.DataError, psycopg.IntegrityError, *TOO_MUCH) as error:
            self._undo()
            raise Poison(f"the database refuses it: {error.diag.message_primary or error}") from error
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            self.close()
            raise Retry(f"database: {error}") from error
        except BaseException:
            self._undo()
            raise

    def _connected(self) -> Connection[Any]:
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._url)
        return self._connection

    def _undo(self) -> None:
        try:
            if self._connection is not None:
                self._connection.rollback()
        except psycopg.Error:
            self.close()


def connect(url: str) -> Connection[Any]:
    """A connection as the planner wants it; a dead peer is noticed within seconds."""
    return psycopg.connect(
        url,
        options=OPTIONS,
        application_name="planner",
        connect_timeout=5,
        keepalives_idle=5,
        keepalives_interval=2,
        keepalives_count=3,
        tcp_user_timeout=10_000,
    )
