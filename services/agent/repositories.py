"""Which repositories Argo CD may be told to read: its connection is made inside the operator's network.

What a host resolves to is asked beside the pool, once for all of a tenant's Applications that name the same URL, and
again with every full comparison. An Application is neither made nor turned to a repository before the answer is known;
one that reads it already goes on meanwhile. A repository that is refused later is told of, and its Application is not
applied any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from services.agent.beside import Beside
from services.agent.composing import Composers
from services.agent.live_objects import LiveObjects
from services.agent.objects import ObjectKey, source_url
from services.common.api.catalogue import deployment
from services.common.errors import Permanent
from services.common.kube import Manifest
from services.common.messages import EngineResource

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


class Repositories:
    """Repositories of one instance's Applications."""

    def __init__(
        self,
        beside: Beside,
        composers: Composers,
        live: LiveObjects,
        settled: Callable[[Iterable[ObjectKey]], None],
    ) -> None:
        """``settled`` is told of Applications that have to be looked at, as the answer is new or another."""
        self._beside, self._composers, self._live, self._settled = beside, composers, live, settled
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

    def look_again(self) -> None:
        """A name may lead elsewhere than it did."""
        for place, repository in self._repositories.items():
            if repository.task is None:
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
        await self._beside.ended()

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
        repository.task = self._beside.start(self._judge(place, repository), "judge repository")

    async def _judge(self, place: Place, repository: _Repository) -> None:
        tenant, url = place
        before, repository.refusal = repository.refusal, await self._composers.refusal_of_repository(url, tenant)
        repository.task = None
        concerned = repository.readers if before or repository.refusal else repository.waiting
        repository.waiting = set()
        if before != repository.refusal:
            self._settled(sorted(concerned))
