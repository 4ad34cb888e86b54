"""What follows from work that has ended: observations, acknowledgement, and what is remembered of it."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from services.agent import SERVICE
from services.agent.acknowledgement import Ticket
from services.agent.clock import Clock
from services.agent.duties import Duties
from services.agent.objects import ObjectKey
from services.agent.outcomes import Done
from services.agent.status_reports import StatusReports
from services.common.errors import Permanent
from services.common.messages import Applied, EngineResource, Failed, Removed
from services.common.messages.observation import ObservationEvent
from services.common.telemetry import metrics

log = structlog.get_logger(__name__)


REPEATED_AFTER = timedelta(hours=1)
"""Since the outcome of a check was told: then it is told again, though it is the same."""


@dataclass(frozen=True, slots=True)
class _Told:
    """The outcome of a check, and until when that is enough."""

    outcome: tuple[str, str]
    until: datetime


class Settlement:
    """Settles the work of one instance."""

    def __init__(self, instance: str, duties: Duties, statuses: StatusReports, clock: Clock) -> None:
        self._instance, self._duties, self._statuses, self._clock = instance, duties, statuses, clock
        self._in_sync: dict[ObjectKey, str] = {}
        self._refused: dict[ObjectKey, tuple[str, str]] = {}
        self._checked: dict[ObjectKey, _Told] = {}
        self._untold: set[ObjectKey] = set()
        """Success with them is news: an observation was lost, or a failure was told."""

    def is_refused(self, key: ObjectKey, row: EngineResource) -> bool:
        """That very state of the row was refused; it is tried again by the full comparison."""
        return self._refused.get(key, ("",))[0] == row.digest

    def is_to_repeat(self, key: ObjectKey, now: datetime) -> bool:
        """The outcome of its check was told long ago: whoever was to read it may have lost it."""
        return key in self._checked and now >= self._checked[key].until

    def allow_again(self, key: ObjectKey) -> None:
        """Whoever refused it may have changed his mind."""
        self._refused.pop(key, None)

    def forget(self, key: ObjectKey) -> None:
        """Nothing is desired of ``key`` any more."""
        for memory in (self._in_sync, self._refused, self._checked):
            memory.pop(key, None)
        self._untold.discard(key)
        self._statuses.forget(key)

    def suspend(self) -> None:
        """Whoever owns the instance meanwhile reports of it: what we told may be superseded."""
        self._checked.clear()
        self._statuses.clear()

    def settle(self, key: ObjectKey, row: EngineResource, ticket: Ticket | None, done: Done) -> None:
        """The object is as ``row`` desires, or as near as it may be; ``ticket`` was open when that work began."""
        if row.desired == "absent":
            self._settle_removal(key, row, ticket, done)
            return
        events: list[ObservationEvent] = self._check_news(key, ticket, done)
        if done.applied:
            events += self._application_news(key, row, ticket, done)
        if ticket is not None:
            self._measure(row)
        if ticket is not None or events:
            self._duties.report(key, row, ticket, events, lost=lambda: self._lose(key))
        if done.created and ticket is not None:
            self._statuses.begin(key)
        self._statuses.look(key)

    def refuse(self, key: ObjectKey, row: EngineResource, ticket: Ticket | None, error: Permanent) -> None:
        """It will never be as ``row`` desires; ``ticket`` was open when that work began."""
        metrics.count_failure(SERVICE, error, "apply")
        log.warning("refused", instance=self._instance, kind=row.kind, name=key.name, error=str(error))
        refusal = (row.digest, str(error))
        known = self._refused.get(key) == refusal
        self._refused[key] = refusal
        # The failure takes the place of what was told before: it has to be told again when the trouble is over.
        self._checked.pop(key, None)
        self._untold.add(key)
        if ticket is not None or not known:
            event = Failed(row.digest, permanent=True, message=str(error))
            self._duties.report(key, row, ticket, [event], lost=lambda: self.allow_again(key))

    def _lose(self, key: ObjectKey) -> None:
        self._checked.pop(key, None)
        self._untold.add(key)

    def _settle_removal(self, key: ObjectKey, row: EngineResource, ticket: Ticket | None, done: Done) -> None:
        self.forget(key)
        if ticket is not None or done.forced:
            self._duties.report(key, row, ticket, [Removed(forced=done.forced)], lost=lambda: None)

    def _check_news(self, key: ObjectKey, ticket: Ticket | None, done: Done) -> list[ObservationEvent]:
        checked = done.checked
        if checked is None:
            return []
        known, now, outcome = self._checked.get(key), self._clock.now(), (checked.reason, checked.message)
        if ticket is None and known is not None and known.outcome == outcome and now < known.until:
            return []
        self._checked[key] = _Told(outcome, now + REPEATED_AFTER + _spread(key))
        return [checked]

    def _application_news(
        self, key: ObjectKey, row: EngineResource, ticket: Ticket | None, done: Done
    ) -> list[ObservationEvent]:
        version = done.version or row.digest
        drifted = done.changed and self._in_sync.get(key) == version
        self._refused.pop(key, None)
        self._in_sync[key] = version
        if drifted:
            metrics.DRIFT_REPAIRS.labels(SERVICE, row.kind).inc()
        is_news = ticket is not None or done.changed or key in self._untold
        self._untold.discard(key)
        return [Applied(row.digest, drift_repaired=drifted)] if is_news else []

    def _measure(self, row: EngineResource) -> None:
        elapsed = (self._clock.now() - row.seen_at).total_seconds()
        metrics.END_TO_END.labels("applied", row.kind).observe(max(0.0, elapsed))


def _spread(key: ObjectKey) -> timedelta:
    """What is told together is not told again together."""
    return REPEATED_AFTER * (zlib.crc32(key.name.encode()) % 1000 / 1000)
