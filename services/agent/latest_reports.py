"""Reports of how things stand: only what changed, at most one about an object on its way at a time.

While a report is on its way newer states replace each other; when it is delivered the newest goes out. So what is
waiting is bounded by the number of objects, however far the log is behind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from services.agent.objects import ObjectKey
from services.agent.reports import Reports
from services.common.errors import Retry
from services.common.messages import EngineResource
from services.common.messages.observation import ObservationEvent


@dataclass(frozen=True, slots=True)
class Report:
    """How an object stands."""

    row: EngineResource
    event: ObservationEvent
    identity: bytes
    """Equal for reports that tell the same."""


class LatestReports:
    """One kind of report about one instance's objects."""

    def __init__(
        self,
        reports: Reports,
        current: Callable[[ObjectKey], Report | None],
        again: Callable[[ObjectKey], object] | None = None,
    ) -> None:
        """``current`` tells how an object stands now, None if there is nothing to report of it.

        ``again`` looks at an object whose report has come back, in place of :meth:`look`.
        """
        self._reports, self._current, self._again = reports, current, again or self.look
        self._delivered: dict[ObjectKey, bytes] = {}
        self._on_its_way: set[ObjectKey] = set()

    def look(self, key: ObjectKey) -> bool:
        """Report how ``key`` stands if that differs from the last report delivered; returns whether one went out."""
        report = None if key in self._on_its_way else self._current(key)
        if report is None or self._delivered.get(key) == report.identity:
            return False
        try:
            self._reports.send(report.row, report.event, lambda arrived: self._settled(key, report, arrived))
        except Retry:
            return False  # the queue is full: the next look, at the latest the full comparison's, tries again
        self._on_its_way.add(key)
        return True

    def presume(self, key: ObjectKey, identity: bytes) -> None:
        """Who reads the reports takes it for granted that a new object stands so."""
        self._delivered.setdefault(key, identity)

    def forget(self, key: ObjectKey) -> None:
        """The object is gone; its next incarnation is reported anew."""
        self._delivered.pop(key, None)

    def clear(self) -> None:
        """What was delivered may be superseded by somebody else's reports."""
        self._delivered.clear()

    def _settled(self, key: ObjectKey, report: Report, arrived: bool) -> None:
        self._on_its_way.discard(key)
        if arrived:
            self._delivered[key] = report.identity
        self._again(key)
