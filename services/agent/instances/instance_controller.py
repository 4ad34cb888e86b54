"""One engine instance: its desired rows, its informers, and the workers that reconcile the two.

Driven by ``owned_instances`` (assignment and rows) and the informers. The newest row of an object wins, and older ones
are acknowledged at once. A message is acknowledged when its effect is certain and its observations are delivered. Rows
about the instance itself go to ``orders``.

A take-over begins with a comparison of all rows with what the informers have listed; ``takeover`` decides what need not
wait for that. Reports that are only repeated come last and are paced, because the planner has new changes to plan, too.

Its parts: ``instance_informers`` (what exists), ``enqueuer`` (what to reconcile), ``appliers`` and ``sync_applier``
(how), ``outcome_reporter`` (what to report), ``watched_health`` (its Argo CD's health and remedies).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta

import structlog

from services.agent.background_tasks import BackgroundTasks
from services.agent.instances.appliers import Dependencies, build_appliers
from services.agent.instances.instance_orders import InstanceOrders
from services.agent.instances.takeover import Takeover
from services.agent.instances.watched_health import health_watch, remedies
from services.agent.objects.desired_objects import kind_of
from services.agent.objects.live import EngineObjects
from services.agent.objects.managed_kinds import KINDS, ObjectKey, key_of
from services.agent.observe.instance_informers import InstanceInformers
from services.agent.observe.pending_acks import Acknowledge, PendingAcks
from services.agent.observe.status_reporter import StatusReporter
from services.agent.reconcile.enqueuer import Enqueuer
from services.agent.reconcile.instance_workers import InstanceWorkers
from services.agent.reconcile.orphans import Orphans
from services.agent.reconcile.outcome_reporter import OutcomeReporter
from services.agent.reconcile.reconciler import Done, InProgress, Outcome
from services.agent.settings import AgentSettings
from services.common.errors import Permanent, RefusedInput, Retry
from services.common.messages import EngineResource
from services.common.queueing import WorkQueue, in_slices
from services.common.telemetry import metrics
from services.kinds.gitops_deployment.catalogue import ENGINE_NOT_ACCEPTED

log = structlog.get_logger(__name__)

LANES_AT_ONCE = 10
"""Lanes whose due rows are queued in one turn of the event loop. A tenant's quotas bound a lane."""
REPORTS_AT_ONCE, REPORTS_PAUSE_SECONDS = 100, 0.1
"""How many rows are reported again at a time, and the pause after them, in which other changes go first."""


class InstanceController:
    """Brings one namespace of an engine cluster to its desired rows."""

    def __init__(self, name: str, namespace: str, dependencies: Dependencies, settings: AgentSettings) -> None:
        """Nothing runs before :meth:`start`."""
        self.name, self.namespace, self._settings = name, namespace, settings
        self._dependencies, self._clock = dependencies, dependencies.clock
        self._engine = dependencies.engines[name]
        self._rows: dict[ObjectKey, EngineResource] = {}
        self._live = EngineObjects()
        self._queue: WorkQueue[ObjectKey] = WorkQueue()
        self._workers = InstanceWorkers(
            name, self._queue, self._work, settings.concurrency_per_instance, self._clock, dependencies.on_defect
        )
        self._informers = InstanceInformers(
            namespace, self._live, self._observe_change, self._begin_work, dependencies.on_defect
        )
        self._pending = PendingAcks(dependencies.reports, lambda key: self._enqueue([key]))
        self._statuses = StatusReporter(dependencies.reports, self._live, self._status_row, self._clock)
        self._outcomes = OutcomeReporter(name, self._pending, self._statuses, self._clock)
        self._orphans = Orphans(timedelta(seconds=settings.orphan_grace_seconds))
        self._appliers = build_appliers(
            self._rows,
            self._live,
            namespace,
            self._enqueue,
            dependencies,
            settings,
            engine=self._engine,
        )
        self._isolation = self._appliers.isolation
        self._enqueuer = Enqueuer(
            self._rows,
            self._live,
            self._queue,
            lambda key, row: self._appliers.applier_of(key).has_drifted(key, row),
            self._outcomes,
            self._pending,
        )
        self._health = health_watch(name, namespace, self._live, dependencies, settings)
        self._remedies = remedies(name, namespace, self._live, dependencies)
        self.orders = InstanceOrders(name, self._orphans, self._remedies, self._review_approved)
        self._comparison = BackgroundTasks(dependencies.on_defect)
        self._working = False
        self._takeover: Takeover | None = None
        """None after the first comparison."""
        self._complete = True

    @property
    def listed(self) -> bool:
        """Whether every watch has listed what exists."""
        return self._informers.listed

    @property
    def is_inaccessible(self) -> bool:
        """Whether its namespace may not be read. The process cannot change that."""
        return self._engine.is_inaccessible

    @property
    def pending(self) -> int:
        """Number of objects that are not as desired yet."""
        return len(self._queue)

    def start(self) -> None:
        """Start the watches. Work begins with :meth:`start_work`."""
        metrics.ENGINE_PENDING.labels(self.name).set_function(lambda: self.pending)
        self._informers.start(self._dependencies.follow)

    def start_work(
        self,
        rows: Iterable[EngineResource],
        unacknowledged: Iterable[EngineResource] = (),
        *,
        complete: bool = True,
    ) -> None:
        """Take the instance over with these rows of its partition: compare everything, then keep up.

        Rows in ``unacknowledged`` go first where possible. Unless the rows are ``complete``, no object is deleted for
        want of a row.
        """
        self._complete = complete
        self._rows.clear()
        self._rows.update((key_of(row), row) for row in rows)
        self._working, self._takeover = True, Takeover(self._rows)
        self._add_keys(self._takeover.admit_releases())
        for row in unacknowledged:
            self._add_keys(self._takeover.admit_row(key_of(row), row))
        self._isolation.load_registry(self._begin_work, complete=complete)
        self._health.start()
        self._remedies.start()
        if self.is_inaccessible:
            self._comparison.start_task(self._report_inaccessible(), "report closed")

    async def suspend(self) -> None:
        """Stop: the partition was revoked. When this returns, no call is in flight, and pending work is dropped."""
        self._working, self._takeover = False, None
        self._comparison.cancel_all()
        self._orphans.clear()
        self._pending.clear()
        await self._health.stop()
        await self._remedies.suspend()
        await self._workers.suspend()
        await self._appliers.suspend()
        self._outcomes.suspend()

    async def stop(self) -> None:
        """Suspend, and end the watches."""
        metrics.ENGINE_PENDING.remove(self.name)
        await self.suspend()
        await self._informers.stop()

    def submit_row(self, row: EngineResource, acknowledge: Acknowledge) -> None:
        """Accept a row's newest state. It replaces older ones, which count as done."""
        key = key_of(row)
        is_news = self._rows.get(key) != row
        self._pending.add_message(key, acknowledge)
        self._rows[key] = row
        self._isolation.note_row(key, row)
        self._orphans.forget_object(key)
        if self.is_inaccessible:
            self._report_not_accepted(key)
        ahead = self._takeover.admit_row(key, row) if self._takeover is not None and is_news else []
        self._enqueue([*ahead, key])

    def forget_row(self, row: EngineResource, acknowledge: Acknowledge) -> None:
        """The row was deleted: nothing is desired of the object any more, not even its absence."""
        key = key_of(row)
        self._pending.add_message(key, acknowledge)
        self._pending.acknowledge_object(key)
        known = self._rows.pop(key, None)
        self._outcomes.forget_object(key)
        self._appliers.applier_of(key).forget_row(key)
        self._isolation.forget_row(key, known)

    # What is queued

    def _enqueue(self, keys: Iterable[ObjectKey]) -> None:
        """Queue the rows among ``keys``, if the instance is ours and they need not wait for the first comparison."""
        if self._working:
            known = [key for key in keys if key in self._rows]
            self._add_keys(known if self._takeover is None else self._takeover.defer_keys(known))

    def _add_keys(self, keys: Iterable[ObjectKey]) -> None:
        for key in keys:
            self._enqueuer.enqueue_key(key)
        self._workers.start_tasks()

    def _observe_change(self, key: ObjectKey) -> None:
        """An informer saw a change of an object."""
        self._isolation.notify_change()
        if self._takeover is not None:
            self._takeover.defer_keys([key] if self.listed else [])
        elif self._working:
            self._statuses.report_status(key)
            self._enqueuer.enqueue_if_drifted(key, self._clock.time())
            self._workers.start_tasks()

    def _begin_work(self) -> None:
        """Private repositories are known, or a list is complete. New rows need not wait for both."""
        if self._working and self._isolation.ready:
            self._workers.resume()
            if self.listed:
                self._comparison.cancel_all()
                self._comparison.start_task(self._compare_repeatedly(), "compare")

    async def _compare_repeatedly(self) -> None:
        while True:
            await self._compare()
            await self._report_again()
            await self._clock.sleep(self._settings.comparison_interval_seconds)

    async def _compare(self) -> None:
        """Queue each row whose object is not as desired, and orphans; in slices, because there may be many rows."""
        due = defaultdict[str, list[ObjectKey]](list)
        async for key in in_slices(list(self._rows)):
            if self._enqueuer.is_due(key):
                due[self._rows[key].lane].append(key)
        self._appliers.syncs.repeat_ends()
        # A lane at a time: an AppProject is not to come after its Applications.
        async for keys in in_slices(due.values(), LANES_AT_ONCE):
            self._add_keys(key for key in keys if key in self._rows)
        self._end_takeover()
        self._review_orphans()

    def _review_orphans(self) -> None:
        """Queue orphans that may be deleted, and report those that are kept, at each comparison."""
        if not self._complete:
            return
        unwanted = [key for key in self._live if key not in self._rows]
        self._add_keys(self._orphans.find_due(unwanted, len(self._live), self._clock.now()))
        if (report := self._orphans.report()) is not None:
            try:
                self._dependencies.reports.send_report(self.name, report, lambda _: None)
            except Retry as error:  # at the next look
                log.warning("orphans not told", instance=self.name, error=str(error))

    def _review_approved(self) -> None:
        """Review orphans at once if all has been compared; otherwise the comparison does so at its end."""
        if self._working and self._takeover is None:
            self._review_orphans()

    def _end_takeover(self) -> None:
        takeover, self._takeover = self._takeover, None
        for key in takeover.deferred if takeover is not None else ():
            self._observe_change(key)
            self._enqueue([key])

    async def _report_again(self) -> None:
        """Report again statuses and successes that the planner may have missed."""
        for number, key in enumerate(list(self._rows), start=1):
            self._statuses.report_status(key)
            if self._outcomes.is_report_due(key, self._clock.now()):
                self._enqueue([key])
            if number % REPORTS_AT_ONCE == 0:
                await self._clock.sleep(REPORTS_PAUSE_SECONDS)

    async def _report_inaccessible(self) -> None:
        """Report on all Applications that nothing is done. That may last until somebody restores the namespace.

        Meanwhile nothing is listed, so no worker would find that out. This replaces the first comparison.
        """
        for number, key in enumerate(list(self._rows), start=1):
            self._report_not_accepted(key)
            if number % REPORTS_AT_ONCE == 0:
                await self._clock.sleep(REPORTS_PAUSE_SECONDS)

    def _report_not_accepted(self, key: ObjectKey) -> None:
        row = self._status_row(key)
        if row is not None:
            self._outcomes.report_failure(key, row, None, RefusedInput(ENGINE_NOT_ACCEPTED.text()))

    # What the workers do

    async def _work(self, key: ObjectKey) -> datetime | None:
        row = self._rows.get(key)
        if row is None:
            return await self._remove_orphan(key)
        # Of this row: a newer one may come while it is worked on, and this work is not that one's effect.
        acknowledge = self._pending.unreported(key)
        outcome: Outcome | Permanent
        try:
            kind_of(row, self.namespace)
            outcome = await self._appliers.applier_of(key).reconcile_row(key, row)
        except Permanent as error:
            outcome = error
        finally:
            self._isolation.notify_change()
        if key not in self._rows:
            return None  # withdrawn meanwhile: there is nothing to report of it
        match outcome:
            case InProgress(deadline):
                return deadline
            case Done():
                self._outcomes.report_outcome(key, row, acknowledge, outcome)
                self._enqueuer.enqueue_sync(key)
            case Permanent():
                self._outcomes.report_failure(key, row, acknowledge, outcome)
        return None

    async def _remove_orphan(self, key: ObjectKey) -> datetime | None:
        if not self._orphans.may_delete(key):
            return None
        try:
            outcome = await self._appliers.objects.remove_object(key)
        except Permanent as error:
            log.warning("refused", instance=self.name, kind=key.kind, name=key.name, error=str(error))
            return None
        if isinstance(outcome, InProgress):
            return outcome.deadline
        log.warning("deleted an object that no row desires", instance=self.name, kind=key.kind, name=key.name)
        self._orphans.forget_object(key)
        return None

    def _status_row(self, key: ObjectKey) -> EngineResource | None:
        row = self._rows.get(key)
        is_reported = key.kind in KINDS and KINDS[key.kind].reports_status
        return row if is_reported and row is not None and row.desired == "present" else None
