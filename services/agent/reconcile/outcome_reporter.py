"""Reports the outcome of reconciling an object: sends observations, acknowledges its message, and remembers both."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from services.agent import SERVICE
from services.agent.objects.managed_kinds import ObjectKey
from services.agent.observe.pending_acks import Acknowledge, PendingAcks
from services.agent.observe.status_reporter import StatusReporter
from services.agent.reconcile.reconciler import Done
from services.common.clock import Clock
from services.common.errors import Permanent, RefusedInput
from services.common.kubernetes import APPLICATION
from services.common.messages import Applied, EngineResource, Failed, Removed
from services.common.messages.observation import ObservationEvent
from services.common.telemetry import metrics

log = structlog.get_logger(__name__)


REPEATED_AFTER = timedelta(hours=1)
"""The unchanged result of a check is reported again after this time."""


@dataclass(frozen=True, slots=True)
class _ReportedCheck:
    """The reported result of a check, and when to report it again."""

    outcome: tuple[str, str]
    until: datetime


class OutcomeReporter:
    """Reports outcomes of one instance."""

    def __init__(self, instance: str, pending: PendingAcks, statuses: StatusReporter, clock: Clock) -> None:
        self._instance, self._pending, self._statuses, self._clock = instance, pending, statuses, clock
        self._in_sync: dict[ObjectKey, str] = {}
        self._failed: dict[ObjectKey, tuple[str, str]] = {}
        self._checked: dict[ObjectKey, _ReportedCheck] = {}
        self._success_due: set[ObjectKey] = set()
        """Objects whose next success is reported, because an observation was lost, or a failure was reported."""
        self._applications: set[ObjectKey] = set()
        """Applications whose success was reported since the instance is ours. The previous agent may have reported a
        failure."""
        self._removed: set[ObjectKey] = set()
        """Objects whose removal was reported since the instance is ours, and whose rows still exist."""

    def has_failed(self, key: ObjectKey, row: EngineResource) -> bool:
        """Whether this state of the row has failed for good. The full comparison tries it again."""
        return self._failed.get(key, ("",))[0] == row.digest

    def is_report_due(self, key: ObjectKey, now: datetime) -> bool:
        """Whether a success has to be reported, or the result of a check has to be repeated."""
        is_due = key in self._success_due or self._is_first_success(key)
        return is_due or (key in self._checked and now >= self._checked[key].until)

    def forget_failure(self, key: ObjectKey) -> None:
        """Allow another attempt, because the API server may accept it now."""
        self._failed.pop(key, None)

    def forget_object(self, key: ObjectKey) -> None:
        """Forget an object of which nothing is desired any more."""
        for memory in (self._in_sync, self._failed, self._checked):
            memory.pop(key, None)
        self._success_due.discard(key)
        self._applications.discard(key)
        self._removed.discard(key)
        self._statuses.forget_object(key)

    def suspend(self) -> None:
        """Forget what was reported: another agent may report meanwhile."""
        self._checked.clear()
        self._applications.clear()
        self._removed.clear()
        self._statuses.clear()

    def report_outcome(self, key: ObjectKey, row: EngineResource, acknowledge: Acknowledge | None, done: Done) -> None:
        """Report that the object is as ``row`` desires, or as near as possible.

        ``acknowledge``: see :class:`PendingAcks`.
        """
        if row.desired == "absent" or done.is_gone:
            self._report_removal(key, row, acknowledge, done)
            return
        events: list[ObservationEvent] = self._check_events(key, acknowledge, done)
        if done.applied:
            events += self._apply_events(key, row, acknowledge, done)
        if acknowledge is not None:
            self._measure(row)
        if acknowledge is not None or events:
            self._pending.send_observations(key, row, acknowledge, events, lost=lambda: self._lose(key))
        if done.created and acknowledge is not None:
            self._statuses.expect_status(key)
        self._statuses.report_status(key)

    def report_failure(
        self, key: ObjectKey, row: EngineResource, acknowledge: Acknowledge | None, error: Permanent
    ) -> None:
        """Report that the object will never be as ``row`` desires. ``acknowledge``: see :class:`PendingAcks`."""
        metrics.count_failure(SERVICE, error, "apply")
        log.warning("refused", instance=self._instance, kind=row.kind, name=key.name, error=str(error))
        failure = (row.digest, str(error))
        known = self._failed.get(key) == failure
        self._failed[key] = failure
        # The failure replaces what was reported before: success has to be reported again when the problem is over.
        self._lose(key)
        if acknowledge is not None or not known:
            event = Failed(row.digest, permanent=True, message=str(error), for_user=isinstance(error, RefusedInput))
            self._pending.send_observations(key, row, acknowledge, [event], lost=lambda: self.forget_failure(key))

    def _lose(self, key: ObjectKey) -> None:
        self._checked.pop(key, None)
        self._removed.discard(key)
        self._success_due.add(key)

    def _report_removal(self, key: ObjectKey, row: EngineResource, acknowledge: Acknowledge | None, done: Done) -> None:
        is_news = acknowledge is not None or done.forced or key not in self._removed
        self.forget_object(key)
        self._removed.add(key)
        if is_news:
            removed = Removed(forced=done.forced)
            self._pending.send_observations(key, row, acknowledge, [removed], lost=lambda: self._lose(key))

    def _check_events(self, key: ObjectKey, acknowledge: Acknowledge | None, done: Done) -> list[ObservationEvent]:
        checked = done.checked
        if checked is None:
            return []
        known, now, outcome = self._checked.get(key), self._clock.now(), (checked.reason, checked.message)
        if acknowledge is None and known is not None and known.outcome == outcome and now < known.until:
            return []
        self._checked[key] = _ReportedCheck(outcome, now + REPEATED_AFTER + _spread(key))
        return [checked]

    def _apply_events(
        self, key: ObjectKey, row: EngineResource, acknowledge: Acknowledge | None, done: Done
    ) -> list[ObservationEvent]:
        version = done.version or row.digest
        drifted = done.changed and self._in_sync.get(key) == version
        is_first = self._is_first_success(key) and not done.is_provisional
        if is_first:
            self._applications.add(key)
        self._failed.pop(key, None)
        self._in_sync[key] = version
        if drifted:
            metrics.DRIFT_REPAIRS.labels(SERVICE, row.kind).inc()
        is_news = acknowledge is not None or done.changed or is_first or key in self._success_due
        self._success_due.discard(key)
        return [Applied(row.digest, drift_repaired=drifted)] if is_news else []

    def _is_first_success(self, key: ObjectKey) -> bool:
        return key.kind == APPLICATION.kind and key not in self._applications

    def _measure(self, row: EngineResource) -> None:
        elapsed = (self._clock.now() - row.seen_at).total_seconds()
        metrics.END_TO_END.labels("applied", row.kind).observe(max(0.0, elapsed))


def _spread(key: ObjectKey) -> timedelta:
    """A delay that spreads the repeated reports of objects that were reported together."""
    return REPEATED_AFTER * (zlib.crc32(key.name.encode()) % 1000 / 1000)
