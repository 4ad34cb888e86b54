"""Secrets in the making: rows are opened, checked and composed beside the pool, again and again.

Asking the servers that users name takes up to ten seconds each. So no worker of the pool waits for it: work on such a
row begins a task here and ends; when the outcome is there the row is marked, and the pool does the rest. How many
tasks really run at once is the composers' business. Outcomes are kept in memory only: drift of a Secret is repaired
at once, without asking anybody; whoever takes the instance over composes everything anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from services.agent import SERVICE
from services.agent.beside import Beside
from services.agent.clock import Clock, Timer
from services.agent.composing import Composers
from services.agent.credentials import Composition
from services.agent.objects import ObjectKey, desired_secret, fingerprint
from services.common.backoff import Backoff
from services.common.errors import Permanent, Retry, Wait
from services.common.kube import Manifest
from services.common.messages import EngineResource
from services.common.telemetry import metrics

log = structlog.get_logger(__name__)

Admit = Callable[[ObjectKey, EngineResource, Composition], Awaitable[Composition]]

SOONEST = timedelta(seconds=10)
"""Between two checks of a row, whatever its composer says."""


@dataclass(frozen=True, slots=True)
class CheckIntervals:
    """Between two checks of a row."""

    regular: timedelta
    after_failure: timedelta
    """At most, and at least half of it: what fails together is not to be tried again together."""


@dataclass(slots=True)
class _Making:
    """One row in the making."""

    row: EngineResource
    good: Manifest | None
    """The Secret to hold: of the newest good outcome, perhaps of an older state of the row."""
    outcome: Composition | None = None
    error: Permanent | None = None
    task: asyncio.Task[None] | None = None
    timer: Timer | None = None
    delays: Backoff = field(default_factory=lambda: Backoff(first=1, limit=60))

    @property
    def is_open(self) -> bool:
        """Nothing is known yet of this state of the row."""
        return self.outcome is None and self.error is None

    def end(self) -> None:
        """Stop what is under way."""
        if self.timer is not None:
            self.timer.cancel()
        if self.task is not None:
            self.task.cancel()


class Compositions:
    """Secrets in the making, of one instance."""

    def __init__(
        self,
        beside: Beside,
        composers: Composers,
        clock: Clock,
        intervals: CheckIntervals,
        admit: Admit,
        settled: Callable[[EngineResource], None],
    ) -> None:
        """``admit`` is told of each outcome, and returns when it may be held.

        ``settled`` is told of each row whose outcome is new or another.
        """
        self._beside, self._composers, self._clock = beside, composers, clock
        self._intervals, self._admit, self._settled = intervals, admit, settled
        seconds = intervals.after_failure.total_seconds()
        self._after_failure = Backoff(first=seconds, limit=seconds)
        self._making: dict[ObjectKey, _Making] = {}

    def outcome(self, key: ObjectKey, row: EngineResource) -> Composition | None:
        """The newest outcome for ``row``; None while there is none yet. Raises Permanent if there never will be one."""
        making = self._making.get(key)
        if making is None or making.row.digest != row.digest:
            making = self._begin(key, row, making)
        if making.error is not None:
            raise making.error
        return making.outcome

    def good(self, key: ObjectKey) -> Manifest | None:
        """The Secret that shall be there."""
        making = self._making.get(key)
        return making.good if making is not None else None

    def is_known(self, key: ObjectKey, row: EngineResource) -> bool:
        """``row`` is in the making, or made."""
        making = self._making.get(key)
        return making is not None and making.row.digest == row.digest

    def open_rows(self) -> list[tuple[ObjectKey, EngineResource]]:
        """Rows of which nothing is known yet."""
        return [(key, making.row) for key, making in self._making.items() if making.is_open]

    def forget(self, key: ObjectKey) -> None:
        """Nothing shall be composed of ``key`` any more."""
        making = self._making.pop(key, None)
        if making is not None:
            making.end()

    async def suspend(self) -> None:
        """Forget everything; when this returns nobody is asked anything."""
        for key in list(self._making):
            self.forget(key)
        await self._beside.ended()

    def _begin(self, key: ObjectKey, row: EngineResource, former: _Making | None) -> _Making:
        if former is not None:
            former.end()
        making = self._making[key] = _Making(row, former.good if former else None)
        self._start(key, making)
        return making

    def _start(self, key: ObjectKey, making: _Making) -> None:
        making.task = self._beside.start(self._make(key, making), f"compose {key.name}")

    async def _make(self, key: ObjectKey, making: _Making) -> None:
        before = _told(making)
        try:
            composition = await self._composers.compose(making.row, await self._beside.present(key))
            composition = await self._admit(key, making.row, composition)
            good = desired_secret(making.row, composition.secret) if composition.secret else making.good
            making.outcome, making.good, making.error = composition, good, None
            metrics.CHECKS.labels(making.row.kind, composition.reason).inc()
        except Permanent as error:
            making.error = error
        except (Retry, Wait) as error:
            log.warning("not composed yet", kind=making.row.kind, name=key.name, error=str(error))
            self._again(key, making, self._clock.now() + timedelta(seconds=making.delays.next()))
            return
        except Exception as error:  # what users send must not end the process
            making.error = _defect(making.row, error)
        making.delays.reset()
        self._again(key, making, self._next_check(making))
        if _told(making) != before:
            self._settled(making.row)

    def _again(self, key: ObjectKey, making: _Making, when: datetime) -> None:
        making.timer = self._clock.call_at(when, lambda: self._start(key, making))

    def _next_check(self, making: _Making) -> datetime:
        now, outcome = self._clock.now(), making.outcome
        regular = now + self._intervals.regular
        if making.error is not None or outcome is None:
            return regular  # the row itself is wrong, or we are
        if outcome.secret is None:
            return now + timedelta(seconds=self._after_failure.next())
        return max(now + SOONEST, min(regular, outcome.renew_at)) if outcome.renew_at is not None else regular


def _told(making: _Making) -> tuple[str, ...]:
    """What the planner and the API server are told; another outcome with the same is no news."""
    if making.error is not None:
        return ("error", str(making.error))
    if making.outcome is None:
        return ()
    return ("outcome", making.outcome.reason, making.outcome.message, fingerprint(making.good))


def _defect(row: EngineResource, error: Exception) -> Permanent:
    """Only where it happened: the text of an error may quote what it choked on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else ""
    metrics.count_failure(SERVICE, metrics.Failure.DEFECT, "compose")
    log.error("composing failed", kind=row.kind, name=row.name, defect=type(error).__name__, place=place)
    return Permanent("the credentials could not be checked: an internal error")
