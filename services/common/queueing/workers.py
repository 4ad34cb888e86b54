"""Works on the keys of a queue, with one task of the running event loop for each key."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Generic

from services.common.clock import Clock, Timer
from services.common.queueing.work_queue import UNBOUNDED, KeyT, WorkQueue

Work = Callable[[KeyT], Coroutine[None, None, float | None]]
"""Returns in how many seconds to work on the key again; None: not by itself."""


class Workers(Generic[KeyT]):
    """Works on at most ``limit`` keys at a time, and on no more than the queue returns.

    An exception of ``work`` is a defect: it goes to ``on_defect``, and its key is never finished.
    """

    def __init__(
        self,
        queue: WorkQueue[KeyT],
        work: Work[KeyT],
        clock: Clock,
        on_defect: Callable[[BaseException], None],
        limit: int = UNBOUNDED,
    ) -> None:
        """Nothing runs before :meth:`start`."""
        self._queue, self._work, self._clock, self._on_defect = queue, work, clock, on_defect
        self.limit = limit
        self._tasks: dict[KeyT, asyncio.Task[float | None]] = {}
        self._paused_until = 0.0
        self._timer: Timer | None = None
        self._started = False

    def start(self) -> None:
        """Start working."""
        self._started = True
        self.start_tasks()

    async def stop(self) -> None:
        """Stop working. When this returns, nothing is in progress and the queue is empty."""
        self._started = False
        self._set_timer(None)
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()
        self._queue.clear()

    def start_tasks(self) -> None:
        """Start work on available keys, then sleep until the next is due. Called after every change of the queue."""
        if not self._started:
            return None
        now = self._clock.time()
        if now < self._paused_until:
            return self._set_timer(self._paused_until)
        while len(self._tasks) < self.limit and (key := self._queue.next_key(now)) is not None:
            task = self._tasks[key] = asyncio.create_task(self._work(key), name=f"work on {key}")
            task.add_done_callback(partial(self._ended, key))
        return self._set_timer(self._queue.next_due())

    def pause(self, seconds: float) -> None:
        """Start nothing for so long. Work in progress continues."""
        self._paused_until = self._clock.time() + seconds

    @property
    def is_paused(self) -> bool:
        """Whether nothing is started at present."""
        return self._clock.time() < self._paused_until

    def cancel_key(self, key: KeyT) -> None:
        """Remove ``key``, and cancel work on it."""
        self._queue.remove_key(key)
        task = self._tasks.get(key)
        if task is not None:
            task.cancel()

    def _ended(self, key: KeyT, task: asyncio.Task[float | None]) -> None:
        if self._tasks.get(key) is not task:
            return None  # stopped meanwhile
        del self._tasks[key]
        if task.cancelled():
            self._queue.finish_key(key)
        elif (error := task.exception()) is not None:
            traceback.clear_frames(error.__traceback__)  # their local variables may be Secrets in clear
            return self._on_defect(error)
        elif (seconds := task.result()) is None:
            self._queue.finish_key(key)
        else:
            self._queue.requeue_key_at(key, self._clock.time() + seconds)
        return self.start_tasks()

    def _set_timer(self, when: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if when is not None:
            self._timer = self._clock.call_later(max(0.0, when - self._clock.time()), self.start_tasks)
