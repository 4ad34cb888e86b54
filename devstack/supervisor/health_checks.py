"""Whether a process can serve, asked in its own protocol."""

from __future__ import annotations

import asyncio
import ssl
import struct
from pathlib import Path

from devstack.supervisor.process import Probe

HOST = "127.0.0.1"
ANSWER_SECONDS = 2.0
OK = 200

KAFKA_API_VERSIONS = 18
POSTGRES_PROTOCOL = 196608  # 3.0


def http(port: int, path: str, authority: Path | None = None) -> Probe:
    """Whether GET ``path`` answers 200; over TLS when the certificate ``authority`` is given."""
    request = f"GET {path} HTTP/1.1\r\nHost: {HOST}:{port}\r\nConnection: close\r\n\r\n".encode()

    async def probe() -> bool:
        context = ssl.create_default_context(cafile=str(authority)) if authority else None
        answer = await _exchange(port, request, len("HTTP/1.1 200"), context)
        return answer.endswith(b" 200")

    return probe


def kafka(port: int) -> Probe:
    """Whether the broker answers an ApiVersions request: it does so once it has joined its cluster."""
    body = struct.pack(">hhih", KAFKA_API_VERSIONS, 0, 1, -1)
    request = struct.pack(">i", len(body)) + body

    async def probe() -> bool:
        answer = await _exchange(port, request, 10)
        _, correlation, error = struct.unpack(">iih", answer)
        return (correlation, error) == (1, 0)

    return probe


def postgres(port: int) -> Probe:
    """Whether the server asks for a password: while it starts up or recovers it answers with an error instead."""
    settings = b"user\0postgres\0database\0postgres\0\0"
    request = struct.pack(">ii", 8 + len(settings), POSTGRES_PROTOCOL) + settings

    async def probe() -> bool:
        return await _exchange(port, request, 1) == b"R"

    return probe


def says(port: int, request: bytes, answer: bytes) -> Probe:
    """Whether a server of lines answers ``request`` with ``answer``; some speak first, to an empty request."""

    async def probe() -> bool:
        return await _exchange(port, request, len(answer)) == answer

    return probe


async def _exchange(port: int, request: bytes, size: int, context: ssl.SSLContext | None = None) -> bytes:
    """Send ``request``, return the first ``size`` bytes of the answer."""
    async with asyncio.timeout(ANSWER_SECONDS):
        reader, writer = await asyncio.open_connection(HOST, port, ssl=context)
        try:
            writer.write(request)
            return await reader.readexactly(size)
        finally:
            writer.close()
