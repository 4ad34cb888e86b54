"""Farewells: what was made on other clusters is removed before a Secret goes, beside the pool, for a bounded time.

A server that does not answer costs each attempt up to a minute, and a tenant may have any number of them. So few rows
of a tenant are under way at once, and a row is given up when patience with it ends, whether its turn has come or not:
however many there are, all are gone that long after they were asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from services.agent.beside import Beside
from services.agent.clock import Clock, Timer
from services.agent.composing import Composers
from services.agent.live_objects import LiveObjects
from services.agent.objects import ObjectKey
from services.agent.waiting_lines import WaitingLines
from services.common.backoff import Backoff
from services.common.errors import GitOpsError, Permanent, Retry, Wait
from services.common.messages import EngineResource

log = structlog.get_logger(__name__)

AT_ONCE = 4
"""Rows of one tenant under way: each holds a task and a Secret, the others nothing."""


@dataclass(slots=True)
class _Disposal:
    """One row on its way out."""

    row: EngineResource
    done: bool = False
    forced: bool = False
    attempted: bool = False
    task: asyncio.Task[None] | None = None
    timer: Timer | None = None
    delays: Backoff = field(default_factory=lambda: Backoff(first=1, limit=30))


class Disposals:
    """Rows of one instance that are on their way out."""

    def __init__(
        self,
        beside: Beside,
        composers: Composers,
        live: LiveObjects,
        clock: Clock,
        patience: timedelta,
        done: Callable[[EngineResource], None],
    ) -> None:
        """``patience``: since the deletion was asked for; then what does not answer is left behind."""
        self._beside, self._composers, self._live, self._clock = beside, composers, live, clock
        self._patience, self._done = patience, done
        self._disposals: dict[ObjectKey, _Disposal] = {}
        self._lines = WaitingLines(AT_ONCE)

    def is_done(self, key: ObjectKey, row: EngineResource) -> bool:
        """Nothing of ``row`` is left elsewhere, or nothing can be done about it. Begins what has not begun."""
        disposal = self._disposals.get(key)
        if disposal is None or disposal.row.digest != row.digest:
            self.forget(key)
            disposal = self._disposals[key] = _Disposal(row)
            if self._has_left_something(key, row):
                self._line_up(key, disposal)
            else:
                disposal.done = True
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
        self._stop_waiting(key, disposal)
        if disposal.task is not None:
            disposal.task.cancel()

    async def suspend(self) -> None:
        """Forget everything; when this returns nobody is asked anything."""
        for key in list(self._disposals):
            self.forget(key)
        await self._beside.ended()

    def _has_left_something(self, key: ObjectKey, row: EngineResource) -> bool:
        live = self._live.get(key)
        try:
            return self._composers.may_have_left(row, live.annotations if live is not None else {})
        except Permanent as error:
            log.warning("left behind", kind=row.kind, name=row.name, error=str(error))
            return False

    def _line_up(self, key: ObjectKey, disposal: _Disposal) -> None:
        """Until its turn comes, or patience ends; with a row that nobody could try yet it begins now."""
        end = self._end(disposal)
        if not disposal.attempted:
            end = max(end, self._clock.now() + self._patience)
        disposal.timer = self._clock.call_at(end, lambda: self._give_up(key, disposal))
        self._lines.enter(disposal.row.lane, key, lambda: self._start(key, disposal))

    def _stop_waiting(self, key: ObjectKey, disposal: _Disposal) -> None:
        self._lines.withdraw(disposal.row.lane, key)
        if disposal.timer is not None:
            disposal.timer.cancel()

    def _start(self, key: ObjectKey, disposal: _Disposal) -> None:
        if disposal.timer is not None:
            disposal.timer.cancel()
        disposal.task = self._beside.start(self._dispose(key, disposal), f"dispose {key.name}")
        disposal.task.add_done_callback(lambda _: self._lines.leave(disposal.row.lane))

    async def _dispose(self, key: ObjectKey, disposal: _Disposal) -> None:
        row = disposal.row
        try:
            live = await self._beside.present(key)
        except GitOpsError as error:  # of an API server of ours: without it nothing goes anyway
            return self._again(key, disposal, error)
        disposal.attempted = True
        try:
            await self._composers.dispose(row, live)
        except (Retry, Wait) as error:
            if self._clock.now() >= self._end(disposal):
                return self._give_up(key, disposal)
            return self._again(key, disposal, error)
        except Permanent as error:
            disposal.forced = True
            log.warning("left behind", kind=row.kind, name=row.name, error=str(error))
        except Exception as error:  # what users sent must neither end the process nor stop a deletion
            disposal.forced = True
            log.warning("left behind", kind=row.kind, name=row.name, defect=type(error).__name__)
        return self._settle(disposal)

    def _again(self, key: ObjectKey, disposal: _Disposal, error: GitOpsError) -> None:
        log.warning("not disposed yet", kind=disposal.row.kind, name=disposal.row.name, error=str(error))
        now, end = self._clock.now(), self._end(disposal)
        when = now + timedelta(seconds=disposal.delays.next())
        if now < end < when:
            when = end  # the last attempt comes when patience ends
        disposal.timer = self._clock.call_at(when, lambda: self._line_up(key, disposal))

    def _give_up(self, key: ObjectKey, disposal: _Disposal) -> None:
        self._stop_waiting(key, disposal)
        disposal.forced = True
        log.warning("left behind", kind=disposal.row.kind, name=disposal.row.name, error="its cluster was silent")
        self._settle(disposal)

    def _end(self, disposal: _Disposal) -> datetime:
        return disposal.row.seen_at + self._patience

    def _settle(self, disposal: _Disposal) -> None:
        disposal.done = True
        self._done(disposal.row)
