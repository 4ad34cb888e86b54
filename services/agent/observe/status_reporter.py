"""Reports the status of objects, as the engine writes it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from services.agent.objects.live import EngineObjects, LiveObject
from services.agent.objects.managed_kinds import ObjectKey
from services.agent.objects.stale_project import saw_stale_project
from services.agent.objects.visible_status import is_out_of_sync
from services.agent.observe.change_reporter import ChangeReporter, ObjectReport
from services.agent.observe.observation_sink import ObservationSink
from services.common.clock import Clock, Timer
from services.common.json_values import dict_of
from services.common.messages import EngineResource, StatusReported

RowOf = Callable[[ObjectKey], EngineResource | None]

EMPTY = "{}"

DEBOUNCE_SECONDS = 0.5
"""How long a passing status waits for the next one before it is reported."""

STALE_SECONDS = 60.0
"""How long a refusal because of a stale AppProject waits for the next status. Planners cannot distinguish it from the
refusal of a private repository, and would show users that theirs needs a login."""

SYNC_INTERVAL_SECONDS = 5.0
"""Minimum time between two reports of a running sync. Argo CD writes nine statuses and more during a sync; the number
of reports must not depend on its speed."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A report that is sent at ``due``."""

    due: float
    timer: Timer
    is_stale: bool = False
    """Whether it waits because of a stale AppProject."""


class StatusReporter:
    """Reports the statuses of one instance's objects."""

    def __init__(self, reports: ObservationSink, live: EngineObjects, row_of: RowOf, clock: Clock) -> None:
        """``row_of`` returns the current row of an object whose status is reported, None if there is none."""
        self._live, self._row_of, self._clock = live, row_of, clock
        self._waiting: dict[ObjectKey, _Waiting] = {}
        self._last_sync_report: dict[ObjectKey, float] = {}
        """When the last report of a running sync was sent."""
        self._latest = ChangeReporter(reports, self._current, self.report_status)

    def report_status(self, key: ObjectKey) -> None:
        """Report the status of ``key`` if it differs from the last delivered one, even if it became empty.

        A lasting status, and a failed attempt to sync, are reported at once. A passing status, and a refusal because of
        a stale AppProject, wait for the next status.
        """
        live = self._live.get(key)
        if saw_stale_project(key, self._live):
            self._hold_back(key)
        elif live is None or not _is_passing(live):
            self._report(key)
        else:
            self._wait(key, self._due(key, live))

    def expect_status(self, key: ObjectKey) -> None:
        """We created the object: an empty status is no change, unless its former incarnation had one."""
        self._latest.assume_delivered(key, _digest(EMPTY))

    def forget_object(self, key: ObjectKey) -> None:
        """Forget an object that is gone. Its next incarnation is reported anew."""
        self._stop_waiting(key)
        self._last_sync_report.pop(key, None)
        self._latest.forget_object(key)

    def clear(self) -> None:
        """Forget everything: another agent may report from now on."""
        for key in list(self._waiting):
            self._stop_waiting(key)
        self._last_sync_report.clear()
        self._latest.clear()

    def _due(self, key: ObjectKey, live: LiveObject) -> float:
        soon, reported_at = self._clock.time() + DEBOUNCE_SECONDS, self._last_sync_report.get(key)
        return (
            max(soon, reported_at + SYNC_INTERVAL_SECONDS) if reported_at is not None and _is_under_way(live) else soon
        )

    def _wait(self, key: ObjectKey, due: float) -> None:
        waiting = self._waiting.get(key)
        if waiting is None or due < waiting.due:
            self._stop_waiting(key)
            self._waiting[key] = _Waiting(due, self._timer(key, due))

    def _hold_back(self, key: ObjectKey) -> None:
        """Delay a refusal because of a stale AppProject, even if an earlier report was due."""
        waiting = self._waiting.get(key)
        if waiting is None or not waiting.is_stale:
            self._stop_waiting(key)
            due = self._clock.time() + STALE_SECONDS
            self._waiting[key] = _Waiting(due, self._timer(key, due), is_stale=True)

    def _timer(self, key: ObjectKey, due: float) -> Timer:
        return self._clock.call_later(due - self._clock.time(), lambda: self._report(key))

    def _report(self, key: ObjectKey) -> None:
        self._stop_waiting(key)
        has_gone_out, live = self._latest.report_change(key), self._live.get(key)
        if live is None or not _is_under_way(live):
            self._last_sync_report.pop(key, None)
        elif has_gone_out:
            self._last_sync_report[key] = self._clock.time()

    def _stop_waiting(self, key: ObjectKey) -> None:
        waiting = self._waiting.pop(key, None)
        if waiting is not None:
            waiting.timer.cancel()

    def _current(self, key: ObjectKey) -> ObjectReport | None:
        live, row = self._live.get(key), self._row_of(key)
        if live is None or row is None:
            return None
        status = live.status or EMPTY
        return ObjectReport(row, StatusReported(status=status, resource_version=str(live.version)), _digest(status))


def _is_passing(live: LiveObject) -> bool:
    """Whether another status will follow soon, and the user need not act on this one."""
    return not live.operation.has_failed and (live.operation.in_progress or is_out_of_sync(live.status))


def _is_under_way(live: LiveObject) -> bool:
    """Whether Argo CD syncs the Application, or will by itself."""
    return live.operation.in_progress or (is_out_of_sync(live.status) and _is_automated(live))


def _is_automated(live: LiveObject) -> bool:
    return dict_of(dict_of(live.owned.get("spec")).get("syncPolicy")).get("automated") is not None


def _digest(status: str) -> bytes:
    return hashlib.blake2b(status.encode(), digest_size=16).digest()
