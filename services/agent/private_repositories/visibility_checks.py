"""Tries a private repository without a login, when a tenant without one wants it.

It may have become public. And a tenant that is refused at once would learn that somebody here has a login: what nobody
has a login for is refused by its git server, which takes a round trip. So it is tried before each refusal, and again
from time to time after it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from services.agent.background_tasks import BackgroundTasks
from services.agent.credentials.check_result import Checker
from services.agent.objects.managed_kinds import ObjectKey
from services.agent.private_repositories.known_repositories import PrivateRepositoryRegistry
from services.agent.private_repositories.repository_identity import Identity, identity_of
from services.common.clock import Clock
from services.common.errors import GitOpsError
from services.common.messages import EngineResource

log = structlog.get_logger(__name__)

INTERVAL = timedelta(seconds=60)
"""Least time between two attempts for objects whose refusal has been told."""

Public = Callable[[Identity], Awaitable[None]]
Attempt = tuple[str, str]
"""A lane, and the URL that its tenant wants."""


@dataclass(slots=True)
class _Attempts:
    """Of one tenant at one repository. At most one is under way."""

    told: dict[ObjectKey, str] = field(default_factory=dict)
    """Digests of the rows for which one has ended without opening it."""
    waiting: dict[ObjectKey, str] = field(default_factory=dict)
    """Of those for which one is under way."""
    is_running: bool = False
    ended: datetime | None = None


class VisibilityChecks:
    """Visibility checks of one instance's repositories. The checker bounds how many run at once."""

    def __init__(
        self,
        tasks: BackgroundTasks,
        checker: Checker,
        clock: Clock,
        registry: PrivateRepositoryRegistry,
        *,
        on_public: Public,
        on_closed: Callable[[Iterable[ObjectKey]], None],
    ) -> None:
        """``on_public`` is called with a repository that has become public; it raises as a cluster does.

        ``on_closed`` is called with objects that may be refused now.
        """
        self._tasks, self._checker, self._clock = tasks, checker, clock
        self._registry, self._on_public, self._on_closed = registry, on_public, on_closed
        self._attempts: dict[Attempt, _Attempts] = {}
        self._wanted: dict[ObjectKey, Attempt] = {}

    def has_tried(self, key: ObjectKey, row: EngineResource, url: str) -> bool:
        """Whether an attempt at ``url`` for this state of the row has ended; if not, ``key`` is told when it has."""
        wanted = (row.lane, url)
        if self._wanted.get(key) != wanted:
            self.forget_object(key)
            self._wanted[key] = wanted
        attempts = self._attempts.setdefault(wanted, _Attempts())
        is_told = attempts.told.get(key) == row.digest
        is_due = attempts.ended is None or self._clock.now() - attempts.ended >= INTERVAL
        if not is_told:
            attempts.waiting[key] = row.digest
        if not attempts.is_running and (is_due or not is_told):
            attempts.is_running = True
            self._tasks.start_task(self._try(row.tenant, url, attempts), "check visibility")
        return is_told

    def forget_object(self, key: ObjectKey) -> None:
        """It wants no repository any more."""
        wanted = self._wanted.pop(key, None)
        attempts = self._attempts.get(wanted) if wanted is not None else None
        if wanted is None or attempts is None:
            return
        attempts.told.pop(key, None)
        attempts.waiting.pop(key, None)
        if not attempts.told and not attempts.waiting:
            del self._attempts[wanted]

    def clear(self) -> None:
        """What was tried is tried again."""
        self._attempts.clear()
        self._wanted.clear()

    async def _try(self, tenant: str, url: str, attempts: _Attempts) -> None:
        is_public = await self._checker.is_public_repository(url, tenant)
        attempts.is_running, attempts.ended = False, self._clock.now()
        waited, attempts.waiting = attempts.waiting, {}
        attempts.told |= waited
        identity = identity_of(url)
        if is_public and self._registry.identity_in_force(identity.repository) == identity:
            await self._open(identity)
        self._on_closed(waited)

    async def _open(self, identity: Identity) -> None:
        try:
            await self._on_public(identity)
        except GitOpsError as error:
            # In force all the same: it is written with the next change, or else it is checked again.
            log.warning("public repository not recorded yet", error=str(error))
