"""Looks up the hosts that tenants name, and lets out only addresses that may be reached.

Every address of a name must be allowed: with one that is not, somebody is trying. Lookups block, for as long as a
tenant's name server likes, so they have threads of their own that nothing else waits for.
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
    """In a thread: addresses of ``host``, in the order of preference; empty if it has none."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ()
    return tuple((family, str(place[0])) for family, _, _, _, place in found if family in _FAMILIES)


_FAMILIES = (socket.AF_INET, socket.AF_INET6)
