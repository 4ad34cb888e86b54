"""Reports of the engine's status of objects."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import timedelta

from services.agent.clock import Clock, Timer
from services.agent.latest_reports import LatestReports, Report
from services.agent.live_objects import LiveObjects
from services.agent.objects import LiveObject, ObjectKey
from services.agent.reports import Reports
from services.agent.status import is_out_of_sync
from services.common.messages import EngineResource, StatusReported

RowOf = Callable[[ObjectKey], EngineResource | None]

EMPTY = "{}"

PATIENCE = timedelta(milliseconds=500)
"""How long a status that is about to change again waits for that: a sync passes five or more within a second."""


class StatusReports:
    """Statuses of one instance's objects."""

    def __init__(self, reports: Reports, live: LiveObjects, row_of: RowOf, clock: Clock) -> None:
        """``row_of`` knows the present row of an object whose status is reported, None if there is none."""
        self._live, self._row_of, self._clock = live, row_of, clock
        self._waiting: dict[ObjectKey, Timer] = {}
        self._latest = LatestReports(reports, self._current)

    def look(self, key: ObjectKey) -> None:
        """Report the status of ``key`` if it differs from the last one delivered; one that became empty, too.

        At once if it is one to stay with; what Argo CD says while it works, after a while at the latest.
        """
        live = self._live.get(key)
        if live is None or not _is_passing(live):
            self._report(key)
        elif key not in self._waiting:
            self._waiting[key] = self._clock.call_at(self._clock.now() + PATIENCE, lambda: self._report(key))

    def begin(self, key: ObjectKey) -> None:
        """We made the object: that it has no status yet is no news, unless its former incarnation had one."""
        self._latest.presume(key, _digest(EMPTY))

    def forget(self, key: ObjectKey) -> None:
        """The object is gone; its next incarnation is reported anew."""
        self._stop_waiting(key)
        self._latest.forget(key)

    def clear(self) -> None:
        """What was delivered may be superseded by somebody else's reports."""
        for key in list(self._waiting):
            self._stop_waiting(key)
        self._latest.clear()

    def _report(self, key: ObjectKey) -> None:
        self._stop_waiting(key)
        self._latest.look(key)

    def _stop_waiting(self, key: ObjectKey) -> None:
        timer = self._waiting.pop(key, None)
        if timer is not None:
            timer.cancel()

    def _current(self, key: ObjectKey) -> Report | None:
        live, row = self._live.get(key), self._row_of(key)
        if live is None or row is None:
            return None
        status = live.status or EMPTY
        return Report(row, StatusReported(status=status, resource_version=str(live.version)), _digest(status))


def _is_passing(live: LiveObject) -> bool:
    return live.operation.in_progress or is_out_of_sync(live.status)


def _digest(status: str) -> bytes:
    return hashlib.blake2b(status.encode(), digest_size=16).digest()
