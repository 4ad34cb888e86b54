"""HTTPS to servers that tenants name: checked addresses, no redirects, no proxies, small answers, short timeouts.

Tenants choose servers that we connect to from inside the operator's network (server-side request forgery). So each
address is checked after the lookup, and again when the socket is created. Nothing of an answer but its status is ever
shown.
"""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from services.agent.credentials.network.endpoint import Endpoint
from services.agent.credentials.network.resolver import ConnectionProblem, HostResolver, ResolvedHost, Unreachable

MAX_ANSWER_BYTES = 1024 * 1024
CHUNK_BYTES = 64 * 1024
USER_AGENT = "gitops-service"

_CERTIFICATE = re.compile(r"-----BEGIN [^-]*-----[^-]*-----END [^-]*-----")

_UNKNOWN_AUTHORITY = frozenset({2, 18, 19, 20, 21})
"""OpenSSL's codes: no issuer found, self-signed, the same in the chain, no local issuer, first cannot be verified."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A server's answer. Its content serves decisions only and is never shown or logged."""

    status: int
    content_type: str = field(repr=False)
    body: bytes = field(repr=False)


class Connection:
    """Requests to one server, one at a time."""

    def __init__(self, session: aiohttp.ClientSession, endpoint: Endpoint) -> None:
        self._session, self._endpoint = session, endpoint

    async def request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        limit: int = MAX_ANSWER_BYTES,
    ) -> HttpResponse:
        """One request. ``path`` is relative to the endpoint, and already encoded. Raises Unreachable."""
        answer = await self._send(method, path, headers, body, limit + 1)
        if len(answer.body) > limit:
            raise Unreachable(ConnectionProblem.ANSWER)
        return answer

    async def read_beginning(self, path: str, headers: Mapping[str, str], size: int) -> HttpResponse:
        """GET ``path``, and read only the first ``size`` bytes of the answer. Raises Unreachable."""
        return await self._send("GET", path, headers, None, size)

    async def _send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, size: int
    ) -> HttpResponse:
        url = URL(f"{self._endpoint.origin}{self._endpoint.path}{path}", encoded=True)
        try:
            async with self._session.request(
                method, url, headers=headers, data=body, allow_redirects=False
            ) as response:
                return HttpResponse(response.status, response.content_type, await _read(response, size))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            problem = _problem(error)
        # Outside of the handler: aiohttp's errors carry the request's headers.
        raise Unreachable(problem)


class HttpsConnector:
    """Opens connections under one address policy."""

    def __init__(self, resolver: HostResolver, connect_seconds: float, request_seconds: float) -> None:
        self._resolver = resolver
        self._timeout = aiohttp.ClientTimeout(
            total=request_seconds, connect=connect_seconds, sock_connect=connect_seconds
        )

    @asynccontextmanager
    async def open_connection(self, endpoint: Endpoint, tls: ssl.SSLContext) -> AsyncGenerator[Connection]:
        """Connections to ``endpoint``, until the block ends. Raises Unreachable."""
        located = await self._resolver.resolve_host(endpoint.host, endpoint.port)
        connector = aiohttp.TCPConnector(
            resolver=_Pinned(located),
            ssl=tls,
            limit=1,
            use_dns_cache=False,
            socket_factory=self._socket,
        )
        async with aiohttp.ClientSession(
            connector=connector,
            timeout=self._timeout,
            trust_env=False,  # no proxies, no ~/.netrc
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,  # a few bytes could become gigabytes
            headers={"User-Agent": USER_AGENT, "Accept-Encoding": "identity"},
        ) as session:
            yield Connection(session, endpoint)

    def _socket(self, place: tuple[Any, ...]) -> socket.socket:
        """Check the address again: literal addresses come here without a lookup."""
        family, kind, protocol, _, address = place
        self._resolver.require_allowed(str(address[0]))
        return socket.socket(family, kind, protocol)


class _Pinned(AbstractResolver):
    """Resolves one host, to its checked addresses."""

    def __init__(self, located: ResolvedHost) -> None:
        self._located = located

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The checked addresses; none for another host."""
        if host.lower().rstrip(".") != self._located.host.lower().rstrip("."):
            return []
        return [
            ResolveResult(hostname=host, host=address, port=port, family=found, proto=0, flags=socket.AI_NUMERICHOST)
            for found, address in self._located.addresses
        ]

    async def close(self) -> None:
        """Nothing to close."""


def tls_context(authorities: str | None, *, insecure: bool = False, extra: Path | None = None) -> ssl.SSLContext:
    """A new context that trusts ``authorities`` (PEM), or else the system's and those in the file ``extra``.

    Runs in a thread: to read authorities takes a tenth of a second. They are read one by one, so that other threads
    run. Raises ValueError if ``authorities`` is empty or contains anything but certificates, OSError if ``extra``
    cannot be read.
    """
    if insecure:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return _without_dhe(context)
    first, *others = _CERTIFICATE.findall(authorities) or [""] if authorities is not None else [None]
    with contextlib.suppress(ssl.SSLError):
        context = ssl.create_default_context(cadata=first)
        for other in others:
            context.load_verify_locations(cadata=other)
        if extra is not None:
            context.load_verify_locations(cafile=extra)
        # What Argo CD accepts is to be accepted: Go does not ask for the extensions that newer Pythons insist on.
        context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
        return _without_dhe(context)
    raise ValueError("no PEM certificates")


trust = lru_cache(maxsize=64)(tls_context)
"""A context shared by all connections with the same trust."""


def _without_dhe(context: ssl.SSLContext) -> ssl.SSLContext:
    """Disable finite-field Diffie-Hellman: the server chooses its numbers, which can take a second of our loop."""
    names = (cipher["name"] for cipher in context.get_ciphers())
    context.set_ciphers(":".join(name for name in names if not name.startswith("DHE-")))
    return context


async def _read(response: aiohttp.ClientResponse, size: int) -> bytes:
    """The first ``size`` bytes at most. If there are more, the connection cannot be used again."""
    parts = []
    while size > 0 and (part := await response.content.read(min(size, CHUNK_BYTES))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _problem(error: Exception) -> ConnectionProblem:
    """What the tenant may learn of an error: no more than it could find out itself."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        code = getattr(error.certificate_error, "verify_code", 0)
        return ConnectionProblem.AUTHORITY if code in _UNKNOWN_AUTHORITY else ConnectionProblem.CERTIFICATE
    if isinstance(error, aiohttp.ClientPayloadError | aiohttp.ClientResponseError):
        return ConnectionProblem.ANSWER
    return ConnectionProblem.SILENCE
