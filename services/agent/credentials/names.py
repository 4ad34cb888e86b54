"""Looks up the hosts that tenants name, and lets out only addresses that may be reached.

Every address of a name must be allowed: with one that is not, somebody is trying. A name that the search list of a pod
completes is refused, whatever else it is: to Argo CD ``vault.dev`` would be the Service of a namespace. Lookups block,
for as long as a tenant's name server likes, so they have threads that nothing else waits for.
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
"""More than checks at once: a lookup outlives the check that gave up waiting for it."""

SERVICES = "svc.cluster.local."
"""Below it are the Services of a cluster; every pod's search list holds it, unless its operator sees to it."""

Host = tuple[socket.AddressFamily, str]


class Trouble(Enum):
    """Why there is no answer, in words that tell nothing about a network that the tenant cannot see itself."""

    NAME = "no such host"
    ADDRESS = "the host is at an address that may not be reached from here"
    AUTHORITY = "certificate signed by unknown authority"
    CERTIFICATE = "the certificate is not valid for this host, or not at this time"
    SILENCE = "no connection, or no answer in time"
    ANSWER = "the answer is not understood, or too large"


class Unreached(Exception):
    """A server was not reached, or what it sent is of no use."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(trouble.value)
        self.trouble = trouble


@dataclass(frozen=True, slots=True)
class Located:
    """A host and the addresses it was found at: connections go to these and are never looked up again."""

    host: str
    port: int
    addresses: tuple[Host, ...]


class Names:
    """Lookups under one policy."""

    def __init__(self, policy: AddressPolicy, seconds: float) -> None:
        """``seconds``: how long a lookup may take."""
        self._policy, self._seconds = policy, seconds
        self._threads = ThreadPoolExecutor(THREADS, "lookup")

    async def locate(self, host: str, port: int) -> Located:
        """Find ``host``. Raises Unreached: no such host, an address that is refused, no answer in time."""
        if self._policy.refusal_of_host(host):
            raise Unreached(Trouble.ADDRESS)
        addresses = await self._looked_up(host, port)
        if not addresses:
            raise Unreached(Trouble.NAME)
        for _, address in addresses:
            self.check(address)
        return Located(host, port, addresses)

    def check(self, address: str) -> None:
        """Raises Unreached if ``address`` may not be reached."""
        if self._policy.refusal(ip_address(address.partition("%")[0])):
            raise Unreached(Trouble.ADDRESS)

    async def _looked_up(self, host: str, port: int) -> tuple[Host, ...]:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._seconds):
                found = await loop.run_in_executor(self._threads, _look_up, host, port)
        except TimeoutError:
            found = None
        if found is None:
            raise Unreached(Trouble.SILENCE)
        return found


def _look_up(host: str, port: int) -> tuple[Host, ...]:
    """In a thread: addresses of ``host``, in the order of preference; empty if it has none.

    Raises Unreached if a search list, Argo CD's or the agent's own, makes something else of it.
    """
    found, canonical = _ask(host, port)
    # Longer than what was asked for: completed, or an alias, which it is without a search list too.
    is_completed = canonical.startswith(f"{host.lower()}.") and _ask(f"{host}.", port)[1] != canonical
    if is_completed or (not _is_address(host) and _ask(f"{host.removesuffix('.')}.{SERVICES}", port)[0]):
        raise Unreached(Trouble.ADDRESS)
    return found


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _ask(host: str, port: int) -> tuple[tuple[Host, ...], str]:
    """Addresses, and the name that they are the addresses of, in lower case and without a dot at its end."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_CANONNAME)
    except (OSError, UnicodeError):
        return (), ""
    canonical = next((name for _, _, _, name, _ in found if name), "")
    addresses = tuple((family, str(place[0])) for family, _, _, _, place in found if family in _FAMILIES)
    return addresses, canonical.lower().removesuffix(".")


_FAMILIES = (socket.AF_INET, socket.AF_INET6)
