"""Checks the credentials of an instance's rows and composes their Argo CD Secrets, periodically.

A check contacts a server that a user names and may take ten seconds. A worker never waits for one: it starts a
background task here and ends. When the result is there the row is queued again, and a worker writes the Secret. The
checker limits how many checks run at once. Results are kept in memory only: drift of a Secret is repaired from memory,
without a check; an agent that takes the instance over checks everything again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta

import structlog

from services.agent import SERVICE
from services.agent.credentials import CheckResult, CredentialChecker
from services.agent.credentials.background_tasks import BackgroundTasks
from services.agent.credentials.waiting_applications import WaitingApplications
from services.agent.objects.desired import desired_secret
from services.agent.objects.live import fingerprint
from services.agent.objects.managed_kinds import ObjectKey
from services.common.backoff import Backoff
from services.common.clock import Clock, Timer
from services.common.errors import Permanent, Retry, Wait
from services.common.kubernetes import Manifest
from services.common.messages import EngineResource
from services.common.telemetry import metrics

log = structlog.get_logger(__name__)

Admit = Callable[[ObjectKey, EngineResource, CheckResult], Awaitable[CheckResult]]

SOONEST = timedelta(seconds=10)
"""Least time between two checks of a row."""


@dataclass(frozen=True, slots=True)
class CheckIntervals:
    """Between two checks of a row."""

    regular: timedelta
    after_failure: timedelta
    """At most, and at least half of it: what fails together is not to be tried again together."""


@dataclass(slots=True)
class _Check:
    """The check of one row and its newest result."""

    row: EngineResource
    good: Manifest | None
    """The Secret to hold: of the newest good outcome, perhaps of an older state of the row."""
    outcome: CheckResult | None = None
    error: Permanent | None = None
    task: asyncio.Task[None] | None = None
    timer: Timer | None = None
    delays: Backoff = field(default_factory=lambda: Backoff(first=1, limit=60))

    def end(self) -> None:
        """Stop what is under way."""
        if self.timer is not None:
            self.timer.cancel()
        if self.task is not None:
            self.task.cancel()


class SecretChecks:
    """Credential checks of one instance."""

    def __init__(
        self,
        tasks: BackgroundTasks,
        checker: CredentialChecker,
        clock: Clock,
        intervals: CheckIntervals,
        *,
        admit: Admit,
        waiting_applications: WaitingApplications,
        settled: Callable[[EngineResource], None],
    ) -> None:
        """``admit`` is told of each outcome, and returns when it may be held.

        ``settled`` is told of each row whose outcome is new or another.
        """
        self._tasks, self._checker, self._clock = tasks, checker, clock
        self._intervals, self._admit, self._waiting, self._settled = (
            intervals,
            admit,
            waiting_applications,
            settled,
        )
        seconds = intervals.after_failure.total_seconds()
        self._after_failure = Backoff(first=seconds, limit=seconds)
        self._checks: dict[ObjectKey, _Check] = {}

    def outcome(self, key: ObjectKey, row: EngineResource) -> CheckResult | None:
        """The newest outcome for ``row``; None while there is none yet. Raises Permanent if there never will be one."""
        check = self._checks.get(key)
        if check is None or check.row.digest != row.digest:
            check = self._begin(key, row, check)
        if check.error is not None:
            raise check.error
        return check.outcome

    def good(self, key: ObjectKey) -> Manifest | None:
        """The Secret that shall be there."""
        check = self._checks.get(key)
        return check.good if check is not None else None

    def is_known(self, key: ObjectKey, row: EngineResource) -> bool:
        """Whether a check of ``row`` was started."""
        check = self._checks.get(key)
        return check is not None and check.row.digest == row.digest

    def forget(self, key: ObjectKey) -> None:
        """Nothing shall be composed of ``key`` any more."""
        check = self._checks.pop(key, None)
        if check is not None:
            check.end()
            self._waiting.settle_secret(key)

    async def suspend(self) -> None:
        """Forget everything; no check is running when this returns."""
        for key in list(self._checks):
            self.forget(key)
        await self._tasks.wait_for_all()

    def _begin(self, key: ObjectKey, row: EngineResource, former: _Check | None) -> _Check:
        if former is not None:
            former.end()
        check = self._checks[key] = _Check(row, former.good if former else None)
        self._waiting.expect_secret(key, row)
        self._start(key, check)
        return check

    def _start(self, key: ObjectKey, check: _Check) -> None:
        check.task = self._tasks.start_task(self._make(key, check), f"compose {key.name}")

    async def _make(self, key: ObjectKey, check: _Check) -> None:
        before = _told(check)
        try:
            result = await self._checker.compose_secret(check.row, await self._tasks.read_secret(key))
            result = await self._admit(key, check.row, result)
            good = desired_secret(check.row, result.secret) if result.secret else check.good
            check.outcome, check.good, check.error = result, good, None
            metrics.CHECKS.labels(check.row.kind, result.reason).inc()
        except Permanent as error:
            check.error = error
        except (Retry, Wait) as error:
            log.warning("not composed yet", kind=check.row.kind, name=key.name, error=str(error))
            self._again(key, check, check.delays.next())
            return
        except Exception as error:  # what users send must not end the process
            check.error = _defect(check.row, error)
        check.delays.reset()
        self._again(key, check, self._next_check(check))
        if _told(check) != before:
            self._settled(check.row)
        self._waiting.settle_secret(key)

    def _again(self, key: ObjectKey, check: _Check, seconds: float) -> None:
        check.timer = self._clock.call_later(seconds, lambda: self._start(key, check))

    def _next_check(self, check: _Check) -> float:
        """In how many seconds."""
        regular, outcome = self._intervals.regular, check.outcome
        if check.error is not None or outcome is None:
            return regular.total_seconds()  # the row itself is wrong, or we are
        if outcome.secret is None:
            return self._after_failure.next()
        if outcome.renew_at is None:
            return regular.total_seconds()
        return max(SOONEST, min(regular, outcome.renew_at - self._clock.now())).total_seconds()


def _told(check: _Check) -> tuple[str, ...]:
    """What the planner and the API server are told; another outcome with the same is no news."""
    if check.error is not None:
        return ("error", str(check.error))
    if check.outcome is None:
        return ()
    return ("outcome", check.outcome.reason, check.outcome.message, fingerprint(check.good))


def _defect(row: EngineResource, error: Exception) -> Permanent:
    """Only where it happened: the text of an error may quote what it choked on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else ""
    metrics.count_failure(SERVICE, metrics.Failure.DEFECT, "compose")
    log.error("composing failed", kind=row.kind, name=row.name, defect=type(error).__name__, place=place)
    return Permanent("the credentials could not be checked: an internal error")
