"""One engine instance: its desired rows, its watches and the work that brings the two together.

Driven by ``fleet`` (assignment), ``intake`` (rows) and the watches. Promises: the newest row of an object wins and
older ones are acknowledged at once; an event is acknowledged when its effect is certain and its observation delivered;
nothing is tried before the watches have listed what exists.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from services.agent.acknowledgement import Ticket
from services.agent.clock import Clock, Timer
from services.agent.cluster import Cluster, Follow
from services.agent.kinds import KINDS, ManagedKind
from services.agent.live_objects import LiveObjects
from services.agent.objects import ObjectKey, desired_object, key_of, kind_of
from services.agent.orphans import Orphans
from services.agent.plan import difference
from services.agent.pool import LookAgain, Pool
from services.agent.reconciler import Done, Going, Reconciler
from services.agent.repair_pace import RepairPace
from services.agent.reports import Reports
from services.agent.status_reports import StatusReports
from services.agent.work_queue import Place, WorkQueue
from services.common.errors import Permanent
from services.common.kube import Changed, ListCompleted, ListStarted, Manifest, Reflection, Removed, Seen
from services.common.messages import Applied, EngineResource, Failed
from services.common.messages import Removed as RemovedFromEngine
from services.common.messages.observation import ObservationEvent
from services.common.telemetry import metrics

log = structlog.get_logger(__name__)

ORPHAN_LANE = ""
"""No tenant's lane: lanes are named after AppProjects."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How an instance is treated; from the settings."""

    concurrency: int = 8
    deletion_deadline: timedelta = timedelta(seconds=60)
    comparison_interval: timedelta = timedelta(seconds=300)
    orphan_grace: timedelta = timedelta(seconds=600)


@dataclass(frozen=True, slots=True)
class Outside:
    """What an instance acts on and reports to."""

    cluster: Cluster
    follow: Follow
    reports: Reports
    clock: Clock
    on_defect: Callable[[BaseException], None]


class Instance:
    """Brings one namespace of an engine cluster to its desired rows."""

    def __init__(self, name: str, namespace: str, outside: Outside, rules: Rules) -> None:
        """Nothing runs before :meth:`start`."""
        self.name, self._namespace, self._rules = name, namespace, rules
        self._outside, self._clock = outside, outside.clock
        self._rows: dict[ObjectKey, EngineResource] = {}
        self._tickets: dict[ObjectKey, Ticket] = {}
        self._reported: dict[ObjectKey, Ticket] = {}
        self._in_sync: dict[ObjectKey, str] = {}
        self._refused: dict[ObjectKey, tuple[str, str]] = {}
        self._live = LiveObjects()
        self._queue = WorkQueue()
        self._reconciler = Reconciler(outside.cluster, self._live, self._clock, rules.deletion_deadline)
        self._pool = Pool(name, self._queue, self._work, rules.concurrency, self._clock, outside.on_defect)
        self._statuses = StatusReports(outside.reports, self._live, self._present_row)
        self._orphans = Orphans(rules.orphan_grace)
        self._pace = RepairPace()
        self._unlisted = set(KINDS)
        self._watches: list[asyncio.Task[None]] = []
        self._comparison: Timer | None = None
        self._working = False
        self._complete = True

    @property
    def listed(self) -> bool:
        """Every watch has shown once what exists."""
        return not self._unlisted

    @property
    def pending(self) -> int:
        """Objects not yet as desired."""
        return len(self._queue)

    def start(self) -> None:
        """Watch. Work begins with :meth:`work`."""
        self._watches = [asyncio.create_task(self._follow(kind), name=f"watch {name}") for name, kind in KINDS.items()]

    def work(self, rows: Iterable[EngineResource], *, complete: bool = True) -> None:
        """These are the rows of the partition just taken over, and it is ours: compare everything, then keep up.

        Unless they are ``complete`` nothing is deleted for want of a row.
        """
        self._complete = complete
        self._rows = {key_of(row): row for row in rows}
        self._working = True
        self._begin_if_listed()

    async def suspend(self) -> None:
        """The partition was revoked: when this returns no call is in flight, and pending work is dropped."""
        self._working = False
        if self._comparison is not None:
            self._comparison.cancel()
        self._orphans.forget()
        self._tickets.clear()
        self._reported.clear()
        await self._pool.suspend()
        self._count_pending()

    async def stop(self) -> None:
        """Suspend, and end the watches."""
        await self.suspend()
        for watch in self._watches:
            watch.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)

    def submit(self, row: EngineResource, ticket: Ticket) -> None:
        """A row's newest state: it replaces older ones, whose events are done thereby."""
        key = key_of(row)
        self._supersede(key, ticket)
        self._rows[key] = row
        self._orphans.spare(key)
        self._mark(key)
        self._pool.kick()

    def forget(self, row: EngineResource, ticket: Ticket) -> None:
        """The row itself is gone: nothing is desired of the object any more, not even its absence."""
        key = key_of(row)
        self._supersede(key, ticket)
        for memory in (self._rows, self._in_sync, self._refused, self._tickets):
            memory.pop(key, None)
        self._statuses.forget(key)
        ticket.done()

    # Deciding what to look at

    def _supersede(self, key: ObjectKey, ticket: Ticket) -> None:
        older = self._tickets.get(key)
        self._tickets[key] = ticket
        if older is not None:
            older.done()

    def _mark(self, key: ObjectKey, not_before: datetime | None = None) -> None:
        place = self._place(key)
        if not_before is None:
            self._queue.mark(key, place)
        else:
            self._queue.mark_at(key, place, not_before)
        self._count_pending()

    def _place(self, key: ObjectKey) -> Place:
        row = self._rows.get(key)
        if row is None:
            return Place(ORPHAN_LANE, wave=1 if KINDS[key.kind].cascade_finalizer else 0, absent=True)
        return Place(row.lane, row.wave, absent=row.desired == "absent")

    def _present_row(self, key: ObjectKey) -> EngineResource | None:
        row = self._rows.get(key)
        return row if row is not None and row.desired == "present" else None

    # Watching

    async def _follow(self, kind: ManagedKind) -> None:
        try:
            async for event in self._outside.follow(kind.resource, self._namespace):
                self._take_in(kind.resource.kind, event)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # a watch that ends is a reason to start anew, with a message
            self._outside.on_defect(error)
            raise

    def _take_in(self, kind: str, event: Reflection) -> None:
        metrics.WATCH_EVENTS.labels("agent", kind, type(event).__name__).inc()
        match event:
            case ListStarted():
                metrics.WATCH_RELISTS.labels("agent", kind).inc()
                self._live.begin_list(kind)
            case Seen(manifest) | Changed(manifest):
                key = self._live.put(kind, manifest)
                if key is not None:
                    self._notice(key)
            case Removed(manifest):
                self._notice_removal(kind, manifest)
            case ListCompleted():
                for key in self._live.end_list(kind):
                    self._notice(key)
                self._unlisted.discard(kind)
                self._begin_if_listed()
        metrics.RESOURCES.labels("agent", kind).set(len(self._live))

    def _notice_removal(self, kind: str, manifest: Manifest) -> None:
        meta = manifest["metadata"]
        key = ObjectKey(kind, meta["namespace"], meta["name"])
        self._live.drop(key, meta["uid"])
        self._notice(key)

    def _notice(self, key: ObjectKey) -> None:
        """An object changed under us: look at it if it is not as desired, report its status if that changed."""
        if not self._working or not self.listed:
            return
        self._statuses.look(key)
        if key not in self._queue:
            if not self._has_drifted(key):
                return  # as desired: most often the echo of our own write
            self._mark(key, self._pace.next_repair(key, self._clock.now()))
        elif self._is_going(key):
            self._mark(key)
        elif self._has_drifted(key):
            self._queue.mark_if_running(key, self._place(key))
        self._pool.kick()

    def _is_going(self, key: ObjectKey) -> bool:
        live = self._live.get(key)
        return live is None or live.deletion_started is not None

    def _has_drifted(self, key: ObjectKey) -> bool:
        row = self._rows.get(key)
        if row is None or self._refused.get(key, ("",))[0] == row.digest:
            return False
        live = self._live.get(key)
        if row.desired == "absent" or live is None or live.deletion_started is not None:
            return row.desired == "present" or live is not None
        return bool(difference(desired_object(KINDS[key.kind], row), live))

    # Comparing everything

    def _begin_if_listed(self) -> None:
        if self._working and self.listed:
            self._compare()
            self._pool.resume()

    def _compare(self) -> None:
        """Look at every row that is not as desired, and at what no row desires; repeats itself."""
        if self._comparison is not None:
            self._comparison.cancel()
        self._comparison = self._clock.call_at(self._clock.now() + self._rules.comparison_interval, self._compare)
        for key in self._rows:
            self._refused.pop(key, None) if key not in self._tickets else None
            self._compare_one(key)
        unwanted = [key for key in self._live if key not in self._rows] if self._complete else []
        for key in self._orphans.due(unwanted, len(self._live), self._clock.now()):
            self._mark(key)
        self._pool.kick()

    def _compare_one(self, key: ObjectKey) -> None:
        self._statuses.look(key)
        try:
            needed = key in self._tickets or self._rows[key].desired == "absent" or self._has_drifted(key)
        except (Permanent, KeyError):
            needed = True  # the work itself says what is wrong with the row
        if needed:
            self._mark(key)

    # Working

    async def _work(self, key: ObjectKey) -> LookAgain | None:
        row, ticket = self._rows.get(key), self._unreported(key)
        if row is None and not self._orphans.condemned(key):
            return None
        try:
            kind = kind_of(row, self._namespace) if row else KINDS[key.kind]
            desired = desired_object(kind, row) if row and row.desired == "present" else None
            outcome = await self._reconciler.reconcile(kind, key, desired)
        except Permanent as error:
            self._refuse(key, row, ticket, error)
            return None
        finally:
            self._count_pending()
        match outcome:
            case Going(deadline):
                return LookAgain(deadline)
            case Done():
                self._settle(key, row, ticket, outcome)
        return None

    def _settle(self, key: ObjectKey, row: EngineResource | None, ticket: Ticket | None, done: Done) -> None:
        if row is None:
            log.warning("deleted an object that no row desires", instance=self.name, kind=key.kind, name=key.name)
            return self._orphans.spare(key)
        if row.desired == "absent":
            self._in_sync.pop(key, None)
            self._statuses.forget(key)
            if ticket is not None or done.forced:
                self._report(key, row, ticket, RemovedFromEngine(forced=done.forced))
            return None
        drifted = done.changed and self._in_sync.get(key) == row.digest
        was_refused = self._refused.pop(key, None) is not None
        self._in_sync[key] = row.digest
        if drifted:
            metrics.DRIFT_REPAIRS.labels("agent", row.kind).inc()
        if ticket is not None:
            self._measure(row)
        if ticket is not None or done.changed or was_refused:
            self._report(key, row, ticket, Applied(row.digest, drift_repaired=drifted))
        return self._statuses.look(key)

    def _refuse(self, key: ObjectKey, row: EngineResource | None, ticket: Ticket | None, error: Permanent) -> None:
        metrics.ERRORS.labels("agent", "Permanent", "apply").inc()
        log.warning("refused", instance=self.name, kind=key.kind, name=key.name, error=str(error))
        if row is None:
            return
        refusal = (row.digest, str(error))
        known = self._refused.get(key) == refusal
        self._refused[key] = refusal
        if ticket is not None or not known:
            self._report(key, row, ticket, Failed(row.digest, permanent=True, message=str(error)))

    def _report(self, key: ObjectKey, row: EngineResource, ticket: Ticket | None, event: ObservationEvent) -> None:
        """Send the observation; the event is acknowledged when it has arrived."""
        self._outside.reports.send(row, event, lambda arrived: self._delivered(key, ticket, arrived))
        if ticket is not None:
            self._reported[key] = ticket

    def _unreported(self, key: ObjectKey) -> Ticket | None:
        """The event that still waits for an observation; one that is on its way is not sent again."""
        ticket = self._tickets.get(key)
        return None if ticket is self._reported.get(key) else ticket

    def _delivered(self, key: ObjectKey, ticket: Ticket | None, arrived: bool) -> None:
        if self._reported.get(key) is ticket:
            self._reported.pop(key, None)
        if arrived and ticket is not None:
            ticket.done()
            if self._tickets.get(key) is ticket:
                del self._tickets[key]
        elif not arrived and self._working and key in self._rows:
            self._mark(key)  # what is so is found so again, and reported again
            self._pool.kick()

    def _measure(self, row: EngineResource) -> None:
        elapsed = (self._clock.now() - row.seen_at).total_seconds()
        metrics.END_TO_END.labels("applied", row.kind).observe(max(0.0, elapsed))

    def _count_pending(self) -> None:
        metrics.ENGINE_PENDING.labels(self.name).set(len(self._queue))
