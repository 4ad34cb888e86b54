"""One engine instance: its desired rows, its watches and the work that brings the two together.

Driven by ``fleet`` (assignment), ``intake`` (rows) and the watches. Promises: the newest row of an object wins and
older ones are acknowledged at once; an event is acknowledged when its effect is certain and its observations are
delivered; nothing is tried before the watches have listed what exists.

What belongs to it: ``watches`` (what exists), ``attention`` (what to look at), ``appliers`` and ``syncs`` (what to do
about it), ``settlement`` (what to tell of it).
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from services.agent.acknowledgement import Ticket
from services.agent.appliers import Applier, ObjectApplier, SecretApplier
from services.agent.attention import Attention
from services.agent.beside import Beside
from services.agent.clock import Timer
from services.agent.compositions import CheckIntervals, Compositions
from services.agent.disposals import Disposals
from services.agent.duties import Duties
from services.agent.kinds import KINDS
from services.agent.live_objects import LiveObjects
from services.agent.objects import ObjectKey, key_of, kind_of
from services.agent.orphans import Orphans
from services.agent.outcomes import Aside, Done, Going
from services.agent.outside import Outside, Rules
from services.agent.pool import LookAgain, Pool
from services.agent.private_repositories import Fence
from services.agent.reconciler import Reconciler
from services.agent.repositories import Repositories
from services.agent.set_aside import SetAside
from services.agent.settlement import Settlement
from services.agent.status_reports import StatusReports
from services.agent.syncs import SyncApplier
from services.agent.watches import Watches
from services.agent.work_queue import WorkQueue
from services.common.errors import Permanent
from services.common.kube import SECRET
from services.common.messages import EngineResource
from services.common.messages.compiled import RowKind
from services.common.telemetry import metrics

log = structlog.get_logger(__name__)


class Instance:
    """Brings one namespace of an engine cluster to its desired rows."""

    def __init__(self, name: str, namespace: str, outside: Outside, rules: Rules) -> None:
        """Nothing runs before :meth:`start`."""
        self.name, self._namespace, self._rules = name, namespace, rules
        self._outside, self._clock = outside, outside.clock
        self._rows: dict[ObjectKey, EngineResource] = {}
        self._live = LiveObjects()
        self._queue = WorkQueue()
        self._pool = Pool(name, self._queue, self._work, rules.concurrency, self._clock, outside.on_defect)
        self._watches = Watches(namespace, self._live, self._notice, self._begin_if_listed)
        self._duties = Duties(outside.reports, self._report_again)
        self._statuses = StatusReports(outside.reports, self._live, self._status_row, self._clock)
        self._settlement = Settlement(name, self._duties, self._statuses, self._clock)
        self._orphans = Orphans(rules.orphan_grace)
        self._build_appliers()
        self._attention = Attention(
            self._rows,
            self._live,
            self._queue,
            lambda key, row: self._applier(key).has_drifted(key, row),
            self._settlement,
            self._duties,
        )
        self._comparison: Timer | None = None
        self._working = False
        self._complete = True

    def _build_appliers(self) -> None:
        outside, rules, clock = self._outside, self._rules, self._clock
        reconciler = Reconciler(outside.cluster, self._live, clock, rules.deletion_deadline)
        look, intervals = self._look_at_secret, CheckIntervals(rules.check_interval, rules.failed_check_interval)
        self._fence = Fence(self._rows, self._live, self._namespace, outside, self._look_at)
        compositions = Compositions(self._beside(), outside.composers, clock, intervals, self._fence.admit, look)
        disposals = Disposals(self._beside(), outside.composers, self._live, clock, rules.deletion_deadline, look)
        self._set_aside = SetAside(compositions, self._live)
        self._repositories = Repositories(self._beside(), outside.composers, self._live, self._look_at)
        self._objects = ObjectApplier(reconciler, self._live, self._repositories, self._set_aside, self._fence)
        self._syncs = SyncApplier(outside.cluster, self._live, outside.reports, clock, self._fence.require_login)
        self._appliers: dict[str, Applier] = {
            SECRET.kind: SecretApplier(reconciler, self._live, compositions, disposals, clock),
            RowKind.SYNC_OPERATION: self._syncs,
        }

    def _beside(self) -> Beside:
        return Beside(self._outside.cluster, self._outside.on_defect)

    @property
    def listed(self) -> bool:
        """Every watch has shown once what exists."""
        return self._watches.listed

    @property
    def pending(self) -> int:
        """Objects not yet as desired."""
        return len(self._queue)

    def start(self) -> None:
        """Watch. Work begins with :meth:`work`."""
        self._watches.start(self._outside.follow, self._outside.on_defect)

    def work(self, rows: Iterable[EngineResource], *, complete: bool = True) -> None:
        """These are the rows of the partition just taken over, and it is ours: compare everything, then keep up.

        Unless they are ``complete`` nothing is deleted for want of a row.
        """
        self._complete = complete
        self._rows.clear()
        self._rows.update((key_of(row), row) for row in rows)
        self._working = True
        self._fence.take_over(self._begin_if_listed)

    async def suspend(self) -> None:
        """The partition was revoked: when this returns no call is in flight, and pending work is dropped."""
        self._working = False
        if self._comparison is not None:
            self._comparison.cancel()
        self._orphans.forget()
        self._duties.clear()
        await self._pool.suspend()
        for applier in (self._objects, *self._appliers.values()):
            await applier.suspend()
        self._settlement.suspend()
        self._count_pending()

    async def stop(self) -> None:
        """Suspend, and end the watches."""
        await self.suspend()
        await self._watches.stop()

    def submit(self, row: EngineResource, ticket: Ticket) -> None:
        """A row's newest state: it replaces older ones, whose events are done thereby."""
        key = key_of(row)
        self._duties.take(key, ticket)
        self._rows[key] = row
        self._fence.know(key, row)
        self._orphans.spare(key)
        self._mark(key)

    def forget(self, row: EngineResource, ticket: Ticket) -> None:
        """The row itself is gone: nothing is desired of the object any more, not even its absence."""
        key = key_of(row)
        self._duties.take(key, ticket)
        self._duties.drop(key)
        known = self._rows.pop(key, None)
        self._settlement.forget(key)
        self._applier(key).forget(key)
        self._fence.forget(key, known)
        if known is not None:
            self._release(known.lane)

    # Looking

    def _mark(self, *keys: ObjectKey) -> None:
        for key in keys:
            self._attention.mark(key)
        self._count_pending()
        self._pool.kick()

    def _notice(self, key: ObjectKey) -> None:
        """An object changed under us."""
        self._fence.moved()
        if self._working and self.listed:
            self._statuses.look(key)
            self._attention.notice(key, self._clock.now())
            self._pool.kick()

    def _look_at_secret(self, row: EngineResource) -> None:
        """What went on beside the pool has ended: the pool does the rest, the Secret before who waited for it."""
        if self._working:
            self._mark(key_of(row))
            self._release(row.lane)

    def _release(self, lane: str) -> None:
        self._look_at(sorted(self._set_aside.release(lane)))

    def _look_at(self, keys: Iterable[ObjectKey]) -> None:
        if self._working:
            self._mark(*(key for key in keys if key in self._rows))

    def _report_again(self, key: ObjectKey) -> None:
        if self._working and key in self._rows:
            self._mark(key)

    def _begin_if_listed(self) -> None:
        if self._working and self.listed and self._fence.ready:
            self._compare()
            self._pool.resume()

    def _compare(self) -> None:
        """Look at every row that is not as desired, and at what no row desires; repeats itself."""
        if self._comparison is not None:
            self._comparison.cancel()
        self._comparison = self._clock.call_at(self._clock.now() + self._rules.comparison_interval, self._compare)
        for key in self._rows:
            self._statuses.look(key)
        self._repositories.look_again()
        self._syncs.tell_again()
        self._attention.compare(self._clock.now())
        unwanted = [key for key in self._live if key not in self._rows] if self._complete else []
        self._mark(*self._orphans.due(unwanted, len(self._live), self._clock.now()))

    # Working

    def _applier(self, key: ObjectKey) -> Applier:
        return self._appliers.get(key.kind, self._objects)

    async def _work(self, key: ObjectKey) -> LookAgain | None:
        row = self._rows.get(key)
        if row is None:
            return await self._remove_orphan(key)
        # Of this row: a newer one may come while it is worked on, and this work is not that one's effect.
        ticket = self._duties.unreported(key)
        try:
            kind_of(row, self._namespace)
            outcome = await self._applier(key).apply(key, row)
        except Permanent as error:
            self._settlement.refuse(key, row, ticket, error)
            return None
        finally:
            self._fence.moved()
            self._count_pending()
        match outcome:
            case Going(deadline):
                return LookAgain(deadline)
            case Done():
                self._settlement.settle(key, row, ticket, outcome)
                self._attention.follow_up(key)
            case Aside():
                pass
        return None

    async def _remove_orphan(self, key: ObjectKey) -> LookAgain | None:
        if not self._orphans.condemned(key):
            return None
        try:
            outcome = await self._objects.remove(key)
        except Permanent as error:
            log.warning("refused", instance=self.name, kind=key.kind, name=key.name, error=str(error))
            return None
        if isinstance(outcome, Going):
            return LookAgain(outcome.deadline)
        log.warning("deleted an object that no row desires", instance=self.name, kind=key.kind, name=key.name)
        self._orphans.spare(key)
        return None

    def _status_row(self, key: ObjectKey) -> EngineResource | None:
        row = self._rows.get(key)
        is_reported = key.kind in KINDS and KINDS[key.kind].reports_status
        return row if is_reported and row is not None and row.desired == "present" else None

    def _count_pending(self) -> None:
        metrics.ENGINE_PENDING.labels(self.name).set(len(self._queue))
