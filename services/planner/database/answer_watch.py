"""Ends a wait for a database that cannot be reached any more: its answer would never come, and nothing say so.

TCP tells of a peer that is gone only if nothing between answers in its place. So while a statement waits for its
answer, another connection is tried now and then; if that fails, the first is shut down and the statement with it.
A statement that takes long on a database that answers goes on.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import Connection

LOOK_SECONDS = 0.5
SILENT_SECONDS = 1.0
"""How long a statement waits before another connection is tried."""


class AnswerWatch:
    """Watches one connection at a time, on a thread of its own."""

    def __init__(self, answers: Callable[[], bool]) -> None:
        """``answers``: whether a new connection is to be had; returns within seconds."""
        self._answers = answers
        self._waiting: tuple[Connection[Any], float] | None = None
        self._lock, self._closing = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._watch, name="database-answers", daemon=True)
        self._thread.start()

    @contextmanager
    def watching(self, connection: Connection[Any]) -> Iterator[None]:
        """While statements are sent on ``connection``."""
        self._waiting = connection, time.monotonic()
        try:
            yield
        finally:
            with self._lock:
                self._waiting = None

    def close(self) -> None:
        """Watch no more."""
        self._closing.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._closing.wait(LOOK_SECONDS):
            waiting = self._waiting
            if waiting is None or time.monotonic() - waiting[1] < SILENT_SECONDS or self._answers():
                continue
            with self._lock:
                if self._waiting is waiting:
                    _shut_down(waiting[0])


def _shut_down(connection: Connection[Any]) -> None:
    """Whoever waits for its answer reads its end, unless the connection has come to it already."""
    with suppress(psycopg.OperationalError, OSError), socket.socket(fileno=os.dup(connection.fileno())) as stream:
        stream.shutdown(socket.SHUT_RDWR)
