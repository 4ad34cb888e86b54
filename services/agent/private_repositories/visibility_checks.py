"""Checks whether a private repository has become public, when a tenant without a login wants it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import structlog

from services.agent.credentials import CredentialChecker
from services.agent.credentials.background_tasks import BackgroundTasks
from services.agent.private_repositories.identity import Identity, identity_of
from services.agent.private_repositories.store import PrivateRepositoryStore
from services.common.clock import Clock
from services.common.errors import GitOpsError
from services.common.messages import EngineResource

log = structlog.get_logger(__name__)

PEACE = timedelta(seconds=60)
"""Least time between two checks of one repository, whichever tenant wants it."""
MANY = 1000
"""Checks that are remembered; bounds memory only."""

Public = Callable[[Identity], Awaitable[None]]


class VisibilityChecks:
    """Visibility checks of one instance's repositories. The checker bounds how many run at once."""

    def __init__(
        self,
        tasks: BackgroundTasks,
        checker: CredentialChecker,
        clock: Clock,
        registry: PrivateRepositoryStore,
        public: Public,
    ) -> None:
        """``public`` is told of what opens to anybody; it raises as a cluster does."""
        self._tasks, self._checker, self._clock = tasks, checker, clock
        self._store, self._public = registry, public
        self._asked: dict[Identity, datetime] = {}

    def ask(self, row: EngineResource, url: str) -> None:
        """Start a check of ``url`` for the tenant of ``row``, unless it is spelled unlike the private one."""
        now, identity = self._clock.now(), identity_of(url)
        asked = self._asked.get(identity)
        if self._store.get(identity.repository) != identity or (asked is not None and now - asked < PEACE):
            return
        if len(self._asked) >= MANY:
            self._asked = {each: when for each, when in self._asked.items() if now - when < PEACE}
        self._asked[identity] = now
        self._tasks.start_task(self._inquire(row.tenant, url, identity), "ask for a public repository")

    def clear(self) -> None:
        """What was asked may be asked again."""
        self._asked.clear()

    async def _inquire(self, tenant: str, url: str, identity: Identity) -> None:
        if not await self._checker.is_public_repository(url, tenant):
            return
        try:
            await self._public(identity)
        except GitOpsError as error:
            # In force all the same; whoever writes the registry next writes this too, or else it is asked again.
            log.warning("public repository not recorded yet", error=str(error))
