"""Farewells: what was made on other clusters is removed before a Secret goes, beside the pool, for a bounded time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from services.agent.beside import Beside
from services.agent.clock import Clock, Timer
from services.agent.composing import Composers
from services.agent.objects import ObjectKey
from services.common.backoff import Backoff
from services.common.errors import GitOpsError, Permanent, Retry, Wait
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
        self,
        beside: Beside,
        composers: Composers,
        clock: Clock,
        patience: timedelta,
        done: Callable[[EngineResource], None],
    ) -> None:
        """``patience``: since the deletion was asked for; then what does not answer is left behind."""
        self._beside, self._composers, self._clock = beside, composers, clock
        self._patience, self._done = patience, done
        self._disposals: dict[ObjectKey, _Disposal] = {}

    def is_done(self, key: ObjectKey, row: EngineResource) -> bool:
        """Nothing of ``row`` is left elsewhere, or nothing can be done about it. Begins what has not begun."""
        disposal = self._disposals.get(key)
        if disposal is None or disposal.row.digest != row.digest:
            self.forget(key)
            disposal = self._disposals[key] = _Disposal(row)
            self._start(key, disposal)
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
        await self._beside.ended()

    def _start(self, key: ObjectKey, disposal: _Disposal) -> None:
        disposal.task = self._beside.start(self._dispose(key, disposal), f"dispose {key.name}")

    async def _dispose(self, key: ObjectKey, disposal: _Disposal) -> None:
        row = disposal.row
        try:
            live = await self._beside.present(key)
        except GitOpsError as error:  # of an API server of ours: without it nothing goes anyway
            return self._again(key, disposal, error, self._clock.now() + self._delay(disposal))
        # One attempt at least, however long ago the deletion was asked for.
        giving_up = disposal.attempts > 0 and self._clock.now() >= row.seen_at + self._patience
        disposal.attempts += 1
        try:
            await self._composers.dispose(row, live, giving_up=giving_up)
            disposal.forced = giving_up
        except (Retry, Wait) as error:
            if not giving_up:
                return self._again(key, disposal, error, self._next_attempt(disposal))
            disposal.forced = True
        except Permanent as error:
            disposal.forced = True
            log.warning("left behind", kind=row.kind, name=row.name, error=str(error))
        except Exception as error:  # what users sent must neither end the process nor stop a deletion
            disposal.forced = True
            log.warning("left behind", kind=row.kind, name=row.name, defect=type(error).__name__)
        disposal.done = True
        return self._done(row)

    def _again(self, key: ObjectKey, disposal: _Disposal, error: GitOpsError, when: datetime) -> None:
        log.warning("not disposed yet", kind=disposal.row.kind, name=disposal.row.name, error=str(error))
        disposal.timer = self._clock.call_at(when, lambda: self._start(key, disposal))

    def _next_attempt(self, disposal: _Disposal) -> datetime:
        """The last one comes when patience ends."""
        now = self._clock.now()
        latest = max(now + timedelta(seconds=1), disposal.row.seen_at + self._patience)
        return min(now + self._delay(disposal), latest)

    def _delay(self, disposal: _Disposal) -> timedelta:
        return timedelta(seconds=disposal.delays.next())
