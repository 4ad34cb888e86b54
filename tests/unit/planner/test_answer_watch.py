"""The watch over a connection, when that ends by itself in the moment in which it is to be ended."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from services.planner.database import answer_watch
from services.planner.database.answer_watch import AnswerWatch

DEADLINE_SECONDS = 30.0


class Connection:
    """One whose socket is whatever a test says."""

    def __init__(self, fileno: Callable[[], int]) -> None:
        self.fileno = fileno


def refuses() -> int:
    raise psycopg.OperationalError("the connection is lost")


@pytest.mark.parametrize("ended", ["lost", "not-connected"])
def test_watch_when_the_connection_has_ended_already_then_it_watches_the_next_one(
    ended: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_watch, "SILENT_SECONDS", 0.0)
    monkeypatch.setattr(answer_watch, "LOOK_SECONDS", 0.001)
    asked, near, far = threading.Semaphore(0), *socket.socketpair()

    def answers() -> bool:
        asked.release()
        return False

    watch = AnswerWatch(answers)
    with socket.socket() as unconnected, near, far:
        first: Any = Connection(refuses if ended == "lost" else unconnected.fileno)
        with watch.watching(first):
            for _ in range(3):
                assert asked.acquire(timeout=DEADLINE_SECONDS)
        second: Any = Connection(near.fileno)
        near.settimeout(DEADLINE_SECONDS)
        with watch.watching(second):
            assert near.recv(1) == b""
    watch.close()
