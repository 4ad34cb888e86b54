"""Work beside the pool: tasks that ask servers of strangers, which no worker of the pool may wait for."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Coroutine

from services.agent.cluster import Cluster
from services.agent.kinds import SECRET_KIND
from services.agent.objects import ObjectKey
from services.common.kube import Manifest, NotFound

LOOKUPS = 4
"""Reads of present Secrets at once: after a take-over every one is read, and others need the API server too."""


class Beside:
    """Tasks of one purpose. What one of them does not handle is a defect, as in the pool."""

    def __init__(self, cluster: Cluster, on_defect: Callable[[BaseException], None]) -> None:
        self._cluster, self._on_defect = cluster, on_defect
        self._tasks: set[asyncio.Task[None]] = set()
        self._lookups = asyncio.Semaphore(LOOKUPS)

    def start(self, work: Coroutine[None, None, None], name: str) -> asyncio.Task[None]:
        """Begin ``work``; whoever wants it no longer cancels it."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def cancel(self) -> None:
        """Nobody wants any of it any longer."""
        for task in self._tasks:
            task.cancel()

    async def ended(self) -> None:
        """Return when nothing is under way any more."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def present(self, key: ObjectKey) -> Manifest | None:
        """The Secret as it is now, None if there is none. Raises what a cluster raises."""
        async with self._lookups:
            try:
                return await self._cluster.get(SECRET_KIND.resource, key.namespace, key.name)
            except NotFound:
                return None

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            traceback.clear_frames(error.__traceback__)  # their local variables are Secrets in clear
            self._on_defect(error)
