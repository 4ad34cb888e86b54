"""Reports of the engine's status of objects."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from services.agent.latest_reports import LatestReports, Report
from services.agent.live_objects import LiveObjects
from services.agent.objects import ObjectKey
from services.agent.reports import Reports
from services.common.messages import EngineResource, StatusReported

RowOf = Callable[[ObjectKey], EngineResource | None]

EMPTY = "{}"


class StatusReports:
    """Statuses of one instance's objects."""

    def __init__(self, reports: Reports, live: LiveObjects, row_of: RowOf) -> None:
        """``row_of`` knows the present row of an object whose status is reported, None if there is none."""
        self._live, self._row_of = live, row_of
        self._latest = LatestReports(reports, self._current)

    def look(self, key: ObjectKey) -> None:
        """Report the status of ``key`` if it differs from the last one delivered; one that became empty, too."""
        self._latest.look(key)

    def begin(self, key: ObjectKey) -> None:
        """We made the object: that it has no status yet is no news, unless its former incarnation had one."""
        self._latest.presume(key, _digest(EMPTY))

    def forget(self, key: ObjectKey) -> None:
        """The object is gone; its next incarnation is reported anew."""
        self._latest.forget(key)

    def clear(self) -> None:
        """What was delivered may be superseded by somebody else's reports."""
        self._latest.clear()

    def _current(self, key: ObjectKey) -> Report | None:
        live, row = self._live.get(key), self._row_of(key)
        if live is None or row is None:
            return None
        status = live.status or EMPTY
        return Report(row, StatusReported(status=status, resource_version=str(live.version)), _digest(status))


def _digest(status: str) -> bytes:
    return hashlib.blake2b(status.encode(), digest_size=16).digest()
