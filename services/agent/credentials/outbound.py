"""HTTPS to servers that tenants name: the checked address, no redirects, no proxies, small answers, little time.

A tenant chooses where we connect from inside the operator's network (server-side request forgery). So a connection
goes to an address that was checked after the lookup and is checked again when its socket is made; and of an answer
nothing but its status is ever shown.
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

from services.agent.credentials.endpoint import Endpoint
from services.agent.credentials.names import Located, Names, Trouble, Unreached

MAX_ANSWER_BYTES = 1024 * 1024
CHUNK_BYTES = 64 * 1024
USER_AGENT = "gitops-service"

_CERTIFICATE = re.compile(r"-----BEGIN [^-]*-----[^-]*-----END [^-]*-----")

_UNKNOWN_AUTHORITY = frozenset({2, 18, 19, 20, 21})
"""OpenSSL's codes: no issuer found, self-signed, the same in the chain, no local issuer, first cannot be verified."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered. For decisions only: its content is not to be shown or logged."""

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
    ) -> Answer:
        """One request; ``path`` is below the endpoint's and encoded already. Raises Unreached."""
        answer = await self._send(method, path, headers, body, limit + 1)
        if len(answer.body) > limit:
            raise Unreached(Trouble.ANSWER)
        return answer

    async def beginning(self, path: str, headers: Mapping[str, str], size: int) -> Answer:
        """GET ``path`` and read no more than the first ``size`` bytes of what comes. Raises Unreached."""
        return await self._send("GET", path, headers, None, size)

    async def _send(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, size: int) -> Answer:
        url = URL(f"{self._endpoint.origin}{self._endpoint.path}{path}", encoded=True)
        try:
            async with self._session.request(
                method, url, headers=headers, data=body, allow_redirects=False
            ) as response:
                return Answer(response.status, response.content_type, await _read(response, size))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            trouble = _trouble(error)
        # Outside of the handler: aiohttp's errors carry the request's headers.
        raise Unreached(trouble)


class Outbound:
    """Makes connections under one policy."""

    def __init__(self, names: Names, connect_seconds: float, request_seconds: float) -> None:
        self._names = names
        self._timeout = aiohttp.ClientTimeout(
            total=request_seconds, connect=connect_seconds, sock_connect=connect_seconds
        )

    @asynccontextmanager
    async def open(self, endpoint: Endpoint, tls: ssl.SSLContext) -> AsyncGenerator[Connection]:
        """Connections to ``endpoint`` for as long as the block lasts. Raises Unreached."""
        located = await self._names.locate(endpoint.host, endpoint.port)
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
        """The last moment before a connection: literal addresses come here without a lookup."""
        family, kind, protocol, _, address = place
        self._names.check(str(address[0]))
        return socket.socket(family, kind, protocol)


class _Pinned(AbstractResolver):
    """Answers with what was found and checked before."""

    def __init__(self, located: Located) -> None:
        self._located = located

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The checked addresses; nothing for another host."""
        if host.lower().rstrip(".") != self._located.host.lower().rstrip("."):
            return []
        return [
            ResolveResult(hostname=host, host=address, port=port, family=found, proto=0, flags=socket.AI_NUMERICHOST)
            for found, address in self._located.addresses
        ]

    async def close(self) -> None:
        """Nothing is open."""


@lru_cache(maxsize=64)
def trust(authorities: str | None, *, insecure: bool = False, extra: Path | None = None) -> ssl.SSLContext:
    """A context that trusts ``authorities`` (PEM), or else the system's and those in the file ``extra``.

    In a thread: reading authorities takes a tenth of a second. They are read one by one, so that other threads run.
    Raises ValueError if ``authorities`` holds anything but certificates or none, OSError if ``extra`` cannot be read.
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


def _without_dhe(context: ssl.SSLContext) -> ssl.SSLContext:
    """A server chooses the numbers of finite-field Diffie-Hellman: a second of our loop. Argo CD does not speak it."""
    names = (cipher["name"] for cipher in context.get_ciphers())
    context.set_ciphers(":".join(name for name in names if not name.startswith("DHE-")))
    return context


async def _read(response: aiohttp.ClientResponse, size: int) -> bytes:
    """At most the first ``size`` bytes; the connection is of no use afterwards if there are more."""
    parts = []
    while size > 0 and (part := await response.content.read(min(size, CHUNK_BYTES))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _trouble(error: Exception) -> Trouble:
    """Only what the tenant could find out by itself: a closed port and a silent one are the same."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        code = getattr(error.certificate_error, "verify_code", 0)
        return Trouble.AUTHORITY if code in _UNKNOWN_AUTHORITY else Trouble.CERTIFICATE
    if isinstance(error, aiohttp.ClientPayloadError | aiohttp.ClientResponseError):
        return Trouble.ANSWER
    return Trouble.SILENCE
