"""Removes service accounts on tenants' clusters before the Argo CD Secrets that know them are deleted.

A cluster that does not answer costs each attempt up to a minute, and a tenant may have any number of such clusters. So
only a few rows of a tenant are worked on at once, in background tasks, and each row has a deadline counted from its
deletion, whether an attempt was made or not. After the deadline the account is left behind and the deletion goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from services.agent.credentials.check_result import Checker
from services.agent.objects.live import EngineObjects, SecretReader
from services.agent.objects.managed_kinds import ObjectKey
from services.common.backoff import Backoff
from services.common.clock import Clock, Timer
from services.common.errors import GitOpsError, Permanent, Retry, Wait
from services.common.messages import EngineResource
from services.common.queueing import Place, Workers, WorkQueue

log = structlog.get_logger(__name__)

AT_ONCE = 4
"""How many rows of one tenant are cleaned up at a time. Each holds a task and a Secret in memory."""


@dataclass(slots=True)
class _Cleanup:
    """The removal of one row's account."""

    row: EngineResource
    done: bool = False
    forced: bool = False
    attempted: bool = False
    timer: Timer | None = None
    """Set while the cleanup waits for its turn."""
    delays: Backoff = field(default_factory=lambda: Backoff(first=1, limit=30))


class AccountCleanups:
    """The account removals of one instance."""

    def __init__(
        self,
        reader: SecretReader,
        checker: Checker,
        live: EngineObjects,
        clock: Clock,
        *,
        deletion_timeout: timedelta,
        on_done: Callable[[EngineResource], None],
        on_defect: Callable[[BaseException], None],
    ) -> None:
        """``deletion_timeout``: from the deletion request until an account that cannot be removed is left behind."""
        self._reader, self._checker, self._live, self._clock = reader, checker, live, clock
        self._deletion_timeout, self._on_done = deletion_timeout, on_done
        self._cleanups: dict[ObjectKey, _Cleanup] = {}
        self._queue: WorkQueue[ObjectKey] = WorkQueue(limit_per_lane=AT_ONCE)
        self._workers = Workers(self._queue, self._clean_up, clock, on_defect)
        self._workers.start()

    def is_done(self, key: ObjectKey, row: EngineResource) -> bool:
        """Whether the account is removed, or given up. Starts the removal if it was not started."""
        cleanup = self._cleanups.get(key)
        if cleanup is None or cleanup.row.digest != row.digest:
            self.forget_row(key)
            cleanup = self._cleanups[key] = _Cleanup(row)
            if self._has_left_something(key, row):
                self._queue.add_key(key, Place(row.lane))
                self._await_turn(key, cleanup)
                self._workers.start_tasks()
            else:
                cleanup.done = True
        return cleanup.done

    def was_forced(self, key: ObjectKey) -> bool:
        """Whether an account may have been left behind."""
        cleanup = self._cleanups.get(key)
        return cleanup is not None and cleanup.forced

    def forget_row(self, key: ObjectKey) -> None:
        """Forget a row that is gone, or is desired again."""
        cleanup = self._cleanups.pop(key, None)
        if cleanup is not None:
            self._stop_waiting(cleanup)
            self._workers.cancel_key(key)

    async def suspend(self) -> None:
        """Forget everything. When this returns, no cleanup is running."""
        for key in list(self._cleanups):
            self.forget_row(key)
        await self._workers.stop()
        self._workers.start()

    def _has_left_something(self, key: ObjectKey, row: EngineResource) -> bool:
        live = self._live.get(key)
        try:
            return self._checker.may_have_account(row, live.annotations if live is not None else {})
        except Permanent as error:
            log.warning("left behind", kind=row.kind, name=row.name, error=str(error))
            return False

    def _await_turn(self, key: ObjectKey, cleanup: _Cleanup, delay: float = 0.0) -> None:
        """Wait until the cleanup's deadline. For a row that was not attempted yet the time begins now."""
        seconds = (self._deadline(cleanup) - self._clock.now()).total_seconds()
        if not cleanup.attempted:
            seconds = max(seconds, self._deletion_timeout.total_seconds())
        seconds = seconds if seconds > 0 else delay
        cleanup.timer = self._clock.call_later(seconds, lambda: self._try_last(key, cleanup))

    def _stop_waiting(self, cleanup: _Cleanup) -> None:
        if cleanup.timer is not None:
            cleanup.timer.cancel()

    def _try_last(self, key: ObjectKey, cleanup: _Cleanup) -> None:
        """The deadline has come: attempt the removal if that is possible at once, otherwise give it up."""
        self._queue.add_key(key, Place(cleanup.row.lane))
        self._workers.start_tasks()
        if not self._queue.is_in_progress(key):
            self._queue.remove_key(key)
            self._give_up(cleanup)

    async def _clean_up(self, key: ObjectKey) -> float | None:
        cleanup = self._cleanups.get(key)
        if cleanup is None:
            return None
        self._stop_waiting(cleanup)
        row = cleanup.row
        try:
            live = await self._reader.read_secret(key)
        except GitOpsError as error:  # of an API server of ours: without it nothing goes anyway
            return self._postpone(key, cleanup, error)
        cleanup.attempted = True
        try:
            await self._checker.remove_account(row, live)
        except (Retry, Wait) as error:
            if self._clock.now() < self._deadline(cleanup):
                return self._postpone(key, cleanup, error)
            self._give_up(cleanup)
            return None
        except Permanent as error:
            cleanup.forced = True
            log.warning("left behind", kind=row.kind, name=row.name, error=str(error))
        except Exception as error:  # what users sent must neither end the process nor stop a deletion
            cleanup.forced = True
            log.warning("left behind", kind=row.kind, name=row.name, defect=type(error).__name__)
        self._end_cleanup(cleanup)
        return None

    def _postpone(self, key: ObjectKey, cleanup: _Cleanup, error: GitOpsError) -> float:
        """In how many seconds to try again. The last attempt is at the deadline."""
        log.warning("account not removed yet", kind=cleanup.row.kind, name=cleanup.row.name, error=str(error))
        seconds = cleanup.delays.next_delay()
        self._await_turn(key, cleanup, seconds)
        return seconds

    def _give_up(self, cleanup: _Cleanup) -> None:
        cleanup.forced = True
        log.warning("left behind", kind=cleanup.row.kind, name=cleanup.row.name, error="its cluster was silent")
        self._end_cleanup(cleanup)

    def _deadline(self, cleanup: _Cleanup) -> datetime:
        return cleanup.row.seen_at + self._deletion_timeout

    def _end_cleanup(self, cleanup: _Cleanup) -> None:
        cleanup.done = True
        self._on_done(cleanup.row)
