"""Carries out requested syncs of Applications as ``sync_steps`` decides, and reports how far they are.

A row's event is acknowledged after one look: the row itself is the record, and an agent that takes the instance over
looks at each row again. A sync that waits for its Application, or for another operation, occupies no worker: the
Application's next event queues it again.
"""

from __future__ import annotations

from collections.abc import Callable

from services.agent import SERVICE
from services.agent.objects.desired import manifest_of, source_url
from services.agent.objects.live import EngineObjects
from services.agent.objects.managed_kinds import ObjectKey, application_of
from services.agent.observe.change_reporter import ChangeReporter, Report
from services.agent.observe.observation_sink import ObservationSink
from services.agent.reconcile.outcomes import Done, Outcome
from services.agent.sync.sync_steps import (
    NoStep,
    PatchApplication,
    ReportProgress,
    SyncRequest,
    SyncStep,
    next_sync_step,
    sync_request,
)
from services.common.clock import Clock
from services.common.kubernetes import APPLICATION, Conflict, KubeClient, NotFound
from services.common.messages import EngineResource, SyncMoved
from services.common.ownership import SYNC_FIELD_MANAGER
from services.common.telemetry import metrics
from services.common.times import rfc3339

MAX_LOOKS = 6
"""Of one piece of work; more conflicts than that in a row are left to the pool's backoff."""


MayRead = Callable[[EngineResource, str], None]


class SyncApplier:
    """Syncs of one instance's Applications."""

    def __init__(
        self, cluster: KubeClient, live: EngineObjects, reports: ObservationSink, clock: Clock, may_read: MayRead
    ) -> None:
        """``may_read`` raises Permanent if the row's tenant must not read a repository."""
        self._cluster, self._live, self._clock, self._may_read = cluster, live, clock, may_read
        self._rows: dict[ObjectKey, EngineResource] = {}
        self._moved: dict[ObjectKey, SyncMoved] = {}
        self._seen_on: dict[ObjectKey, str] = {}
        """Uid of the Application that carries or carried it."""
        self._reports = ChangeReporter(reports, self._report)

    async def apply(self, key: ObjectKey, row: EngineResource) -> Outcome:
        """Start it, end it, or report how far it is. Raises Permanent, Conflict, Retry."""
        if row.desired == "absent":
            self.forget(key)
            return Done(applied=False)
        request = sync_request(manifest_of(row))
        if key in self._rows and sync_request(manifest_of(self._rows[key])).run != request.run:
            self.forget(key)
        self._rows[key] = row
        await self._move_on(key, request)
        self._reports.report_change(key)
        return Done(applied=False)

    def has_drifted(self, key: ObjectKey, row: EngineResource) -> bool:
        """Only a look tells."""
        return True

    def tell_again(self) -> None:
        """How runs have ended that are ordered still: whoever withdraws the order may have missed it."""
        for key, moved in self._moved.items():
            if moved.finished_at:
                self._reports.forget_object(key)

    def forget(self, key: ObjectKey) -> None:
        """Its run has vanished, or has been reported to its end: stop looking."""
        for memory in (self._rows, self._moved, self._seen_on):
            memory.pop(key, None)
        self._reports.forget_object(key)

    async def suspend(self) -> None:
        """Somebody else may report meanwhile."""
        for memory in (self._rows, self._moved, self._seen_on):
            memory.clear()
        self._reports.clear()

    async def _move_on(self, key: ObjectKey, request: SyncRequest) -> None:
        looked = False
        for _ in range(MAX_LOOKS):
            match self._next(key, request):
                case PatchApplication() as write:
                    if write.starts:
                        self._require_repository(key)
                    await self._write(key, write)
                case ReportProgress(presumed=True) if not looked:
                    looked = True
                    await self._look_again(application_of(key))
                case ReportProgress(moved):
                    self._moved[key] = moved
                    return
                case NoStep():
                    return
        raise Conflict(f"Application {key.name} keeps changing")

    def _next(self, key: ObjectKey, request: SyncRequest) -> SyncStep:
        live, now = self._live.get(application_of(key)), rfc3339(self._clock.now())
        if live is not None and request.run in {live.operation.run, live.operation.requested_run}:
            self._seen_on.setdefault(key, live.uid)
        return next_sync_step(request, live, self._moved.get(key), self._seen_on.get(key, ""), now)

    def _require_repository(self, key: ObjectKey) -> None:
        """Argo CD compares an Application with its project when it looks at it, not when it syncs."""
        live = self._live.get(application_of(key))
        self._may_read(self._rows[key], source_url(live.owned) if live is not None else "")

    async def _write(self, key: ObjectKey, write: PatchApplication) -> None:
        application = application_of(key)
        known = self._live.get(application)
        metrics.KUBERNETES_WRITES.labels(SERVICE, APPLICATION.kind, "operation").inc()
        try:
            answer = await self._cluster.patch(
                APPLICATION, key.namespace, key.name, write.patch, field_manager=SYNC_FIELD_MANAGER
            )
        except (Conflict, NotFound):
            await self._look_again(application)
        else:
            self._live.put_answer(application.kind, answer, known)

    async def _look_again(self, application: ObjectKey) -> None:
        """Our picture is older than the object; the watch will bring it, but not necessarily soon."""
        known = self._live.get(application)
        try:
            answer = await self._cluster.get(APPLICATION, application.namespace, application.name)
        except NotFound:
            if known is not None:
                self._live.remove_object(application, known.uid)
        else:
            self._live.put_answer(application.kind, answer, known)

    def _report(self, key: ObjectKey) -> Report | None:
        row, moved = self._rows.get(key), self._moved.get(key)
        if row is None or moved is None:
            return None
        told = (moved.run, moved.phase, moved.message, moved.revision, moved.finished_at)
        return Report(row, moved, repr(told).encode())
