"""Reports the state of objects: only changes, and at most one undelivered report for each object.

While a report is undelivered, newer states replace each other; after the delivery the newest is sent. So there are
never more waiting reports than objects, however slow the log is. The state is looked up when its report is sent, so no
message has to wait here.
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
    """The state of an object, as reported."""

    row: EngineResource
    event: ObservationEvent
    identity: bytes
    """Equal for equal reports."""


class ChangeReporter:
    """Reports one kind of state of one instance's objects."""

    def __init__(
        self,
        reports: ObservationSink,
        current: Callable[[ObjectKey], ObjectReport | None],
        again: Callable[[ObjectKey], object] | None = None,
    ) -> None:
        """``current`` returns an object's state, None if there is nothing to report.

        ``again`` is called in place of :meth:`report_change` for an object whose report was lost.
        """
        self._reports, self._current, self._again = reports, current, again or self.report_change
        self._delivered: dict[ObjectKey, bytes] = {}
        self._on_its_way: dict[ObjectKey, ObjectReport] = {}

    def report_change(self, key: ObjectKey) -> bool:
        """Report the state of ``key`` if it differs from the last delivered report.

        Returns whether a report was sent.
        """
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
        """Whether the last delivered report has the current state of ``key``, or there is nothing to report."""
        report = self._current(key)
        return report is None or self._delivered.get(key) == report.identity

    def assume_delivered(self, key: ObjectKey, identity: bytes) -> None:
        """Consider this state of a new object delivered."""
        self._delivered.setdefault(key, identity)

    def forget_object(self, key: ObjectKey) -> None:
        """Forget an object that is gone. Its next incarnation is reported anew."""
        self._delivered.pop(key, None)
        self._on_its_way.pop(key, None)

    def clear(self) -> None:
        """Forget everything: another agent may report from now on."""
        self._delivered.clear()
        self._on_its_way.clear()

    def _end_delivery(self, key: ObjectKey, report: ObjectReport, arrived: bool) -> None:
        if self._on_its_way.get(key) is not report:
            return  # forgotten meanwhile
        del self._on_its_way[key]
        if arrived:
            self._delivered[key] = report.identity
        self._again(key)
