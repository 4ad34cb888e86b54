"""Checks the host of a deployment's repository before Argo CD reads it.

Agents do not connect to a repository without a credential: Argo CD is the first to, from inside the operator's network.
So the host is checked by the addresses it resolves to, like the hosts of credentials. Argo CD resolves the name again:
this keeps out names that lead inside the network, not names whose address changes with every answer.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta

from services.agent.credentials.network.endpoint import HTTPS_PORT
from services.agent.credentials.network.resolver import ConnectionProblem, HostResolver, Unreachable
from services.common.addresses import AddressPolicy
from services.common.clock import Clock
from services.common.queueing import FairSemaphore
from services.common.urls.repository_url import NO_URL, parts_of, refusal

KEPT = timedelta(seconds=60)
MAX_KEPT = 4096
"""How many hosts are cached. The oldest is dropped first."""

_REFUSED = f"names a host that cannot be used: {ConnectionProblem.ADDRESS.value}"


@dataclass(frozen=True, slots=True)
class _Judged:
    refusal: str
    until: datetime


class RepositoryHostCheck:
    """Checks hosts, a bounded number at once and tenants in turn, and caches each result for a minute."""

    def __init__(self, resolver: HostResolver, addresses: AddressPolicy, slots: FairSemaphore, clock: Clock) -> None:
        self._resolver, self._addresses, self._slots, self._clock = resolver, addresses, slots, clock
        self._judged: OrderedDict[str, _Judged] = OrderedDict()

    async def refusal_of_url(self, url: str, tenant: str) -> str:
        """Why Argo CD must not read ``url``, as a text to follow the field's name; empty if it may.

        Also empty if the host is not found now, or not soon: Argo CD does not find it either.
        """
        parts = parts_of(url)
        if parts is None:
            return NO_URL
        return refusal(url, self._addresses, with_credentials=False) or await self._of_host(parts.host.lower(), tenant)

    async def _of_host(self, host: str, tenant: str) -> str:
        known = self._known(host)
        if known is not None:
            return known
        async with self._slots.slot_of(tenant):
            known = self._known(host)  # another check may have ended while this one waited
            return await self._judge(host) if known is None else known

    async def _judge(self, host: str) -> str:
        why = ""
        try:
            await self._resolver.resolve_host(host, HTTPS_PORT)
        except Unreachable as error:
            why = _REFUSED if error.problem is ConnectionProblem.ADDRESS else ""
        self._judged[host] = _Judged(why, self._clock.now() + KEPT)
        self._judged.move_to_end(host)
        while len(self._judged) > MAX_KEPT:
            self._judged.popitem(last=False)
        return why

    def _known(self, host: str) -> str | None:
        judged = self._judged.get(host)
        return judged.refusal if judged is not None and self._clock.now() < judged.until else None
