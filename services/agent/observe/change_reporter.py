"""Reports the state of objects: only changes, and at most one undelivered report for each object.

While a report is undelivered newer states replace each other; when it is delivered the newest is sent. So the number of
waiting reports is bounded by the number of objects, however slow the log is. No message waits here to be acknowledged:
a state is looked up when its report goes out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from services.agent.objects.managed_kinds import ObjectKey
from services.agent.observe.observation_sink import ObservationSink
from services.common.errors import Retry
from services.common.messages import EngineResource
from services.common.messages.observation import ObservationEvent


@dataclass(frozen=True, slots=True)
class ObjectReport:
    """The state of an object, as it is reported."""

    row: EngineResource
    event: ObservationEvent
    identity: bytes
    """Equal for equal reports."""


class ChangeReporter:
    """One kind of report about one instance's objects."""

    def __init__(
        self,
        reports: ObservationSink,
        current: Callable[[ObjectKey], ObjectReport | None],
        again: Callable[[ObjectKey], object] | None = None,
    ) -> None:
        """``current`` tells how an object stands now, None if there is nothing to report of it.

        ``again`` looks at an object whose report has come back, in place of :meth:`report_change`.
        """
        self._reports, self._current, self._again = reports, current, again or self.report_change
        self._delivered: dict[ObjectKey, bytes] = {}
        self._on_its_way: dict[ObjectKey, ObjectReport] = {}

    def report_change(self, key: ObjectKey) -> bool:
        """Report how ``key`` stands if it differs from the last report delivered; returns whether one went out."""
        report = None if key in self._on_its_way else self._current(key)
        if report is None or self._delivered.get(key) == report.identity:
            return False
        try:
            self._reports.send_observation(
                report.row, report.event, lambda arrived: self._end_delivery(key, report, arrived)
            )
        except Retry:
            return False  # the queue is full: the next look, at the latest the full comparison's, tries again
        self._on_its_way[key] = report
        return True

    def is_delivered(self, key: ObjectKey) -> bool:
        """Whether the last report delivered says how ``key`` stands, or there is nothing to report of it."""
        report = self._current(key)
        return report is None or self._delivered.get(key) == report.identity

    def assume_delivered(self, key: ObjectKey, identity: bytes) -> None:
        """Take it as delivered that a new object is in this state."""
        self._delivered.setdefault(key, identity)

    def forget_object(self, key: ObjectKey) -> None:
        """The object is gone; its next incarnation is reported anew."""
        self._delivered.pop(key, None)
        self._on_its_way.pop(key, None)

    def clear(self) -> None:
        """Another agent may report from here on: what was delivered may be superseded."""
        self._delivered.clear()
        self._on_its_way.clear()

    def _end_delivery(self, key: ObjectKey, report: ObjectReport, arrived: bool) -> None:
        if self._on_its_way.get(key) is not report:
            return  # forgotten meanwhile
        del self._on_its_way[key]
        if arrived:
            self._delivered[key] = report.identity
        self._again(key)
