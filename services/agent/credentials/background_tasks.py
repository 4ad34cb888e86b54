"""Background tasks: they contact tenants' servers, which no worker may wait for."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Coroutine

from services.agent.objects.managed_kinds import SECRET_KIND, ObjectKey
from services.common.kubernetes import KubeClient, Manifest, NotFound

LOOKUPS = 4
"""Reads of present Secrets at once: after a take-over every one is read, and others need the API server too."""


class BackgroundTasks:
    """Tasks of one purpose. What one of them does not handle is a defect, as in the pool."""

    def __init__(self, cluster: KubeClient, on_defect: Callable[[BaseException], None]) -> None:
        self._cluster, self.report_defect = cluster, on_defect
        self._tasks: set[asyncio.Task[None]] = set()
        self._lookups = asyncio.Semaphore(LOOKUPS)

    def start_task(self, work: Coroutine[None, None, None], name: str) -> asyncio.Task[None]:
        """Start ``work``; whoever needs it no longer cancels it."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def cancel_all(self) -> None:
        """Nobody needs any of them any longer."""
        for task in self._tasks:
            task.cancel()

    async def wait_for_all(self) -> None:
        """Return when all have ended."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def read_secret(self, key: ObjectKey) -> Manifest | None:
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
            self.report_defect(error)
