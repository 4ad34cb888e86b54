"""Works a queue: a bounded number of objects at once, none while the instance does not answer.

The one place that maps an error to what happens next:
  Conflict            the object again, after its own backoff
  Wait                the object again, after its own, longer backoff, or when it is marked
  Retry               the whole instance is parked: nothing of it is tried until the backoff is over, and then one
                      object alone until a call succeeds
  anything else       a defect: handed to ``on_defect``, which ends the process; nothing is acknowledged
Permanent never comes here: ``work`` turns it into an observation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from services.agent import SERVICE
from services.agent.clock import Clock, Timer
from services.agent.objects import ObjectKey
from services.agent.work_queue import WorkQueue
from services.common.backoff import Backoff
from services.common.errors import Retry, Wait
from services.common.kube import Conflict
from services.common.telemetry import metrics

log = structlog.get_logger(__name__)

PARK_LIMIT_SECONDS = 15.0
WAIT_LIMIT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class LookAgain:
    """Nothing more can be done before ``at``."""

    at: datetime


Work = Callable[[ObjectKey], Awaitable[LookAgain | None]]


class Pool:
    """At most ``limit`` objects of ``queue`` are worked on at once."""

    def __init__(
        self,
        instance: str,
        queue: WorkQueue,
        work: Work,
        limit: int,
        clock: Clock,
        on_defect: Callable[[BaseException], None],
    ) -> None:
        """Nothing runs before :meth:`resume`."""
        self._instance, self._queue, self._work, self._limit = instance, queue, work, limit
        self._clock, self._on_defect = clock, on_defect
        self._running: dict[ObjectKey, asyncio.Task[None]] = {}
        self._delays: dict[ObjectKey, Backoff] = {}
        self._parking = Backoff(limit=PARK_LIMIT_SECONDS)
        self._parked_until: datetime | None = None
        self._timer: Timer | None = None
        self._open = False

    @property
    def parked(self) -> bool:
        """The instance did not answer the last call."""
        return not self._parking.fresh

    def resume(self) -> None:
        """Start working."""
        self._open = True
        self.kick()

    async def suspend(self) -> None:
        """Stop working: when this returns no call is in flight and the queue is empty."""
        self._open = False
        self._set_timer(None)
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._running.clear()
        self._queue.clear()
        self._delays.clear()

    def kick(self) -> None:
        """Start what can be started, then sleep until something is due. Called after every change of the queue."""
        if not self._open:
            return
        now = self._clock.now()
        if self._parked_until is not None and self._parked_until > now:
            self._set_timer(self._parked_until)
            return
        self._parked_until = None
        while len(self._running) < (1 if self.parked else self._limit) and (key := self._queue.take(now)):
            self._running[key] = asyncio.create_task(self._run(key), name=f"apply {key.name}")
        self._set_timer(self._queue.due())

    async def _run(self, key: ObjectKey) -> None:
        try:
            verdict = await self._work(key)
        except (Retry, Wait) as error:
            self._postpone(key, error)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # not swallowed: it ends the process
            self._on_defect(error)
            raise
        else:
            self._settle(key, verdict)
        del self._running[key]
        self.kick()

    def _settle(self, key: ObjectKey, verdict: LookAgain | None) -> None:
        self._parking.reset()
        if verdict is None:
            self._delays.pop(key, None)
            self._queue.finish(key)
        else:
            self._queue.wait(key, verdict.at)

    def _postpone(self, key: ObjectKey, error: Retry | Wait) -> None:
        delay = self._delay_of(key, WAIT_LIMIT_SECONDS if isinstance(error, Wait) else PARK_LIMIT_SECONDS)
        metrics.count_failure(SERVICE, error, "apply")
        log.warning("not applied yet", instance=self._instance, kind=key.kind, name=key.name, error=str(error))
        if isinstance(error, Retry) and not isinstance(error, Conflict):
            # Tasks that failed together are one failure.
            if self._parked_until is None:
                self._parked_until = self._in(self._parking.next())
        else:
            self._parking.reset()
        self._queue.wait(key, self._in(delay))

    def _delay_of(self, key: ObjectKey, limit: float) -> float:
        return self._delays.setdefault(key, Backoff(limit=limit)).next()

    def _in(self, seconds: float) -> datetime:
        return self._clock.now() + timedelta(seconds=seconds)

    def _set_timer(self, when: datetime | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.call_at(when, self.kick) if when is not None else None
