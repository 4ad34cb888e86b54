"""Where a deployment's repository is, before Argo CD is told to read it.

A repository without a credential is tried by nobody here: Argo CD is the first to connect to it, from inside the
operator's network. So its host is judged by what it resolves to, as the hosts of credentials are. Argo CD looks the
name up again by itself: this keeps out names that lead inside, not those that change after every answer.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta

from services.agent.clock import Clock
from services.agent.credentials.endpoint import HTTPS_PORT
from services.agent.credentials.names import Names, Trouble, Unreached
from services.agent.credentials.turns import Turns
from services.common.addresses import AddressPolicy
from services.common.urls.repository_url import NO_URL, parts_of, refusal

KEPT = timedelta(seconds=60)
MAX_KEPT = 4096
"""Hosts; the oldest go first."""

_REFUSED = f"names a host that cannot be used: {Trouble.ADDRESS.value}"


@dataclass(frozen=True, slots=True)
class _Judged:
    refusal: str
    until: datetime


class RepositoryHosts:
    """Judges hosts of repositories, a bounded number at once, tenants in turn, and remembers for a minute."""

    def __init__(self, names: Names, policy: AddressPolicy, turns: Turns, clock: Clock) -> None:
        self._names, self._policy, self._turns, self._clock = names, policy, turns, clock
        self._judged: OrderedDict[str, _Judged] = OrderedDict()

    async def refusal(self, url: str, tenant: str) -> str:
        """Why Argo CD must not read ``url``, to follow the field's name; empty if it may.

        Also empty if the host is not found now, or not soon: Argo CD does not find it either.
        """
        parts = parts_of(url)
        if parts is None:
            return NO_URL
        return refusal(url, self._policy, with_credentials=False) or await self._of_host(parts.host.lower(), tenant)

    async def _of_host(self, host: str, tenant: str) -> str:
        known = self._known(host)
        if known is not None:
            return known
        async with self._turns.of(tenant):
            known = self._known(host)  # perhaps from whoever was before us
            return await self._judge(host) if known is None else known

    async def _judge(self, host: str) -> str:
        why = ""
        try:
            await self._names.locate(host, HTTPS_PORT)
        except Unreached as error:
            why = _REFUSED if error.trouble is Trouble.ADDRESS else ""
        self._judged[host] = _Judged(why, self._clock.now() + KEPT)
        self._judged.move_to_end(host)
        while len(self._judged) > MAX_KEPT:
            self._judged.popitem(last=False)
        return why

    def _known(self, host: str) -> str | None:
        judged = self._judged.get(host)
        return judged.refusal if judged is not None and self._clock.now() < judged.until else None
