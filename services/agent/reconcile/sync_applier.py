"""Executes requested syncs of Applications as ``sync_steps`` decides, and reports their progress.

A row's message is acknowledged after one look: the row itself is the record, and an agent that takes the instance over
looks at each row again. A sync that waits for its Application, or for another operation, occupies no worker: the
Application's next event queues it again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from services.agent import SERVICE
from services.agent.objects.desired_objects import manifest_of, source_url
from services.agent.objects.engine_state import EngineState
from services.agent.objects.forbidden_calls import ForbiddenCalls
from services.agent.objects.live import EngineObjects, LiveObject
from services.agent.objects.managed_kinds import ObjectKey, application_of
from services.agent.observe.change_reporter import ChangeReporter, ObjectReport
from services.agent.observe.observation_sink import ObservationSink
from services.agent.reconcile.reconciler import Done, Outcome
from services.agent.reconcile.sync_steps import (
    NoStep,
    PatchApplication,
    ReportProgress,
    SyncRequest,
    SyncStep,
    next_sync_step,
    progress_before_release,
    sync_request,
)
from services.common.clock import Clock
from services.common.errors import Permanent
from services.common.kubernetes import APPLICATION, Conflict, KubeClient, NotFound
from services.common.messages import EngineResource, SyncMoved
from services.common.ownership import SYNC_FIELD_MANAGER
from services.common.telemetry import metrics
from services.common.times import rfc3339
from services.kinds.sync_run import catalogue as sync_run

MAX_LOOKS = 6
"""How often one piece of work reads the Application. More conflicts in a row are left to the workers' backoff."""

MaySync = Callable[[ObjectKey, EngineResource, str], bool]


@dataclass(slots=True)
class _Run:
    """A run that a row requests, and its progress."""

    row: EngineResource
    request: SyncRequest
    moved: SyncMoved | None = None
    """None: the run was not seen to begin."""
    application_uid: str = ""
    """Uid of the Application that carries or carried the run."""
    refusal: Permanent | None = None
    """Why the run never starts: it was reported to have ended."""


class SyncApplier:
    """The syncs of one instance's Applications."""

    def __init__(
        self,
        cluster: KubeClient,
        live: EngineObjects,
        reports: ObservationSink,
        clock: Clock,
        may_sync: MaySync,
        engine: EngineState,
    ) -> None:
        """``may_sync`` returns whether the row may have Argo CD read a repository; if not, its key is queued again.

        It raises Permanent if the tenant must not read the repository.
        """
        self._cluster, self._live, self._clock, self._may_sync = cluster, live, clock, may_sync
        self._engine, self._forbidden = engine, ForbiddenCalls(clock)
        self._runs: dict[ObjectKey, _Run] = {}
        self._reports = ChangeReporter(reports, self._report)

    async def reconcile_row(self, key: ObjectKey, row: EngineResource) -> Outcome:
        """Start or end the run, or report its progress. Raises Permanent, Conflict, Retry, Wait."""
        if row.desired == "absent":
            self.forget_row(key)
            return Done(applied=False)
        run = self._run_of(key, row)
        await self._forbidden.tolerate(key, self._move_on(key, run))
        self._reports.report_change(key)
        return Done(applied=False)

    def ensure_reported(self, key: ObjectKey, row: EngineResource) -> bool:
        """Whether the log has that the run was given to its Application, or how the run has ended.

        If not, it is reported.

        Asked before the Application is released: nobody could find out afterwards, and the next instance would start
        the run again. Also True if the run was never given to the Application, and if this agent cannot read the run.
        """
        if row.desired == "absent":
            return True
        try:
            run = self._run_of(key, row)
        except Permanent:  # its own row fails by that, and says so: it keeps no Application from going
            return True
        live, now = self._look(key, run)
        run.moved = progress_before_release(run.request, live, run.moved, run.application_uid, now)
        self._reports.report_change(key)
        return self._reports.is_delivered(key)

    def has_drifted(self, key: ObjectKey, row: EngineResource) -> bool:
        """Whether there may be progress: :meth:`reconcile_row` finds out."""
        return True

    def repeat_ends(self) -> None:
        """Report again the ends of runs whose rows still exist, because the planner may have missed them."""
        for key, run in self._runs.items():
            if run.moved is not None and run.moved.finished_at:
                self._reports.forget_object(key)

    def forget_row(self, key: ObjectKey) -> None:
        """Forget a run whose row is gone, or is about another run."""
        self._runs.pop(key, None)
        self._reports.forget_object(key)

    async def suspend(self) -> None:
        """Forget everything: another agent may report from now on."""
        self._runs.clear()
        self._reports.clear()

    def _run_of(self, key: ObjectKey, row: EngineResource) -> _Run:
        request, run = sync_request(manifest_of(row)), self._runs.get(key)
        if run is None or run.request.run != request.run:
            self.forget_row(key)
            run = self._runs[key] = _Run(row, request)
        run.row, run.request = row, request
        return run

    async def _move_on(self, key: ObjectKey, run: _Run) -> None:
        looked = False
        for _ in range(MAX_LOOKS):
            if self._runs.get(key) is not run:
                return  # withdrawn during a call
            step = self._next(key, run)
            if not self._may_take(step, key, run):
                return
            match step:
                case PatchApplication() as write:
                    await self._write(key, write)
                case ReportProgress(presumed=True) if not looked:
                    looked = True
                    await self._live.read_object(self._cluster, application_of(key))
                case ReportProgress(moved):
                    run.moved = moved
                    return
                case NoStep():
                    return
        raise Conflict(f"Application {key.name} keeps changing")

    def _next(self, key: ObjectKey, run: _Run) -> SyncStep:
        live, now = self._look(key, run)
        return next_sync_step(run.request, live, run.moved, run.application_uid, now)

    def _look(self, key: ObjectKey, run: _Run) -> tuple[LiveObject | None, str]:
        """Read the Application, which may show the run, and the time of the read."""
        live = self._live.get(application_of(key))
        if live is not None and run.request.run in {live.operation.run, live.operation.requested_run}:
            run.application_uid = run.application_uid or live.uid
        return live, rfc3339(self._clock.now())

    def _may_take(self, step: SyncStep, key: ObjectKey, run: _Run) -> bool:
        """Whether ``step`` may be executed now. Raises Permanent if the run never starts.

        Argo CD checks an Application against its project when it compares it, not when it syncs it. So whatever keeps
        an Application from being created must keep its run from starting, too.
        """
        if run.refusal is not None:
            raise run.refusal
        live = self._live.get(application_of(key))
        starts = isinstance(step, PatchApplication) and step.starts
        waits = isinstance(step, NoStep) and live is None and run.moved is None
        if not starts and not waits:
            return True
        try:
            self._engine.require_acceptance(sync_run.ENGINE_NOT_ACCEPTED)
            return self._may_sync(key, run.row, source_url(live.owned) if live is not None else "")
        except Permanent as error:
            run.refusal = error
            raise

    async def _write(self, key: ObjectKey, write: PatchApplication) -> None:
        application = application_of(key)
        known = self._live.get(application)
        metrics.KUBERNETES_WRITES.labels(SERVICE, APPLICATION.kind, "operation").inc()
        try:
            answer = await self._cluster.patch_object(
                APPLICATION, key.namespace, key.name, write.patch, field_manager=SYNC_FIELD_MANAGER
            )
        except (Conflict, NotFound):
            await self._live.read_object(self._cluster, application)
        else:
            self._live.put_answer(application.kind, answer, known)

    def _report(self, key: ObjectKey) -> ObjectReport | None:
        run = self._runs.get(key)
        if run is None or run.moved is None:
            return None
        moved = run.moved
        fields = (moved.run, moved.phase, moved.message, moved.revision, moved.finished_at)
        return ObjectReport(run.row, moved, repr(fields).encode())
