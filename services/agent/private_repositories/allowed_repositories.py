"""Decides which repositories Argo CD may read, because it connects to them from inside the operator's network.

The host is checked in the background, once for all of a tenant's Applications with the same URL, and again from time to
time, because a name may resolve to another address. An Application is not created or pointed at a repository before the
result is known; one that already reads the repository continues. If a repository is refused later, its Applications
report that and are not applied any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from services.agent.credentials.check_result import Checker
from services.agent.objects.desired_objects import source_url
from services.agent.objects.live import EngineObjects
from services.agent.objects.managed_kinds import ObjectKey
from services.common.clock import Clock
from services.common.errors import RefusedInput
from services.common.kubernetes import Manifest
from services.common.messages import EngineResource
from services.common.queueing import Place, Workers, WorkQueue
from services.kinds.gitops_deployment import catalogue as deployment

TenantUrl = tuple[str, str]
"""A tenant, and the URL of a repository that it names."""


@dataclass(slots=True)
class _Repository:
    """One repository of one tenant."""

    readers: set[ObjectKey] = field(default_factory=set)
    waiting: set[ObjectKey] = field(default_factory=set)
    """Applications that wait for the result."""
    refusal: str | None = None
    """Why Argo CD must not read it; empty if it may; None if that is not known yet."""


class AllowedRepositories:
    """The repositories of one instance's Applications."""

    def __init__(
        self,
        checker: Checker,
        live: EngineObjects,
        clock: Clock,
        seconds: float,
        *,
        on_result: Callable[[Iterable[ObjectKey]], None],
        on_defect: Callable[[BaseException], None],
    ) -> None:
        """``seconds``: between two checks of a repository.

        ``on_result`` is called with Applications whose result has changed.
        """
        self._checker, self._live, self._seconds, self._on_result = checker, live, seconds, on_result
        self._repositories: dict[TenantUrl, _Repository] = {}
        self._named: dict[ObjectKey, TenantUrl] = {}
        self._queue: WorkQueue[TenantUrl] = WorkQueue()
        self._workers = Workers(self._queue, self._check, clock, on_defect)
        self._workers.start()

    def may_apply(self, key: ObjectKey, row: EngineResource, desired: Manifest) -> bool:
        """Whether the Application ``desired`` may be applied now. If not, ``key`` is queued again once that is known.

        Raises RefusedInput if its repository is refused.
        """
        url = source_url(desired)
        repository = self._repository(key, (row.tenant, url))
        if repository.refusal:
            raise RefusedInput(deployment.REPOSITORY_REFUSED.text(problem=repository.refusal))
        live = self._live.get(key)
        if repository.refusal is None and (live is None or source_url(live.owned) != url):
            repository.waiting.add(key)
            return False
        return True

    def is_checked(self, key: ObjectKey) -> bool:
        """Whether a check of the repository that ``key`` last named has ended."""
        named = self._named.get(key)
        return named is not None and self._repositories[named].refusal is not None

    def is_refused(self, key: ObjectKey) -> bool:
        """Whether the repository that ``key`` last named was refused."""
        named = self._named.get(key)
        return named is not None and bool(self._repositories[named].refusal)

    def forget_application(self, key: ObjectKey) -> None:
        """Forget an Application that reads no repository any more."""
        named = self._named.pop(key, None)
        if named is None:
            return
        repository = self._repositories[named]
        repository.readers.discard(key)
        repository.waiting.discard(key)
        if not repository.readers:
            del self._repositories[named]
            self._workers.cancel_key(named)

    async def suspend(self) -> None:
        """Forget everything. When this returns, no check is running."""
        for key in list(self._named):
            self.forget_application(key)
        await self._workers.stop()
        self._workers.start()

    def _repository(self, key: ObjectKey, named: TenantUrl) -> _Repository:
        if self._named.get(key) != named:
            self.forget_application(key)
            self._named[key] = named
        repository = self._repositories.get(named)
        if repository is None:
            repository = self._repositories[named] = _Repository()
            self._queue.add_key(named, Place(lane=named[0]))
            self._workers.start_tasks()
        repository.readers.add(key)
        return repository

    async def _check(self, named: TenantUrl) -> float | None:
        """Check a repository; returns in how many seconds to check it again."""
        tenant, url = named
        refusal = await self._checker.refusal_of_repository(url, tenant)
        repository = self._repositories.get(named)
        if repository is None:
            return None  # forgotten meanwhile
        before, repository.refusal = repository.refusal, refusal
        concerned = repository.readers if before or refusal else repository.waiting
        repository.waiting = set()
        if before != refusal:
            self._on_result(sorted(concerned))
        return self._seconds
