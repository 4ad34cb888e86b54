"""The way to a tenant's API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from services.agent.credentials.endpoint import parse_https
from services.agent.credentials.outbound import Connection, Outbound, trust
from services.agent.credentials.verdict import failed
from services.common.api.catalogue import environment


@dataclass(frozen=True, slots=True)
class ApiServer:
    """Where it is, and how it is known to be the one."""

    url: str
    authority: str | None
    """PEM of the certificate authorities to trust instead of the system's."""
    insecure: bool


@asynccontextmanager
async def connected(outbound: Outbound, server: ApiServer) -> AsyncGenerator[Connection]:
    """Connections to ``server`` for as long as the block lasts. Raises CheckFailed, Unreached."""
    try:
        endpoint, why = parse_https(server.url), ""
        tls = await asyncio.to_thread(trust, server.authority, insecure=server.insecure)
    except ValueError as error:
        why = str(error)
    if why:
        raise failed(environment.NO_REST_CONFIG, why)
    async with outbound.open(endpoint, tls) as connection:
        yield connection
