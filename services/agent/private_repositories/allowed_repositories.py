"""Which repositories Argo CD may read: it connects to them from inside the operator's network.

The host is checked in a background task, once for all of a tenant's Applications with the same URL, and again with
every full comparison. An Application is not created or pointed at a repository before the result is known; one that
already reads it goes on meanwhile. If a repository is refused later, its Applications report that and are not applied
any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from services.agent.credentials import CredentialChecker
from services.agent.credentials.background_tasks import BackgroundTasks
from services.agent.objects.desired import source_url
from services.agent.objects.live import EngineObjects
from services.agent.objects.managed_kinds import ObjectKey
from services.common.errors import Permanent
from services.common.kubernetes import Manifest
from services.common.messages import EngineResource
from services.common.queueing import in_slices
from services.kinds.gitops_deployment import catalogue as deployment

Place = tuple[str, str]
"""A tenant, and the URL of a repository that it names."""


@dataclass(slots=True)
class _Repository:
    """One repository of one tenant."""

    readers: set[ObjectKey] = field(default_factory=set)
    waiting: set[ObjectKey] = field(default_factory=set)
    """Readers that could not be applied before it is known."""
    refusal: str | None = None
    """Why Argo CD must not read it, empty if it may; None while that is not known."""
    task: asyncio.Task[None] | None = None


class AllowedRepositories:
    """Repositories of one instance's Applications."""

    def __init__(
        self,
        tasks: BackgroundTasks,
        checker: CredentialChecker,
        live: EngineObjects,
        settled: Callable[[Iterable[ObjectKey]], None],
    ) -> None:
        """``settled`` is told of Applications that have to be looked at, as the answer is new or another."""
        self._tasks, self._checker, self._live, self._settled = tasks, checker, live, settled
        self._repositories: dict[Place, _Repository] = {}
        self._places: dict[ObjectKey, Place] = {}

    def admits(self, key: ObjectKey, row: EngineResource, desired: Manifest) -> bool:
        """Whether the Application ``desired`` may be applied now; if not, it is named when that is known.

        Raises Permanent, with a text for users, if its repository is refused.
        """
        url = source_url(desired)
        repository = self._repository(key, (row.tenant, url))
        if repository.refusal:
            raise Permanent(deployment.REPOSITORY_REFUSED.text(problem=repository.refusal))
        live = self._live.get(key)
        if repository.refusal is None and (live is None or source_url(live.owned) != url):
            repository.waiting.add(key)
            return False
        return True

    def is_settled(self, key: ObjectKey) -> bool:
        """Nobody has anything against the repository that ``key`` was last to read; it was asked for at least."""
        place = self._places.get(key)
        return place is not None and not self._repositories[place].refusal

    async def look_again(self) -> None:
        """A name may lead elsewhere than it did."""
        async for place, repository in in_slices(list(self._repositories.items())):
            if repository.task is None and self._repositories.get(place) is repository:
                self._look(place, repository)

    def forget(self, key: ObjectKey) -> None:
        """``key`` reads no repository any more."""
        place = self._places.pop(key, None)
        if place is None:
            return
        repository = self._repositories[place]
        repository.readers.discard(key)
        repository.waiting.discard(key)
        if not repository.readers:
            del self._repositories[place]
            if repository.task is not None:
                repository.task.cancel()

    async def suspend(self) -> None:
        """Forget everything; when this returns nobody is asked anything."""
        for key in list(self._places):
            self.forget(key)
        await self._tasks.wait_for_all()

    def _repository(self, key: ObjectKey, place: Place) -> _Repository:
        if self._places.get(key) != place:
            self.forget(key)
            self._places[key] = place
        repository = self._repositories.get(place)
        if repository is None:
            repository = self._repositories[place] = _Repository()
            self._look(place, repository)
        repository.readers.add(key)
        return repository

    def _look(self, place: Place, repository: _Repository) -> None:
        repository.task = self._tasks.start_task(self._judge(place, repository), "judge repository")

    async def _judge(self, place: Place, repository: _Repository) -> None:
        tenant, url = place
        before, repository.refusal = repository.refusal, await self._checker.refusal_of_repository(url, tenant)
        repository.task = None
        concerned = repository.readers if before or repository.refusal else repository.waiting
        repository.waiting = set()
        if before != repository.refusal:
            self._settled(sorted(concerned))
