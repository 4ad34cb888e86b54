"""Reports of the engine's status of objects."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from services.agent.clock import Clock, Timer
from services.agent.latest_reports import LatestReports, Report
from services.agent.live_objects import LiveObjects
from services.agent.objects import LiveObject, ObjectKey
from services.agent.reports import Reports
from services.agent.status import is_out_of_sync
from services.common.json_values import dict_of
from services.common.messages import EngineResource, StatusReported

RowOf = Callable[[ObjectKey], EngineResource | None]

EMPTY = "{}"

PATIENCE = timedelta(milliseconds=500)
"""How long a status that is about to change again waits for that."""

PACE = timedelta(seconds=5)
"""From one report of a sync under way to the next. Argo CD says nine things and more on the way, each as late as its
machine is slow: what is merged must not depend on how quickly they follow each other."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A report that goes out at ``due``."""

    due: datetime
    timer: Timer


class StatusReports:
    """Statuses of one instance's objects."""

    def __init__(self, reports: Reports, live: LiveObjects, row_of: RowOf, clock: Clock) -> None:
        """``row_of`` knows the present row of an object whose status is reported, None if there is none."""
        self._live, self._row_of, self._clock = live, row_of, clock
        self._waiting: dict[ObjectKey, _Waiting] = {}
        self._told: dict[ObjectKey, datetime] = {}
        """When the last report of the sync that is under way went out."""
        self._latest = LatestReports(reports, self._current, self.look)

    def look(self, key: ObjectKey) -> None:
        """Report the status of ``key`` if it differs from the last one delivered; one that became empty, too.

        At once if it is one to stay with, or says that an attempt to sync has failed; what Argo CD says on the way
        waits for what follows.
        """
        live = self._live.get(key)
        if live is None or not _is_passing(live):
            self._report(key)
        else:
            self._wait(key, self._due(key, live))

    def begin(self, key: ObjectKey) -> None:
        """We made the object: that it has no status yet is no news, unless its former incarnation had one."""
        self._latest.presume(key, _digest(EMPTY))

    def forget(self, key: ObjectKey) -> None:
        """The object is gone; its next incarnation is reported anew."""
        self._stop_waiting(key)
        self._told.pop(key, None)
        self._latest.forget(key)

    def clear(self) -> None:
        """What was delivered may be superseded by somebody else's reports."""
        for key in list(self._waiting):
            self._stop_waiting(key)
        self._told.clear()
        self._latest.clear()

    def _due(self, key: ObjectKey, live: LiveObject) -> datetime:
        soon, told = self._clock.now() + PATIENCE, self._told.get(key)
        return max(soon, told + PACE) if told is not None and _is_under_way(live) else soon

    def _wait(self, key: ObjectKey, due: datetime) -> None:
        waiting = self._waiting.get(key)
        if waiting is None or due < waiting.due:
            self._stop_waiting(key)
            self._waiting[key] = _Waiting(due, self._clock.call_at(due, lambda: self._report(key)))

    def _report(self, key: ObjectKey) -> None:
        self._stop_waiting(key)
        has_gone_out, live = self._latest.look(key), self._live.get(key)
        if live is None or not _is_under_way(live):
            self._told.pop(key, None)
        elif has_gone_out:
            self._told[key] = self._clock.now()

    def _stop_waiting(self, key: ObjectKey) -> None:
        waiting = self._waiting.pop(key, None)
        if waiting is not None:
            waiting.timer.cancel()

    def _current(self, key: ObjectKey) -> Report | None:
        live, row = self._live.get(key), self._row_of(key)
        if live is None or row is None:
            return None
        status = live.status or EMPTY
        return Report(row, StatusReported(status=status, resource_version=str(live.version)), _digest(status))


def _is_passing(live: LiveObject) -> bool:
    """Something else will follow, and nothing in it is for a user to act upon."""
    return not live.operation.has_failed and (live.operation.in_progress or is_out_of_sync(live.status))


def _is_under_way(live: LiveObject) -> bool:
    """Argo CD syncs it, or will by itself."""
    return live.operation.in_progress or (is_out_of_sync(live.status) and _is_automated(live))


def _is_automated(live: LiveObject) -> bool:
    return dict_of(dict_of(live.owned.get("spec")).get("syncPolicy")).get("automated") is not None


def _digest(status: str) -> bytes:
    return hashlib.blake2b(status.encode(), digest_size=16).digest()
