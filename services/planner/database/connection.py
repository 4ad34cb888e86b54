"""The planner's connection to the database: opened at first use, watched while a statement waits for its answer.

Library errors are translated here, as :mod:`errors` decides: Retry (the database is away, busy, or cannot write),
Poison (it refuses these values), Permanent (it is not the database that this build is for).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.pq import TransactionStatus

from services.common.errors import GitOpsError, Retry
from services.planner.database.answer_watch import AnswerWatch
from services.planner.database.errors import decision_on, described
from services.planner.database.save import prepare

# Every statement looks up keys that it is given: arrays where it reads, a JSON text where it writes. With fresh
# statistics missing (a new database filling up) the optimizer would choose to read whole tables, and keep that plan for
# as long as the connection lives.
_DISABLED = ("seqscan", "hashjoin", "mergejoin", "material")
OPTIONS = (
    " ".join(f"-c enable_{node}=off" for node in _DISABLED)
    + " -c jit=off -c plan_cache_mode=force_generic_plan -c statement_timeout=30s"
    # A planner that was stopped in the middle of a transaction would hold its rows for as long as it lives.
    " -c idle_in_transaction_session_timeout=5s"
)

SILENT_SECONDS = 2
"""How long no connection is to be had until another planner may do better: a restart of PostgreSQL is nothing."""


class Unreachable(Retry):
    """No connection to the database has been to be had for :data:`SILENT_SECONDS`: another planner may have one."""


class DatabaseConnection:
    """See the module. Not for more than one thread."""

    def __init__(self, url: str, forget: Callable[[], None]) -> None:
        """Connects at first use, and again after the connection was lost.

        Args:
            url: of the database.
            forget: forgets what was read; called whenever a transaction is undone.
        """
        self.url, self._forget = url, forget
        self._connection: Connection[Any] | None = None
        self._silent_since = float("inf")
        """When the first of the attempts to connect began that all have failed, on the monotonic clock."""
        self._watch = AnswerWatch(self._answers)

    @contextmanager
    def connection(self) -> Iterator[Connection[Any]]:
        """The connection, open and watched; whatever fails on it, nothing of its transaction stays.

        Raises Retry (Unreachable among them), Poison or Permanent in place of what psycopg raises.
        """
        try:
            connection = self._connected()
            with self._watch.watching(connection):
                yield connection
        except psycopg.Error as error:
            raise self._failure(error) from error
        except BaseException:
            self.abandon_transaction()
            raise

    def abandon_transaction(self) -> None:
        """Leave nothing of an open transaction, nor of what was read in it."""
        self._forget()
        self.end_transaction()

    def end_transaction(self) -> None:
        """End an open transaction, and its connection with it: statements are prepared anew."""
        if self._connection is not None and self._connection.info.transaction_status != TransactionStatus.IDLE:
            self.disconnect()

    def disconnect(self) -> None:
        """Close the connection; the next use opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def close(self) -> None:
        """Close the connection, and watch no more."""
        self.disconnect()
        self._watch.close()

    def is_reachable(self) -> bool:
        """Whether a connection is to be had."""
        try:
            self.open_connection().close()
        except psycopg.OperationalError:
            return False
        return True

    def open_connection(self) -> Connection[Any]:
        """Open a new one, ready for statements."""
        return connect(self.url)

    def _failure(self, error: psycopg.Error) -> GitOpsError:
        """What ``error`` is to the loop; nothing of the transaction stays."""
        decision = decision_on(error)
        self.abandon_transaction()
        if decision is Retry:
            self.disconnect()
        return decision(f"database: {described(error)}")

    def _connected(self) -> Connection[Any]:
        if self._connection is None or self._connection.closed:
            asked_at = time.monotonic()
            try:
                self._connection = self.open_connection()
            except psycopg.OperationalError as error:
                self._silent_since = min(self._silent_since, asked_at)
                if time.monotonic() - self._silent_since < SILENT_SECONDS:
                    raise
                raise Unreachable(f"database: {error}") from error
            self._silent_since = float("inf")
            prepare(self._connection)
        return self._connection

    def _answers(self) -> bool:
        """Whether the database answers another connection at all. Called on the watch's thread.

        One that refuses it can be reached, and would have ended ours if it wanted to.
        """
        try:
            connect(self.url).close()
        except psycopg.OperationalError as error:
            return not isinstance(error, psycopg.errors.ConnectionTimeout)
        return True


def connect(url: str) -> Connection[Any]:
    """A connection as the planner wants it; a dead peer is noticed within seconds."""
    return psycopg.connect(
        url,
        options=OPTIONS,
        application_name="planner",
        connect_timeout=SILENT_SECONDS,
        keepalives_idle=5,
        keepalives_interval=2,
        keepalives_count=3,
        tcp_user_timeout=10_000,
        autocommit=True,
    )
