"""Reconciles queued objects: a bounded number at once, none while the instance does not answer.

The one place that maps an error to what happens next:
  Conflict            the object again, after its own backoff
  Wait                the object again, after its own, longer backoff, or when it is queued
  Retry               the whole instance is paused: nothing of it is tried until the backoff is over, and then one
                      object alone until a call succeeds
  anything else       a defect: handed to ``on_defect``, which ends the process; nothing is acknowledged
Permanent never comes here: ``work`` turns it into an observation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime

import structlog

from services.agent import SERVICE
from services.agent.objects.managed_kinds import ObjectKey
from services.common.backoff import Backoff, KeyedBackoff
from services.common.clock import Clock
from services.common.errors import Retry, Wait
from services.common.kubernetes import Conflict
from services.common.queueing import Workers, WorkQueue
from services.common.telemetry import metrics

log = structlog.get_logger(__name__)

PAUSE_LIMIT_SECONDS = 15.0
WAIT_LIMIT_SECONDS = 30.0


Work = Callable[[ObjectKey], Awaitable[datetime | None]]
"""Returns when to queue the object again; None: only an event queues it."""


class InstanceWorkers:
    """The workers of one instance's queue."""

    def __init__(
        self,
        instance: str,
        queue: WorkQueue[ObjectKey],
        work: Work,
        limit: int,
        clock: Clock,
        on_defect: Callable[[BaseException], None],
    ) -> None:
        """Nothing runs before :meth:`resume`."""
        self._instance, self._work, self._limit, self._clock = instance, work, limit, clock
        self._workers = Workers(queue, self._work_on, clock, on_defect, limit)
        self._retries: KeyedBackoff[ObjectKey] = KeyedBackoff(PAUSE_LIMIT_SECONDS)
        self._waits: KeyedBackoff[ObjectKey] = KeyedBackoff(WAIT_LIMIT_SECONDS)
        self._pauses = Backoff(limit=PAUSE_LIMIT_SECONDS)

    def resume(self) -> None:
        """Start working."""
        self._workers.start()

    async def suspend(self) -> None:
        """Stop working. When this returns, no call is in flight and the queue is empty."""
        await self._workers.stop()
        self._retries.clear()
        self._waits.clear()

    def start_tasks(self) -> None:
        """Start tasks for queued objects. Called after every change of the queue."""
        self._workers.start_tasks()

    async def _work_on(self, key: ObjectKey) -> float | None:
        try:
            again = await self._work(key)
        except Retry as error:
            if isinstance(error, Conflict):
                self._end_pause()
            else:
                self._pause()
            return self._postpone(key, error, self._retries.next_delay(key))
        except Wait as error:
            self._end_pause()
            return self._postpone(key, error, self._waits.next_delay(key))
        self._end_pause()
        if again is not None:
            return (again - self._clock.now()).total_seconds()
        self._retries.forget_key(key)
        self._waits.forget_key(key)
        return None

    def _pause(self) -> None:
        """Pause, because the instance does not answer. Tasks that failed together count as one failure."""
        if not self._workers.is_paused:
            self._workers.pause(self._pauses.next_delay())
        self._workers.limit = 1

    def _end_pause(self) -> None:
        self._pauses.reset()
        self._workers.limit = self._limit

    def _postpone(self, key: ObjectKey, error: Retry | Wait, seconds: float) -> float:
        metrics.count_failure(SERVICE, error, "apply")
        log.warning("not applied yet", instance=self._instance, kind=key.kind, name=key.name, error=str(error))
        return seconds
