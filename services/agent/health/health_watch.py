"""Measures one engine instance again and again, judges it, and reports its health.

This runs only while this agent owns the instance. The next owner measures anew. But the cluster shows for how long the
heartbeat has been silent, and for how long comparisons have been awaited, so an instance that is ill stays ill.

A judgement is reported when it changes, and otherwise every minute, with counts of Applications. If nothing is reported
for longer, the health of the instance is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from math import inf

import structlog

from services.agent.background_tasks import BackgroundTasks
from services.agent.health.applications import StandingQueue
from services.agent.health.judgement import HealthJudge, Judgement, is_too_early, judged
from services.agent.health.probe import Probe
from services.agent.health.signals import CertificateSignal, Signals
from services.agent.objects.engine_state import EngineState
from services.agent.observe.observation_sink import MESSAGE_CHARACTERS, ObservationSink
from services.agent.settings import AgentSettings
from services.common.clock import Clock
from services.common.errors import Retry
from services.common.messages import EngineHealth, Health
from services.common.telemetry import metrics

log = structlog.get_logger(__name__)


class HealthWatch:
    """The watch of one instance."""

    def __init__(
        self,
        instance: str,
        probe: Probe,
        engine: EngineState,
        reports: ObservationSink,
        clock: Clock,
        settings: AgentSettings,
        *,
        inspect_engines: Callable[[], None],
        on_defect: Callable[[BaseException], None],
    ) -> None:
        """Nothing runs before :meth:`start`.

        ``inspect_engines`` is called when the instance becomes unreachable, and when it becomes reachable again: an
        inspection decides what users are shown, and what may be applied.
        """
        self._inspect_engines = inspect_engines
        self._instance, self._probe, self._engine = instance, probe, engine
        self._reports, self._clock, self._settings = reports, clock, settings
        self._tasks = BackgroundTasks(on_defect)
        self._queue = StandingQueue()
        self._reported: Judgement | None = None
        self._reported_at = -inf
        self._certificates = set[str]()
        """Names of the certificates in the metric."""

    def start(self) -> None:
        """Start: the instance is ours now."""
        self._tasks.cancel_all()
        self._reported, self._reported_at = None, -inf
        self._queue.start_over()
        self._tasks.start_task(self._run(), f"health of {self._instance}")

    async def stop(self) -> None:
        """Stop: the instance is no longer ours. When this returns, no call is in flight."""
        self._tasks.cancel_all()
        await self._tasks.wait_for_all()
        metrics.ENGINE_HEALTH.remove(self._instance)
        metrics.ENGINE_UNREACHABLE.remove(self._instance)
        metrics.ENGINE_HEARTBEAT_SILENCE.remove(self._instance)
        self._show_certificates(())

    async def _run(self) -> None:
        judge = HealthJudge.new()
        while True:
            await self._clock.sleep(self._settings.health_interval_seconds)
            signals = await self._probe.measure()
            queue = self._queue.follow(signals)
            judgement = judge.judge(judged(signals, self._settings.heartbeat_deadline_seconds))
            if judgement is not None and not is_too_early(judgement, signals):
                self._show(judgement, signals)
                self._report(judgement, signals, queue)

    def _show(self, judgement: Judgement, signals: Signals) -> None:
        metrics.ENGINE_HEALTH.labels(self._instance).set(judgement.severity)
        metrics.ENGINE_UNREACHABLE.labels(self._instance).set(judgement.is_out_of_reach)
        if signals.heartbeat is None:
            metrics.ENGINE_HEARTBEAT_SILENCE.remove(self._instance)
        else:
            metrics.ENGINE_HEARTBEAT_SILENCE.labels(self._instance).set(signals.heartbeat.silent_seconds)
        self._show_certificates(signals.certificates)

    def _show_certificates(self, seen: Collection[CertificateSignal]) -> None:
        for gone in self._certificates - {each.name for each in seen}:
            metrics.ENGINE_CERTIFICATE_EXPIRATION.remove(self._instance, gone)
        for each in seen:
            metrics.ENGINE_CERTIFICATE_EXPIRATION.labels(self._instance, each.name).set(each.expires_at.timestamp())
        self._certificates = {each.name for each in seen}

    def _report(self, judgement: Judgement, signals: Signals, queue: int) -> None:
        if (
            _is_as(judgement, self._reported)
            and self._clock.time() - self._reported_at < self._settings.health_report_seconds
        ):
            return
        self._log_change(judgement)
        if judgement.is_out_of_reach is not (self._reported is not None and self._reported.is_out_of_reach):
            self._inspect_engines()
        event = EngineHealth(
            health=judgement.health.value,
            reason=judgement.reason,
            message=judgement.message[:MESSAGE_CHARACTERS],
            version=self._engine.version,
            heartbeat_at=signals.heartbeat.reconciled_at if signals.heartbeat is not None else None,
            queue=queue,
            applications=signals.applications.total,
            late=signals.applications.late_of_others,
            failed_syncs=signals.applications.failed_syncs,
            comparison_errors=signals.applications.comparison_errors,
            tenants=signals.applications.tenants,
            failing_tenants=signals.applications.failing_tenants,
            comparison_p95_ms=signals.applications.comparison_p95_ms,
            sync_p95_ms=signals.applications.sync_p95_ms,
            certificate_expires_at=min((each.expires_at for each in signals.certificates), default=None),
        )
        self._reported, self._reported_at = judgement, self._clock.time()
        self._queue.start_over()
        try:
            self._reports.send_report(self._instance, event, self._end_delivery)
        except Retry as error:
            log.warning("health not told", instance=self._instance, error=str(error))
            self._reported_at = -inf  # the next measurement tells it

    def _end_delivery(self, arrived: bool) -> None:
        if not arrived:
            self._reported_at = -inf

    def _log_change(self, judgement: Judgement) -> None:
        if _is_as(judgement, self._reported):
            return
        if judgement.health is not Health.HEALTHY:
            log.warning(
                "an Argo CD is not well",
                instance=self._instance,
                health=judgement.health.value,
                reason=judgement.reason,
                message=judgement.message,
            )
        elif self._reported is not None:
            log.info("an Argo CD is well again", instance=self._instance)


def _is_as(judgement: Judgement, other: Judgement | None) -> bool:
    """Same health and reason; the message is ignored."""
    return other is not None and judgement[:2] == other[:2]
