"""Reports of the engine's status: only what changed, at most one of an object on its way at a time.

While a report is on its way newer statuses replace each other; when it is delivered the newest goes out. So what is
waiting is bounded by the number of objects, however far the log is behind.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from services.agent.live_objects import LiveObjects
from services.agent.objects import ObjectKey
from services.agent.reports import Reports
from services.common.errors import Retry
from services.common.messages import EngineResource, StatusReported

RowOf = Callable[[ObjectKey], EngineResource | None]


class StatusReports:
    """Statuses of one instance's objects."""

    def __init__(self, reports: Reports, live: LiveObjects, row_of: RowOf) -> None:
        """``row_of`` knows the present row of an object, None if there is none to report for."""
        self._reports, self._live, self._row_of = reports, live, row_of
        self._reported: dict[ObjectKey, bytes] = {}
        self._on_its_way: set[ObjectKey] = set()

    def look(self, key: ObjectKey) -> None:
        """Report the status of ``key`` if it differs from the last one delivered."""
        live, row = self._live.get(key), self._row_of(key)
        if live is None or row is None or not live.status or key in self._on_its_way:
            return
        digest = hashlib.blake2b(live.status.encode(), digest_size=16).digest()
        if self._reported.get(key) == digest:
            return
        event = StatusReported(status=live.status, resource_version=str(live.version))
        try:
            self._reports.send(row, event, lambda arrived: self._settled(key, digest, arrived))
        except Retry:
            return  # the queue is full: the next look, at the latest the full comparison's, tries again
        self._on_its_way.add(key)

    def forget(self, key: ObjectKey) -> None:
        """The object is gone; its next incarnation is reported anew."""
        self._reported.pop(key, None)

    def _settled(self, key: ObjectKey, digest: bytes, arrived: bool) -> None:
        self._on_its_way.discard(key)
        if arrived:
            self._reported[key] = digest
        self.look(key)
