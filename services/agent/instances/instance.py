"""One engine instance: its desired rows, its informers and the workers that reconcile the two.

Driven by ``owned_instances`` (assignment), ``message_handler`` (rows) and the informers. The newest row of an object
wins and older ones are acknowledged at once; a message is acknowledged when its effect is certain and its observations
are delivered; nothing is reconciled before the informers have listed what exists.

Its parts: ``informers`` (what exists), ``enqueuer`` (what to reconcile), ``appliers`` and ``sync_applier`` (how),
``outcome_reporter`` (what to report).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta

import structlog

from services.agent.credentials import CredentialChecker
from services.agent.credentials.account_cleanups import AccountCleanups
from services.agent.credentials.background_tasks import BackgroundTasks
from services.agent.credentials.secret_checks import CheckIntervals, SecretChecks
from services.agent.credentials.waiting_applications import WaitingApplications
from services.agent.objects.desired import kind_of
from services.agent.objects.live import EngineObjects
from services.agent.objects.managed_kinds import KINDS, ObjectKey, key_of
from services.agent.observe.informers import Follow, Informers
from services.agent.observe.observation_sink import ObservationSink
from services.agent.observe.pending_acks import Acknowledge, PendingAcks
from services.agent.observe.status_reporter import StatusReporter
from services.agent.private_repositories import RepositoryIsolation
from services.agent.private_repositories.allowed_repositories import AllowedRepositories
from services.agent.private_repositories.store import PrivateRepositoryStore
from services.agent.reconcile.appliers import Applier, ObjectApplier, SecretApplier
from services.agent.reconcile.enqueuer import Enqueuer
from services.agent.reconcile.instance_workers import InstanceWorkers, Requeue
from services.agent.reconcile.orphans import Orphans
from services.agent.reconcile.outcome_reporter import OutcomeReporter
from services.agent.reconcile.outcomes import Blocked, Done, InProgress
from services.agent.reconcile.reconciler import Reconciler
from services.agent.sync.sync_applier import SyncApplier
from services.common.clock import Clock
from services.common.errors import Permanent
from services.common.kubernetes import SECRET, KubeClient
from services.common.messages import EngineResource
from services.common.messages.compiled import RowKind
from services.common.queueing import WorkQueue, in_slices
from services.common.telemetry import metrics


@dataclass(frozen=True, slots=True)
class InstanceSettings:
    """The part of the agent's settings that concerns an instance."""

    concurrency: int
    deletion_deadline: timedelta
    comparison_interval: timedelta
    orphan_grace: timedelta
    check_interval: timedelta
    failed_check_interval: timedelta


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What an instance acts on and reports to."""

    cluster: KubeClient
    follow: Follow
    checker: CredentialChecker
    reports: ObservationSink
    clock: Clock
    on_defect: Callable[[BaseException], None]


log = structlog.get_logger(__name__)

LANES_AT_ONCE = 10
"""Lanes of which all that is due is queued in one turn of the loop; a tenant's quotas bound what a lane holds."""


class Instance:
    """Brings one namespace of an engine cluster to its desired rows."""

    def __init__(self, name: str, namespace: str, dependencies: Dependencies, settings: InstanceSettings) -> None:
        """Nothing runs before :meth:`start`."""
        self.name, self._namespace, self._settings = name, namespace, settings
        self._dependencies, self._clock = dependencies, dependencies.clock
        self._rows: dict[ObjectKey, EngineResource] = {}
        self._live = EngineObjects()
        self._queue: WorkQueue[ObjectKey] = WorkQueue()
        self._workers = InstanceWorkers(
            name, self._queue, self._work, settings.concurrency, self._clock, dependencies.on_defect
        )
        self._informers = Informers(namespace, self._live, self._notice, self._begin_if_listed)
        self._pending = PendingAcks(dependencies.reports, self._report_again)
        self._statuses = StatusReporter(dependencies.reports, self._live, self._status_row, self._clock)
        self._outcomes = OutcomeReporter(name, self._pending, self._statuses, self._clock)
        self._orphans = Orphans(settings.orphan_grace)
        self._build_appliers()
        self._enqueuer = Enqueuer(
            self._rows,
            self._live,
            self._queue,
            lambda key, row: self._applier(key).has_drifted(key, row),
            self._outcomes,
            self._pending,
        )
        self._comparison = self._tasks()
        self._working = False
        self._complete = True

    def _build_appliers(self) -> None:
        dependencies, settings, clock = self._dependencies, self._settings, self._clock
        checker = dependencies.checker
        reconciler = Reconciler(dependencies.cluster, self._live, clock, settings.deletion_deadline)
        look, intervals = self._look_at_secret, CheckIntervals(settings.check_interval, settings.failed_check_interval)
        private = PrivateRepositoryStore(dependencies.cluster, self._namespace)
        self._isolation = RepositoryIsolation(
            self._rows, self._live, private, self._tasks(), checker, clock=clock, look=self._look_at
        )
        self._waiting = WaitingApplications(self._live, self._look_at)
        checks = SecretChecks(
            self._tasks(),
            checker,
            clock,
            intervals,
            admit=self._isolation.admit,
            waiting_applications=self._waiting,
            settled=look,
        )
        cleanups = AccountCleanups(self._tasks(), checker, self._live, clock, settings.deletion_deadline, look)
        self._repositories = AllowedRepositories(self._tasks(), checker, self._live, self._look_at)
        self._objects = ObjectApplier(reconciler, self._live, self._repositories, self._waiting, self._isolation)
        self._syncs = SyncApplier(
            dependencies.cluster, self._live, dependencies.reports, clock, self._isolation.require_login
        )
        self._appliers: dict[str, Applier] = {
            SECRET.kind: SecretApplier(reconciler, self._live, checks, cleanups, clock),
            RowKind.SYNC_OPERATION: self._syncs,
        }

    def _tasks(self) -> BackgroundTasks:
        return BackgroundTasks(self._dependencies.cluster, self._dependencies.on_defect)

    @property
    def listed(self) -> bool:
        """Every watch has shown once what exists."""
        return self._informers.listed

    @property
    def pending(self) -> int:
        """Objects not yet as desired."""
        return len(self._queue)

    def start(self) -> None:
        """Watch. Work begins with :meth:`work`."""
        self._informers.start(self._dependencies.follow, self._dependencies.on_defect)

    def work(self, rows: Iterable[EngineResource], *, complete: bool = True) -> None:
        """These are the rows of the partition just taken over, and it is ours: compare everything, then keep up.

        Unless they are ``complete`` nothing is deleted for want of a row.
        """
        self._complete = complete
        self._rows.clear()
        self._rows.update((key_of(row), row) for row in rows)
        self._working = True
        self._isolation.take_over(self._begin_if_listed)

    async def suspend(self) -> None:
        """The partition was revoked: when this returns no call is in flight, and pending work is dropped."""
        self._working = False
        self._comparison.cancel_all()
        self._orphans.forget()
        self._pending.clear()
        await self._workers.suspend()
        for applier in (self._objects, *self._appliers.values()):
            await applier.suspend()
        self._outcomes.suspend()
        self._count_pending()

    async def stop(self) -> None:
        """Suspend, and end the watches."""
        await self.suspend()
        await self._informers.stop()

    def submit(self, row: EngineResource, acknowledge: Acknowledge) -> None:
        """A row's newest state: it replaces older ones, whose events are done thereby."""
        key = key_of(row)
        self._pending.add_message(key, acknowledge)
        self._rows[key] = row
        self._isolation.know(key, row)
        self._orphans.keep_object(key)
        self._mark(key)

    def forget(self, row: EngineResource, acknowledge: Acknowledge) -> None:
        """The row itself is gone: nothing is desired of the object any more, not even its absence."""
        key = key_of(row)
        self._pending.add_message(key, acknowledge)
        self._pending.acknowledge_object(key)
        known = self._rows.pop(key, None)
        self._outcomes.forget_object(key)
        self._applier(key).forget(key)
        self._isolation.forget(key, known)

    # Looking

    def _mark(self, *keys: ObjectKey) -> None:
        for key in keys:
            self._enqueuer.enqueue_key(key)
        self._count_pending()
        self._workers.start_tasks()

    def _notice(self, key: ObjectKey) -> None:
        """An object changed under us."""
        self._isolation.moved()
        if self._working and self.listed:
            self._statuses.report_status(key)
            self._enqueuer.enqueue_if_drifted(key, self._clock.time())
            self._workers.start_tasks()

    def _look_at_secret(self, row: EngineResource) -> None:
        """What went on beside the pool has ended: the pool does the rest, the Secret before who waited for it."""
        if self._working:
            self._mark(key_of(row))

    def _look_at(self, keys: Iterable[ObjectKey]) -> None:
        if self._working:
            self._mark(*(key for key in keys if key in self._rows))

    def _report_again(self, key: ObjectKey) -> None:
        if self._working and key in self._rows:
            self._mark(key)

    def _begin_if_listed(self) -> None:
        if self._working and self.listed and self._isolation.ready:
            self._comparison.cancel_all()
            self._comparison.start_task(self._compare_again_and_again(), "compare")

    async def _compare_again_and_again(self) -> None:
        """Work begins when all has been compared once."""
        while True:
            await self._compare()
            self._workers.resume()
            await self._clock.sleep(self._settings.comparison_interval.total_seconds())

    async def _compare(self) -> None:
        """Look at every row that is not as desired, and at what no row desires; in slices, rows may be many."""
        now, due = self._clock.now(), defaultdict[str, list[ObjectKey]](list)
        async for key in in_slices(list(self._rows)):
            self._statuses.report_status(key)
            if self._enqueuer.is_due(key, now):
                due[self._rows[key].lane].append(key)
        await self._repositories.look_again()
        self._syncs.tell_again()
        # A lane at a time: an AppProject is not to come after its Applications.
        async for keys in in_slices(due.values(), LANES_AT_ONCE):
            self._look_at(keys)
        unwanted = [key for key in self._live if key not in self._rows] if self._complete else []
        self._mark(*self._orphans.find_due(unwanted, len(self._live), now))

    # Working

    def _applier(self, key: ObjectKey) -> Applier:
        return self._appliers.get(key.kind, self._objects)

    async def _work(self, key: ObjectKey) -> Requeue | None:
        row = self._rows.get(key)
        if row is None:
            return await self._remove_orphan(key)
        # Of this row: a newer one may come while it is worked on, and this work is not that one's effect.
        acknowledge = self._pending.unreported(key)
        try:
            kind_of(row, self._namespace)
            outcome = await self._applier(key).apply(key, row)
        except Permanent as error:
            self._outcomes.report_refusal(key, row, acknowledge, error)
            return None
        finally:
            self._isolation.moved()
            self._count_pending()
        match outcome:
            case InProgress(deadline):
                return Requeue(deadline)
            case Done():
                self._outcomes.report_outcome(key, row, acknowledge, outcome)
                self._enqueuer.enqueue_sync(key)
            case Blocked():
                pass
        return None

    async def _remove_orphan(self, key: ObjectKey) -> Requeue | None:
        if not self._orphans.may_delete(key):
            return None
        try:
            outcome = await self._objects.remove(key)
        except Permanent as error:
            log.warning("refused", instance=self.name, kind=key.kind, name=key.name, error=str(error))
            return None
        if isinstance(outcome, InProgress):
            return Requeue(outcome.deadline)
        log.warning("deleted an object that no row desires", instance=self.name, kind=key.kind, name=key.name)
        self._orphans.keep_object(key)
        return None

    def _status_row(self, key: ObjectKey) -> EngineResource | None:
        row = self._rows.get(key)
        is_reported = key.kind in KINDS and KINDS[key.kind].reports_status
        return row if is_reported and row is not None and row.desired == "present" else None

    def _count_pending(self) -> None:
        metrics.ENGINE_PENDING.labels(self.name).set(len(self._queue))
