"""Whether a private repository has become public, asked on behalf of whoever wants it and has no login."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import structlog

from services.agent.beside import Beside
from services.agent.clock import Clock
from services.agent.composing import Composers
from services.agent.private_repositories.identity import Identity, identity_of
from services.agent.private_repositories.registry import Registry
from services.common.errors import GitOpsError
from services.common.messages import EngineResource

log = structlog.get_logger(__name__)

PEACE = timedelta(seconds=60)
"""Between two questions about one repository, whoever asks."""
MANY = 1000
"""A bound on memory, no rule."""

Public = Callable[[Identity], Awaitable[None]]


class Inquiries:
    """Questions about one instance's repositories. How many are asked at once is the composers' business."""

    def __init__(self, beside: Beside, composers: Composers, clock: Clock, registry: Registry, public: Public) -> None:
        """``public`` is told of what opens to anybody; it raises as a cluster does."""
        self._beside, self._composers, self._clock = beside, composers, clock
        self._registry, self._public = registry, public
        self._asked: dict[Identity, datetime] = {}

    def ask(self, row: EngineResource, url: str) -> None:
        """The tenant of ``row`` wants ``url``. Another spelling than the one that is private proves nothing."""
        now, identity = self._clock.now(), identity_of(url)
        asked = self._asked.get(identity)
        if self._registry.get(identity.repository) != identity or (asked is not None and now - asked < PEACE):
            return
        if len(self._asked) >= MANY:
            self._asked = {each: when for each, when in self._asked.items() if now - when < PEACE}
        self._asked[identity] = now
        self._beside.start(self._inquire(row.tenant, url, identity), "ask for a public repository")

    def clear(self) -> None:
        """What was asked may be asked again."""
        self._asked.clear()

    async def _inquire(self, tenant: str, url: str, identity: Identity) -> None:
        if not await self._composers.is_public(url, tenant):
            return
        try:
            await self._public(identity)
        except GitOpsError as error:
            # In force all the same; whoever writes the registry next writes this too, or else it is asked again.
            log.warning("public repository not recorded yet", error=str(error))
