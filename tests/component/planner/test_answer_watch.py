"""A statement whose database cannot be reached any more ends; one that takes long goes on."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from services.common.errors import Retry
from services.planner.database import answer_watch
from services.planner.database.connection import Unreachable
from services.planner.database.session import DatabaseSession
from services.planner.engines.available import ENGINES
from tests.component.conftest import Database

LONG = "SELECT pg_sleep(3)"


class Hop:
    """A way to the database on which, once it is cut, nothing gets through and nothing is closed."""

    def __init__(self, url: str) -> None:
        self._end = urlsplit(url)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = [self._listener]
        self._cut = threading.Event()
        self.url = urlunsplit(
            self._end._replace(
                netloc=f"{self._end.netloc.rpartition('@')[0]}@127.0.0.1:{self._listener.getsockname()[1]}"
            )
        )
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._cut.set()

    def refuse(self) -> None:
        """New connections; those that there are stay."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def close(self) -> None:
        for each in self._open:
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection((str(self._end.hostname), int(self._end.port or 5432)))
            self._open += [near, far]
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self._copy, args=(source, target), daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                if not self._cut.is_set():
                    target.sendall(data)
        except OSError:
            pass


@pytest.fixture
def hop(database: Database) -> Iterator[Hop]:
    hop = Hop(database.planner_url)
    yield hop
    hop.close()


def test_statement_when_the_database_is_cut_off_then_it_ends_and_the_next_says_that_it_is_out_of_reach(
    hop: Hop,
) -> None:
    session = DatabaseSession(hop.url, ENGINES)
    session.refresh_fleet()
    hop.cut()
    with pytest.raises(Retry):
        session.refresh_fleet()
    with pytest.raises(Unreachable):
        session.refresh_fleet()
    assert not session.is_reachable()
    session.close()


def test_database_when_it_is_back_within_a_moment_then_it_was_never_out_of_reach(hop: Hop) -> None:
    session = DatabaseSession(hop.url, ENGINES)
    hop.refuse()
    with pytest.raises(Retry) as refused:
        session.refresh_fleet()
    assert not isinstance(refused.value, Unreachable)
    session.close()


def test_statement_when_other_connections_are_refused_meanwhile_then_it_goes_on(
    hop: Hop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_watch, "SILENT_SECONDS", 0.1)
    session = DatabaseSession(hop.url, ENGINES)
    with session.connection() as connection:
        hop.refuse()
        connection.execute(LONG)
    session.close()


def test_statement_when_it_takes_long_then_it_goes_on(hop: Hop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_watch, "SILENT_SECONDS", 0.1)
    session = DatabaseSession(hop.url, ENGINES)
    with session.connection() as connection:
        connection.execute(LONG)
    session.close()


def test_transaction_when_its_planner_stands_still_then_another_gets_its_rows_within_seconds(
    database: Database,
) -> None:
    stopped, successor = (DatabaseSession(database.planner_url, ENGINES) for _ in range(2))
    with stopped.connection() as held:
        held.execute("BEGIN")
        held.execute("LOCK TABLE consumer_offsets")
        successor.claim_partitions([])
        with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout):
            held.execute("SELECT 1")
    stopped.close()
    successor.close()
