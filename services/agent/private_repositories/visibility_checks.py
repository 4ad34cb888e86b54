"""Tries a private repository without a login, when a tenant without one wants it.

It may have become public. And a tenant that is refused at once would learn that somebody here has a login: if nobody
has one, the git server refuses it, which takes a round trip. So an attempt is made before each refusal, and again from
time to time after it.

A tenant has few attempts at a time, however often it changes what it wants: one for each repository, in any spelling,
and ``ATTEMPTS_PER_TENANT`` in all. The others are due, and start when one has ended. What nothing wants any more is not
due.
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
from services.agent.private_repositories.repository_identity import Identity, identity_of, repository_of
from services.common.clock import Clock
from services.common.errors import GitOpsError
from services.common.messages import EngineResource

log = structlog.get_logger(__name__)

INTERVAL = timedelta(seconds=60)
"""Minimum time between two attempts for objects that were refused."""
ATTEMPTS_PER_TENANT = 4
"""Attempts of one tenant at a time, including those that wait for a slot of the checker."""

Public = Callable[[Identity], Awaitable[None]]
Attempt = tuple[str, str]
"""A lane, and the URL that its tenant wants."""


@dataclass(slots=True)
class _Attempts:
    """The attempts of one tenant at one URL. A server may answer each spelling of a repository differently."""

    tried: dict[ObjectKey, str] = field(default_factory=dict)
    """Digests of the rows for which an attempt has ended without opening the repository."""
    waiting: dict[ObjectKey, str] = field(default_factory=dict)
    """Digests of the rows for which an attempt is running."""
    is_running: bool = False
    ended: datetime | None = None

    @property
    def is_wanted(self) -> bool:
        """Whether any object wants the repository."""
        return bool(self.tried or self.waiting)


@dataclass(slots=True)
class _Lane:
    """The attempts of one tenant."""

    running: set[bytes] = field(default_factory=set)
    """Repositories with a running attempt, even if nothing wants them any more."""
    due: dict[str, bytes] = field(default_factory=dict)
    """URLs to try, each with its repository, in order."""

    def pop_startable(self) -> str | None:
        """The next URL whose attempt may start. It counts as running from now on."""
        if len(self.running) >= ATTEMPTS_PER_TENANT:
            return None
        url = next((url for url, repository in self.due.items() if repository not in self.running), None)
        if url is not None:
            self.running.add(self.due.pop(url))
        return url


class VisibilityChecks:
    """The visibility checks of one instance's repositories. The checker bounds how many run at a time."""

    def __init__(
        self,
        tasks: BackgroundTasks,
        checker: Checker,
        clock: Clock,
        registry: PrivateRepositoryRegistry,
        *,
        on_public: Public,
        on_tried: Callable[[Iterable[ObjectKey]], None],
    ) -> None:
        """``on_public`` is called with a repository that has become public. It raises as a cluster does.

        ``on_tried`` is called after an attempt with the objects that waited for it: they may be refused now.
        """
        self._tasks, self._checker, self._clock = tasks, checker, clock
        self._registry, self._on_public, self._on_tried = registry, on_public, on_tried
        self._attempts: dict[Attempt, _Attempts] = {}
        self._wanted: dict[ObjectKey, Attempt] = {}
        self._lanes: dict[str, _Lane] = {}

    def has_tried(self, key: ObjectKey, row: EngineResource, url: str) -> bool:
        """Whether an attempt at ``url`` has ended for this state of the row.

        If not, ``on_tried`` is called with ``key``.
        """
        wanted = (row.lane, url)
        if self._wanted.get(key) != wanted:
            self.forget_object(key)
            self._wanted[key] = wanted
        attempts = self._attempts.setdefault(wanted, _Attempts())
        is_tried = attempts.tried.get(key) == row.digest
        is_due = attempts.ended is None or self._clock.now() - attempts.ended >= INTERVAL
        if not is_tried:
            attempts.waiting[key] = row.digest
        if not attempts.is_running and (is_due or not is_tried):
            self._lanes.setdefault(row.lane, _Lane()).due.setdefault(url, repository_of(url))
            self._start_due(row.lane, row.tenant)
        return is_tried

    def forget_object(self, key: ObjectKey) -> None:
        """Forget an object that wants no repository any more."""
        wanted = self._wanted.pop(key, None)
        attempts = self._attempts.get(wanted) if wanted is not None else None
        if wanted is None or attempts is None:
            return
        attempts.tried.pop(key, None)
        attempts.waiting.pop(key, None)
        self._drop_unwanted(wanted, attempts)

    def clear(self) -> None:
        """Forget all attempts, so that they are made again."""
        self._attempts.clear()
        self._wanted.clear()
        self._lanes.clear()

    def _start_due(self, lane: str, tenant: str) -> None:
        while (url := self._lanes[lane].pop_startable()) is not None:
            self._attempts[lane, url].is_running = True
            self._tasks.start_task(self._try(lane, tenant, url), "check visibility")

    def _drop_unwanted(self, wanted: Attempt, attempts: _Attempts) -> None:
        """Forget what nothing wants any more. A running attempt stays until it has ended."""
        if attempts.is_wanted or attempts.is_running:
            return
        lane, url = wanted
        del self._attempts[wanted]
        if lane in self._lanes:
            self._lanes[lane].due.pop(url, None)

    async def _try(self, lane: str, tenant: str, url: str) -> None:
        is_public = await self._checker.is_public_repository(url, tenant)
        waited = self._end_attempt((lane, url))
        self._lanes[lane].running.discard(repository_of(url))
        self._start_due(lane, tenant)
        if not self._lanes[lane].running:
            del self._lanes[lane]
        identity = identity_of(url)
        if is_public and self._registry.identity_in_force(identity.repository) == identity:
            await self._open(identity)
        self._on_tried(waited)

    async def _open(self, identity: Identity) -> None:
        try:
            await self._on_public(identity)
        except GitOpsError as error:
            # In force all the same: it is written with the next change, or else it is checked again.
            log.warning("public repository not recorded yet", error=str(error))

    def _end_attempt(self, wanted: Attempt) -> dict[ObjectKey, str]:
        """Record the end of an attempt. Returns the objects that waited for it."""
        attempts = self._attempts[wanted]
        attempts.is_running, attempts.ended = False, self._clock.now()
        waited, attempts.waiting = attempts.waiting, {}
        attempts.tried |= waited
        self._drop_unwanted(wanted, attempts)
        return waited
