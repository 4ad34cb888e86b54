"""Resolves host names that tenants chose, and refuses addresses that must not be reached.

A name is refused if any of its addresses is: allowed and refused addresses under one name are an attack. A name that a
pod's DNS search list would complete is refused too: Argo CD could take ``vault.dev`` for the Service ``vault`` in the
namespace ``dev``. A lookup blocks for as long as the tenant's name server likes, so lookups have threads of their own.
"""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from ipaddress import ip_address

from services.common.addresses import AddressPolicy

THREADS = 64
"""More than concurrent checks: a lookup goes on after the check that waited for it has timed out."""

SERVICES = "svc.cluster.local."
"""The domain of a cluster's Services. It is in every pod's search list unless the operator removes it."""

Host = tuple[socket.AddressFamily, str]


class ConnectionProblem(Enum):
    """Why there is no usable answer. The texts reveal nothing about networks that the tenant cannot see."""

    NAME = "no such host"
    ADDRESS = "the host is at an address that may not be reached from here"
    AUTHORITY = "certificate signed by unknown authority"
    CERTIFICATE = "the certificate is not valid for this host, or not at this time"
    SILENCE = "no connection, or no answer in time"
    ANSWER = "the answer is not understood, or too large"


class Unreachable(Exception):
    """A server was not reached, or its answer is unusable."""

    def __init__(self, problem: ConnectionProblem) -> None:
        super().__init__(problem.value)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class ResolvedHost:
    """A host and its checked addresses. Connections use these; the name is not looked up a second time."""

    host: str
    port: int
    addresses: tuple[Host, ...]


class HostResolver:
    """Resolves hosts under one address policy."""

    def __init__(self, addresses: AddressPolicy, seconds: float) -> None:
        """``seconds``: the timeout of a lookup."""
        self._addresses, self._seconds = addresses, seconds
        self._threads = ThreadPoolExecutor(THREADS, "lookup")

    async def resolve_host(self, host: str, port: int) -> ResolvedHost:
        """Resolve ``host``. Raises Unreachable: no such host, an address that is refused, no answer in time."""
        if self._addresses.refusal_of_host(host):
            raise Unreachable(ConnectionProblem.ADDRESS)
        addresses = await self._looked_up(host, port)
        if not addresses:
            raise Unreachable(ConnectionProblem.NAME)
        for _, address in addresses:
            self.require_allowed(address)
        return ResolvedHost(host, port, addresses)

    def require_allowed(self, address: str) -> None:
        """Raises Unreachable if ``address`` may not be reached."""
        if self._addresses.refusal(ip_address(address.partition("%")[0])):
            raise Unreachable(ConnectionProblem.ADDRESS)

    async def _looked_up(self, host: str, port: int) -> tuple[Host, ...]:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._seconds):
                found = await loop.run_in_executor(self._threads, _look_up, host, port)
        except TimeoutError:
            found = None
        if found is None:
            raise Unreachable(ConnectionProblem.SILENCE)
        return found


def _look_up(host: str, port: int) -> tuple[Host, ...]:
    """The addresses of ``host``, in order of preference; empty if it has none. Runs in a thread.

    Raises Unreachable if a search list, Argo CD's or the agent's own, completes the name.
    """
    found, canonical = _ask(host, port)
    # Longer than what was asked for: completed, or an alias, which it is without a search list too.
    is_completed = canonical.startswith(f"{host.lower()}.") and _ask(f"{host}.", port)[1] != canonical
    if is_completed or (not _is_address(host) and _ask(f"{host.removesuffix('.')}.{SERVICES}", port)[0]):
        raise Unreachable(ConnectionProblem.ADDRESS)
    return found


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _ask(host: str, port: int) -> tuple[tuple[Host, ...], str]:
    """The addresses, and the name that they belong to, in lower case and without a trailing dot."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_CANONNAME)
    except (OSError, UnicodeError):
        return (), ""
    canonical = next((name for _, _, _, name, _ in found if name), "")
    addresses = tuple((family, str(place[0])) for family, _, _, _, place in found if family in _FAMILIES)
    return addresses, canonical.lower().removesuffix(".")


_FAMILIES = (socket.AF_INET, socket.AF_INET6)
