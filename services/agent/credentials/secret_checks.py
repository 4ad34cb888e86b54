"""Checks the credentials of an instance's rows and composes their Argo CD Secrets, periodically.

A check contacts a server that a user names and may take ten seconds. The instance's workers never wait for one: checks
have a queue of their own. When the result is there the row is queued again, and a worker writes the Secret. The checker
limits how many checks run at once. Results are kept in memory only: drift of a Secret is repaired from memory,
without a check; an agent that takes the instance over checks everything again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import structlog

from services.agent import SERVICE
from services.agent.credentials.check_result import Checker, CheckResult
from services.agent.credentials.secret_recipe import retained_secret
from services.agent.credentials.waiting_applications import WaitingApplications
from services.agent.objects.desired_objects import desired_secret
from services.agent.objects.live import SecretReader, value_hash
from services.agent.objects.managed_kinds import ObjectKey
from services.agent.settings import AgentSettings
from services.common.backoff import Backoff
from services.common.clock import Clock
from services.common.errors import Permanent, Retry, Wait
from services.common.kubernetes import Manifest, Rejected
from services.common.messages import EngineResource
from services.common.queueing import Place, Workers, WorkQueue
from services.common.telemetry import metrics
from services.common.telemetry.logging import raised_at

log = structlog.get_logger(__name__)

Admit = Callable[[ObjectKey, EngineResource, CheckResult], Awaitable[CheckResult]]

SOONEST = 10.0
"""Minimum seconds between two checks of a row."""


@dataclass(slots=True)
class _Check:
    """The check of one row, and its newest result."""

    row: EngineResource
    good: Manifest | None
    """The Secret to apply, from the newest good result: perhaps of an older state of the row, or another agent's."""
    result: CheckResult | None = None
    error: Permanent | None = None
    delays: Backoff = field(default_factory=lambda: Backoff(first=1, limit=60))


class SecretChecks:
    """The credential checks of one instance."""

    def __init__(
        self,
        reader: SecretReader,
        checker: Checker,
        clock: Clock,
        settings: AgentSettings,
        *,
        admit: Admit,
        waiting_applications: WaitingApplications,
        on_result: Callable[[EngineResource], None],
        on_defect: Callable[[BaseException], None],
    ) -> None:
        """``admit`` is called with each result, and returns when its Secret may be applied.

        ``on_result`` is called with each row whose result is new or has changed.
        """
        self._reader, self._checker, self._clock = reader, checker, clock
        self._interval = settings.check_interval_seconds
        self._admit, self._waiting, self._on_result = admit, waiting_applications, on_result
        # At least half of it: what fails together is not to be tried again together.
        self._after_failure = Backoff(settings.failed_check_interval_seconds, settings.failed_check_interval_seconds)
        self._checks: dict[ObjectKey, _Check] = {}
        self._queue: WorkQueue[ObjectKey] = WorkQueue()
        self._workers = Workers(self._queue, self._check, clock, on_defect)
        self._workers.start()

    def result_of(self, key: ObjectKey, row: EngineResource) -> CheckResult | None:
        """The newest result for ``row``; None if there is none yet. Raises Permanent if there will never be one."""
        check = self._checks.get(key)
        if check is None or check.row.digest != row.digest:
            check = self._begin(key, row, check)
        if check.error is not None:
            raise check.error
        return check.result

    def good_secret(self, key: ObjectKey) -> Manifest | None:
        """The Secret that should exist."""
        check = self._checks.get(key)
        return check.good if check is not None else None

    def is_known(self, key: ObjectKey, row: EngineResource) -> bool:
        """Whether a check of ``row`` was started."""
        check = self._checks.get(key)
        return check is not None and check.row.digest == row.digest

    def forget_row(self, key: ObjectKey) -> None:
        """Stop composing a Secret for ``key``."""
        if self._checks.pop(key, None) is not None:
            self._workers.cancel_key(key)
            self._waiting.end_check(key)

    async def suspend(self) -> None:
        """Forget everything. When this returns, no check is running."""
        for key in list(self._checks):
            self.forget_row(key)
        await self._workers.stop()
        self._workers.start()

    def _begin(self, key: ObjectKey, row: EngineResource, former: _Check | None) -> _Check:
        self._workers.cancel_key(key)
        check = self._checks[key] = _Check(row, former.good if former else None)
        self._waiting.begin_check(key, row)
        self._queue.add_key(key, Place(row.lane))
        self._workers.start_tasks()
        return check

    async def _check(self, key: ObjectKey) -> float | None:
        """Check a row. Returns in how many seconds to check it again."""
        check = self._checks.get(key)
        if check is None:
            return None  # forgotten meanwhile
        before = _reported(check)
        try:
            live = await self._reader.read_secret(key)
            result = await self._checker.compose_secret(check.row, live)
            result = await self._admit(key, check.row, result)
            check.result, check.good, check.error = result, _good_secret(check, result, live), None
            metrics.CHECKS.labels(check.row.kind, result.reason).inc()
        except Permanent as error:
            check.error = error
        except (Retry, Wait) as error:
            log.warning("not composed yet", kind=check.row.kind, name=key.name, error=str(error))
            return check.delays.next_delay()
        except Exception as error:  # what users send must not end the process
            check.error = _defect(check.row, error)
        check.delays.reset()
        if _reported(check) != before:
            self._on_result(check.row)
        self._waiting.end_check(key)
        return self._next_check(check)

    def _next_check(self, check: _Check) -> float:
        """In how many seconds to check the row again."""
        result = check.result
        if isinstance(check.error, Rejected):
            return self._after_failure.next_delay()  # rights that are missing may be given back
        if check.error is not None or result is None:
            return self._interval  # the row itself is wrong, or we are
        if result.secret is None:
            return self._after_failure.next_delay()
        if result.renew_at is None:
            return self._interval
        return max(SOONEST, min(self._interval, (result.renew_at - self._clock.now()).total_seconds()))


def _good_secret(check: _Check, result: CheckResult, live: Manifest | None) -> Manifest | None:
    """The Secret that should exist after ``result``. Raises Permanent if the row is not as the planner compiles it."""
    if result.secret is not None:
        return desired_secret(check.row, result.secret)
    if check.good is not None or live is None:
        return check.good
    # No good result is known, as another agent had it: what is there stays, and is still repaired.
    return desired_secret(check.row, retained_secret(check.row, live))


def _reported(check: _Check) -> tuple[str, ...]:
    """What planner and API server learn of a check. A result that equals the last one changes nothing."""
    if check.error is not None:
        return ("error", str(check.error))
    if check.result is None:
        return ()
    return ("result", check.result.reason, check.result.message, value_hash(check.good))


def _defect(row: EngineResource, error: Exception) -> Permanent:
    """Where the error happened, and no more: its text may quote what it failed on."""
    metrics.count_failure(SERVICE, metrics.Failure.DEFECT, "compose")
    log.error("composing failed", kind=row.kind, name=row.name, defect=type(error).__name__, place=raised_at(error))
    return Permanent("the credentials could not be checked: an internal error")
