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
POSTGRES_TLS = struct.pack(">ii", 8, 80877103)
"""Asks to go on encrypted."""


def http(port: int, path: str, authority: Path | None = None, client: tuple[Path, Path] | None = None) -> Probe:
    """Whether GET ``path`` answers 200; over TLS when the certificate ``authority`` is given.

    ``client``: certificate and key to show then.
    """
    request = f"GET {path} HTTP/1.1\r\nHost: {HOST}:{port}\r\nConnection: close\r\n\r\n".encode()

    async def probe() -> bool:
        context = _context(authority)
        if context and client:
            context.load_cert_chain(*client)
        answer = await _exchange(port, request, len("HTTP/1.1 200"), context)
        return answer.endswith(b" 200")

    return probe


def kafka(port: int, authority: Path | None = None) -> Probe:
    """Whether the broker answers an ApiVersions request: it does so once it has joined its cluster.

    Without credentials, too; over TLS when the certificate ``authority`` is given.
    """
    body = struct.pack(">hhih", KAFKA_API_VERSIONS, 0, 1, -1)
    request = struct.pack(">i", len(body)) + body

    async def probe() -> bool:
        answer = await _exchange(port, request, 10, _context(authority))
        _, correlation, error = struct.unpack(">iih", answer)
        return (correlation, error) == (1, 0)

    return probe


def postgres(port: int, authority: Path | None = None) -> Probe:
    """Whether the server asks for a password: while it starts up or recovers it answers with an error instead.

    Over TLS when the certificate ``authority`` is given.
    """
    settings = b"user\0postgres\0database\0postgres\0\0"
    request = struct.pack(">ii", 8 + len(settings), POSTGRES_PROTOCOL) + settings

    async def probe() -> bool:
        return await _exchange(port, request, 1, _context(authority), POSTGRES_TLS if authority else b"") == b"R"

    return probe


def says(port: int, request: bytes, answer: bytes) -> Probe:
    """Whether a server of lines answers ``request`` with ``answer``; some speak first, to an empty request."""

    async def probe() -> bool:
        return await _exchange(port, request, len(answer)) == answer

    return probe


def _context(authority: Path | None) -> ssl.SSLContext | None:
    return ssl.create_default_context(cafile=str(authority)) if authority else None


async def _exchange(
    port: int, request: bytes, size: int, context: ssl.SSLContext | None = None, start_tls: bytes = b""
) -> bytes:
    """Send ``request``, return the first ``size`` bytes of the answer.

    ``start_tls``: what to send in clear before the handshake; the server answers it with one byte.
    """
    async with asyncio.timeout(ANSWER_SECONDS):
        reader, writer = await asyncio.open_connection(HOST, port, ssl=None if start_tls else context)
        try:
            if context and start_tls:
                writer.write(start_tls)
                await reader.readexactly(1)
                await writer.start_tls(context, server_hostname=HOST)
            writer.write(request)
            return await reader.readexactly(size)
        finally:
            writer.close()
