"""Farewells: what was made on other clusters is removed before a Secret goes, beside the pool, for a bounded time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

import structlog

from services.agent.clock import Clock, Timer
from services.agent.composing import Composers
from services.agent.objects import ObjectKey
from services.common.backoff import Backoff
from services.common.errors import Permanent, Retry, Wait
from services.common.messages import EngineResource

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Disposal:
    """One row on its way out."""

    row: EngineResource
    done: bool = False
    forced: bool = False
    attempts: int = 0
    task: asyncio.Task[None] | None = None
    timer: Timer | None = None
    delays: Backoff = field(default_factory=lambda: Backoff(first=1, limit=30))


class Disposals:
    """Rows of one instance that are on their way out."""

    def __init__(
        self, composers: Composers, clock: Clock, patience: timedelta, done: Callable[[EngineResource], None]
    ) -> None:
        """``patience``: since the deletion was asked for; then what does not answer is left behind."""
        self._composers, self._clock, self._patience, self._done = composers, clock, patience, done
        self._disposals: dict[ObjectKey, _Disposal] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def is_done(self, key: ObjectKey, row: EngineResource) -> bool:
        """Nothing of ``row`` is left elsewhere, or nothing can be done about it. Begins what has not begun."""
        disposal = self._disposals.get(key)
        if disposal is None or disposal.row.digest != row.digest:
            self.forget(key)
            disposal = self._disposals[key] = _Disposal(row)
            self._start(disposal)
        return disposal.done

    def was_forced(self, key: ObjectKey) -> bool:
        """Something may have been left behind."""
        disposal = self._disposals.get(key)
        return disposal is not None and disposal.forced

    def forget(self, key: ObjectKey) -> None:
        """It is gone, or wanted again."""
        disposal = self._disposals.pop(key, None)
        if disposal is None:
            return
        if disposal.timer is not None:
            disposal.timer.cancel()
        if disposal.task is not None:
            disposal.task.cancel()

    async def suspend(self) -> None:
        """Forget everything; when this returns nobody is asked anything."""
        for key in list(self._disposals):
            self.forget(key)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, disposal: _Disposal) -> None:
        disposal.task = asyncio.create_task(self._dispose(disposal), name=f"dispose {disposal.row.name}")
        self._tasks.add(disposal.task)
        disposal.task.add_done_callback(self._tasks.discard)

    async def _dispose(self, disposal: _Disposal) -> None:
        """One attempt at least, however long ago the deletion was asked for."""
        row, now = disposal.row, self._clock.now()
        giving_up = disposal.attempts > 0 and now >= row.seen_at + self._patience
        disposal.attempts += 1
        try:
            await self._composers.dispose(row, giving_up=giving_up)
            disposal.forced = giving_up
        except (Retry, Wait) as error:
            if not giving_up:
                return self._again(disposal, error)
            disposal.forced = True
        except Permanent as error:
            disposal.forced = True
            log.warning("left behind", kind=row.kind, name=row.name, error=str(error))
        except Exception as error:  # what users sent must neither end the process nor stop a deletion
            disposal.forced = True
            log.warning("left behind", kind=row.kind, name=row.name, defect=type(error).__name__)
        disposal.done = True
        return self._done(row)

    def _again(self, disposal: _Disposal, error: Retry | Wait) -> None:
        log.warning("not disposed yet", kind=disposal.row.kind, name=disposal.row.name, error=str(error))
        now = self._clock.now()
        latest = max(now + timedelta(seconds=1), disposal.row.seen_at + self._patience)
        when = min(now + timedelta(seconds=disposal.delays.next()), latest)
        disposal.timer = self._clock.call_at(when, lambda: self._start(disposal))
