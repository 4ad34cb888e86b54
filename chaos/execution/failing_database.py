"""Stands in front of PostgreSQL and lets a share of the queries fail, in each way in which they do.

A query fails with an error of the server's own; or its connection ends before it is carried out, or after it. Then only
the answer is lost, and the client cannot know whether a COMMIT took place.

Source: https://www.postgresql.org/docs/current/protocol-message-formats.html
"""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random

HOST = "127.0.0.1"
ERRORS = {
    "40001": "serialization_failure",
    "40P01": "deadlock_detected",
    "53100": "disk_full",
    "53300": "too_many_connections",
    "57014": "query_canceled",
    "25006": "read_only_sql_transaction",
    "XX000": "internal_error",
}
"""SQLSTATE and its condition's name."""
CLOSED, ANSWER_LOST = "closed", "answer lost"
ENCRYPTION_REQUESTS = {80877103, 80877104}
"""TLS and GSSAPI: asked before anything else, answered with one byte."""
CANCEL_REQUEST = 80877102
QUERY, SYNC = b"Q", b"S"
"""Messages that end a query: of the simple and of the extended protocol."""
PARTS_OF_QUERIES = frozenset({b"P", b"B", b"D", b"E", b"C"})
"""Parse, Bind, Describe, Execute, Close: sent together with the Sync that follows."""
READY_FOR_QUERY = b"Z\x00\x00\x00\x05"
"""What an answer ends with, and a byte that tells the transaction's status."""
CHUNK = 64 * 1024


class FailingDatabase:
    """A proxy of one PostgreSQL server that understands where queries begin and end."""

    def __init__(self, port: int, share: float, seed: int) -> None:
        self._port, self._share = port, share
        self._random = Random(seed)  # noqa: S311 - to be repeated, not to be secret
        self.failed = 0

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[int]:
        """For as long as the block runs; yields the port. Connections end with it."""
        handlers: set[asyncio.Task[None]] = set()

        def accept(reader: StreamReader, writer: StreamWriter) -> None:
            task = asyncio.ensure_future(self._serve(reader, writer))
            handlers.add(task)
            task.add_done_callback(handlers.discard)

        server = await asyncio.start_server(accept, HOST, 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            for task in handlers:
                task.cancel()
            await asyncio.gather(*handlers, return_exceptions=True)

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        connection: _Connection | None = None
        try:
            connection = _Connection(reader, writer, *await asyncio.open_connection(HOST, self._port))
            if await connection.start():
                await connection.relay(self._way_to_fail)
        except (OSError, EOFError):  # either side has gone
            pass
        finally:
            for each in (writer, connection.server_writer if connection else writer):
                each.transport.abort()

    def _way_to_fail(self) -> str:
        """CLOSED, ANSWER_LOST, a SQLSTATE; empty for a query that does not fail."""
        if self._random.random() >= self._share:
            return ""
        self.failed += 1
        return self._random.choice([*ERRORS, CLOSED, ANSWER_LOST])


class _Connection:
    """One client's, with the one to the server that belongs to it."""

    def __init__(
        self, client: StreamReader, client_writer: StreamWriter, server: StreamReader, server_writer: StreamWriter
    ) -> None:
        self._client, self._client_writer = client, client_writer
        self._server, self.server_writer = server, server_writer
        self._loses_answer = False

    async def start(self) -> bool:
        """Relay what comes before the first query. Returns False if the client only wants to cancel one elsewhere."""
        while True:
            length = await self._client.readexactly(4)
            body = await self._client.readexactly(int.from_bytes(length) - 4)
            self.server_writer.write(length + body)
            code = int.from_bytes(body[:4])
            if code not in ENCRYPTION_REQUESTS:
                return code != CANCEL_REQUEST
            self._client_writer.write(await self._server.readexactly(1))

    async def relay(self, way_to_fail: Callable[[], str]) -> None:
        """Both ways, until one side ends."""
        ways = [asyncio.ensure_future(self._relay_queries(way_to_fail)), asyncio.ensure_future(self._relay_answers())]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _relay_queries(self, way_to_fail: Callable[[], str]) -> None:
        parts = b""
        while True:
            kind = await self._client.readexactly(1)
            length = await self._client.readexactly(4)
            parts += kind + length + await self._client.readexactly(int.from_bytes(length) - 4)
            if kind in PARTS_OF_QUERIES:
                continue
            how = way_to_fail() if kind in {QUERY, SYNC} else ""
            if how == CLOSED:
                return
            self._loses_answer = how == ANSWER_LOST
            self.server_writer.write(_failing_query(how) if how in ERRORS else parts)
            await self.server_writer.drain()
            parts = b""

    async def _relay_answers(self) -> None:
        while chunk := await self._server.read(CHUNK):
            if self._loses_answer:
                if chunk[-len(READY_FOR_QUERY) - 1 : -1] == READY_FOR_QUERY:
                    return
                continue
            self._client_writer.write(chunk)
            await self._client_writer.drain()


def _failing_query(state: str) -> bytes:
    """One in place of the client's. The server itself refuses it, so it knows, too, that the transaction has failed."""
    text = f"DO $$ BEGIN RAISE EXCEPTION 'made to fail: {ERRORS[state]}' USING ERRCODE = '{state}'; END $$"
    body = text.encode() + b"\0"
    return QUERY + (len(body) + 4).to_bytes(4) + body
