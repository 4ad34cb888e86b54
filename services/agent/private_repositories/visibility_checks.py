"""Checks whether a private repository has become public, when a tenant without a login wants it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import structlog

from services.agent.background_tasks import BackgroundTasks
from services.agent.credentials.check_result import Checker
from services.agent.private_repositories.known_repositories import PrivateRepositoryRegistry
from services.agent.private_repositories.repository_identity import Identity, identity_of
from services.common.clock import Clock
from services.common.errors import GitOpsError
from services.common.messages import EngineResource

log = structlog.get_logger(__name__)

INTERVAL = timedelta(seconds=60)
"""Least time between two checks of one repository, whichever tenant wants it."""
MAX_KEPT = 1000
"""Checks that are remembered; bounds memory only."""

Public = Callable[[Identity], Awaitable[None]]


class VisibilityChecks:
    """Visibility checks of one instance's repositories. The checker bounds how many run at once."""

    def __init__(
        self,
        tasks: BackgroundTasks,
        checker: Checker,
        clock: Clock,
        registry: PrivateRepositoryRegistry,
        on_public: Public,
    ) -> None:
        """``on_public`` is called with a repository that has become public; it raises as a cluster does."""
        self._tasks, self._checker, self._clock = tasks, checker, clock
        self._registry, self._on_public = registry, on_public
        self._checked: dict[Identity, datetime] = {}

    def check_visibility(self, row: EngineResource, url: str) -> None:
        """Start a check of ``url`` for the tenant of ``row``, unless it is spelled unlike the private one."""
        now, identity = self._clock.now(), identity_of(url)
        checked = self._checked.get(identity)
        if self._registry.identity_in_force(identity.repository) != identity or (
            checked is not None and now - checked < INTERVAL
        ):
            return
        if len(self._checked) >= MAX_KEPT:
            self._checked = {each: when for each, when in self._checked.items() if now - when < INTERVAL}
        self._checked[identity] = now
        self._tasks.start_task(self._check(row.tenant, url, identity), "check visibility")

    def clear(self) -> None:
        """What was checked may be checked again."""
        self._checked.clear()

    async def _check(self, tenant: str, url: str, identity: Identity) -> None:
        if not await self._checker.is_public_repository(url, tenant):
            return
        try:
            await self._on_public(identity)
        except GitOpsError as error:
            # In force all the same: it is written with the next change, or else it is checked again.
            log.warning("public repository not recorded yet", error=str(error))
