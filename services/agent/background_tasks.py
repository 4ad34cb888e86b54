"""Background tasks for work that must not occupy a worker, such as informers, and calls to servers that users name."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Coroutine


class BackgroundTasks:
    """Tasks of one purpose. An exception that a task does not handle is a defect, as in the workers."""

    def __init__(self, on_defect: Callable[[BaseException], None]) -> None:
        self._on_defect = on_defect
        self._tasks: set[asyncio.Task[None]] = set()

    def start_task(self, work: Coroutine[None, None, None], name: str) -> asyncio.Task[None]:
        """Start ``work``. The caller may cancel the task."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def cancel_all(self) -> None:
        """Cancel all running tasks."""
        for task in self._tasks:
            task.cancel()

    async def wait_for_all(self) -> None:
        """Return when all tasks have ended."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            traceback.clear_frames(error.__traceback__)  # their local variables may be Secrets in clear
            self._on_defect(error)
