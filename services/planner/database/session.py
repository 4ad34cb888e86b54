"""The database as the loop sees it: tenants, the transaction of a batch, and what the log's positions are.

One connection, one transaction per batch: opened by the first write, closed by the commit in
:meth:`DatabaseSession.save_changes`; what is read before that is the planner's own. Tenants that were seen before
come from memory. Library errors are translated here, as :mod:`errors` decides: Retry (the database is away, busy, or
cannot write), Poison (it refuses these values), Permanent (it is not the database that this build is for).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any
from uuid import UUID, uuid4

import psycopg
import structlog
from psycopg import Connection
from psycopg.pq import TransactionStatus

from services.common.errors import GitOpsError, Retry
from services.common.kafka import LogExtent, TopicPartition
from services.common.telemetry.metrics import BATCH_SECONDS
from services.planner import SERVICE
from services.planner.database.answer_watch import AnswerWatch
from services.planner.database.dormant_queries import look_up_dormant
from services.planner.database.errors import decision_on, described
from services.planner.database.fleet_queries import (
    load_all_tenants,
    load_fleet_rows,
    load_holdings,
    load_measured_tenants_on,
    load_tenants_on,
    with_kept_rows,
)
from services.planner.database.fleet_view_queries import load_engine_clusters, load_fleet, load_placements, reload_fleet
from services.planner.database.instance_queries import load_engine_health, load_kept_orphans
from services.planner.database.load import Loaded, load
from services.planner.database.move_queries import (
    count_returned_moves,
    find_tenants_to_move,
    load_evacuations,
    lock_moves,
    measure_latencies,
)
from services.planner.database.periodic_queries import find_parked_statuses
from services.planner.database.pool_queries import find_leaving, load_burdens
from services.planner.database.positions import Position, resume, take_up
from services.planner.database.remedy_queries import load_remediations
from services.planner.database.save import Span, prepare, save
from services.planner.database.sweeps import find_unseen, find_unseen_of, load_newest_lists
from services.planner.database.tenant_cache import TenantCache
from services.planner.database.tenant_clusters import CLUSTERS_OF_PARTITIONS
from services.planner.domain.changes import BatchChanges
from services.planner.domain.dormancy import Lookup
from services.planner.domain.events import SweepPlace, SweepScope
from services.planner.domain.fleet.fleet import Fleet, Holding, TenantHere
from services.planner.domain.fleet.moves.pace import Pace, is_waited, next_pace
from services.planner.domain.fleet.pools.pool_rows import Burdens
from services.planner.domain.fleet.remediation.remediation_rows import Remediation
from services.planner.domain.fleet.rows import InstanceHealth, Move
from services.planner.domain.fleet.view import FleetView
from services.planner.domain.parked_statuses import LeftStatus
from services.planner.domain.state import TenantState
from services.planner.domain.sweeps import SweepFound
from services.planner.engines.interface import Engine
from services.planner.rows import KeptOrphans, ParkedTenant, SweepPart, TenantName

log = structlog.get_logger(__name__)

# Every statement looks up keys that it is given: arrays where it reads, a JSON text where it writes. With fresh
# statistics missing (a new database filling up) the optimizer would choose to read whole tables, and keep that plan for
# as long as the connection lives.
_DISABLED = ("seqscan", "hashjoin", "mergejoin", "material")
OPTIONS = (
    " ".join(f"-c enable_{node}=off" for node in _DISABLED)
    + " -c jit=off -c plan_cache_mode=force_generic_plan -c statement_timeout=30s"
    # A planner that was stopped in the middle of a transaction would hold its rows for as long as it lives.
    " -c idle_in_transaction_session_timeout=5s"
)

SILENT_SECONDS = 2
"""How long no connection is to be had until another planner may do better: a restart of PostgreSQL is nothing."""

MEBIBYTE = 1024 * 1024
LOAD_SECONDS = BATCH_SECONDS.labels(SERVICE, "load")

ENSURE_POSITIONS = """
INSERT INTO consumer_offsets (topic, partition, next_offset)
SELECT *, 0 FROM unnest(%s::text[], %s::int4[]) ON CONFLICT DO NOTHING
"""
FORGET_POSITIONS = """
DELETE FROM consumer_offsets AS known
 WHERE NOT EXISTS (SELECT FROM unnest(%s::text[], %s::int4[]) AS existing(topic, partitions)
                    WHERE existing.topic = known.topic AND known.partition < existing.partitions)
"""
LOCK_POSITIONS = """
SELECT topic, partition, topic_id, next_offset
  FROM consumer_offsets JOIN unnest(%s::text[], %s::int4[]) AS asked(topic, partition) USING (topic, partition)
   FOR UPDATE OF consumer_offsets
"""


class Unreachable(Retry):
    """No connection to the database has been to be had for :data:`SILENT_SECONDS`: another planner may have one."""


class DatabaseSession:
    """See the module. Not for more than one thread."""

    def __init__(self, url: str, engines: Mapping[str, Engine], kept_bytes: int = 128 * MEBIBYTE) -> None:
        """Connects at first use, and again after the connection was lost; ``kept_bytes``: of tenants in memory."""
        self._url, self._engines = url, engines
        self._connection: Connection[Any] | None = None
        self._silent_since = float("inf")
        """When the first of the attempts to connect began that all have failed, on the monotonic clock."""
        self._watch = AnswerWatch(self._answers)
        self.owner = uuid4()
        """Who we are: only the planner that took a partition up last may write its rows."""
        self._fleet = FleetView({}, engines)
        self._placements: Mapping[UUID, str] = {}
        self.tenants = TenantCache(kept_bytes)
        self._pace: Pace | None = None

    @property
    def fleet(self) -> FleetView:
        """Engine instances as they were read last.

        What they carry is as at the last :meth:`refresh_fleet`, and what was written since besides.
        """
        return self._fleet

    def load_tenants(self, wanted: Collection[TenantName]) -> Loaded:
        """The tenants that have these names or had them. Those are kept of whose name none is parked."""
        found = {name: self.tenants.find_tenants(name) for name in wanted}
        known = {name: tuple(states) for name, states in found.items() if states is not None}
        if len(known) == len(found) and self._fleet.instances:
            return Loaded(known, frozenset(), self._fleet)
        with self._translated() as connection, LOAD_SECONDS.time():
            loaded = load(connection, found.keys() - known.keys(), self._fleet)
        self._keep_fleet(loaded.fleet)
        for name, states in loaded.tenants.items():
            known[name] = tuple(state.indexed() for state in states)
            if not loaded.is_in_doubt(name):
                self.tenants.keep_tenants(name, known[name])
        return replace(loaded, tenants=known, fleet=self._fleet)

    def find_engine_clusters(self, instances: Collection[str]) -> Mapping[str, str]:
        """The engine cluster of each of these instances; of those that there are not, none."""
        viewed = self._fleet.instances
        known = {each: viewed[each].engine_cluster for each in instances if each in viewed}
        if len(known) == len(instances):
            return known
        with self._translated() as connection:
            return known | load_engine_clusters(connection, {*instances} - known.keys())

    def look_up_dormant(
        self, states: Mapping[UUID, TenantState], lookups: Mapping[UUID, Lookup]
    ) -> Mapping[UUID, TenantState]:
        """``states`` with the dormant rows that ``lookups`` ask for, by tenant."""
        with self._translated() as connection:
            return look_up_dormant(connection, states, lookups)

    def find_unseen(self, scopes: Sequence[SweepScope]) -> Mapping[SweepScope, SweepFound]:
        """What complete lists did not show, as far as the database knows, and is not to be removed already."""
        with self._translated() as connection:
            return find_unseen(connection, scopes)

    def find_unseen_of(self, part: SweepPart) -> Mapping[UUID, TenantName]:
        """What of a part still exists and has not been seen since, and whose it is."""
        with self._translated() as connection:
            return find_unseen_of(connection, part)

    def find_newest_lists(self, places: Collection[SweepPlace]) -> Mapping[SweepPlace, int]:
        """Epochs of the newest complete lists of these places, as far as there are any."""
        with self._translated() as connection:
            return load_newest_lists(connection, places)

    def find_tenants_to_move(self, tenants: Collection[UUID]) -> frozenset[UUID]:
        """Those of ``tenants`` with a move that their planner has not begun with."""
        with self._translated() as connection:
            return find_tenants_to_move(connection, tenants)

    def find_kept_orphans(self, instances: Collection[str]) -> Mapping[str, KeptOrphans]:
        """What agents of these instances keep, as they told last."""
        with self._translated() as connection:
            return load_kept_orphans(connection, instances)

    def find_engine_health(self, instances: Collection[str]) -> Mapping[str, InstanceHealth]:
        """How these instances are, as their agents told last."""
        with self._translated() as connection:
            return load_engine_health(connection, instances)

    def load_fleet_rows(
        self, orders: Collection[UUID], closing: Collection[str], tenants: Collection[TenantName]
    ) -> Fleet:
        """All rows of the fleet, those of ``tenants``, and which of these orders are decided; nothing is counted.

        Without :meth:`with_kept_rows`. Until the transaction ends, which this opens, no other planner places a
        tenant on who is ``closing``.
        """
        with self._translated() as connection:
            if connection.info.transaction_status == TransactionStatus.IDLE:
                connection.execute("BEGIN")
            return replace(load_fleet_rows(connection, self._engines, orders, tenants, closing), pace=self._pace)

    def lock_moves(self, moves: Collection[Move]) -> bool:
        """Keep planners from taking steps of ``moves`` until the transaction ends; whether each is as it was read."""
        with self._translated() as connection:
            return lock_moves(connection, moves)

    def with_kept_rows(self, fleet: Fleet) -> Fleet:
        """``fleet`` with retired instances, and what operators have assigned."""
        with self._translated() as connection:
            return with_kept_rows(connection, fleet)

    def load_holdings(self, instances: Collection[str]) -> Mapping[str, Holding]:
        """What is on each of these instances."""
        with self._translated() as connection:
            return load_holdings(connection, instances)

    def load_tenants_on(self, instances: Collection[str]) -> Mapping[TenantName, TenantHere]:
        """Tenants that are current and on one of these instances; not what these hold for them."""
        with self._translated() as connection:
            return load_tenants_on(connection, instances)

    def load_measured_tenants_on(self, instances: Collection[str]) -> Mapping[TenantName, TenantHere]:
        """Likewise, with what these hold for them."""
        with self._translated() as connection:
            return load_measured_tenants_on(connection, self._engines, instances)

    def load_burdens(self, now: datetime) -> Burdens:
        """Overloaded instances, and the tenants that were moved of late."""
        with self._translated() as connection:
            return load_burdens(connection, now)

    def find_leaving(self) -> Collection[str]:
        """Ids of instances that pools give up, and that no tenant is on."""
        with self._translated() as connection:
            return find_leaving(connection)

    def load_all_tenants(self) -> Mapping[TenantName, TenantHere]:
        """All tenants that are current, with what their instances hold for them."""
        with self._translated() as connection:
            return load_all_tenants(connection, self._engines)

    def count_returned_moves(self, since: datetime) -> Mapping[tuple[UUID, str], int]:
        """By tenant and target, how many moves went back since then because a step took too long."""
        with self._translated() as connection:
            return count_returned_moves(connection, since)

    def load_evacuations(self, since: datetime, now: datetime) -> Mapping[TenantName, frozenset[str]]:
        """By tenant, instances that it was evacuated from since then for a reason that a tenant can cause."""
        with self._translated() as connection:
            return load_evacuations(connection, since, now)

    def load_remediations(self) -> Mapping[str, Remediation]:
        """What was done for instances that are ill or have been, by their ids."""
        with self._translated() as connection:
            return load_remediations(connection)

    def save_changes(self, changes: BatchChanges, spans: Sequence[Span]) -> None:
        """Write ``changes`` and the offsets, and commit both. Raises Fenced if another planner has taken over."""
        self.write_changes(changes, spans)
        with self._translated() as connection:
            connection.commit()

    def write_changes(self, changes: BatchChanges, spans: Sequence[Span]) -> None:
        """The same without the commit: what is read next knows of it, and what fails before the commit undoes it."""
        with self._translated() as connection:
            complete = save(connection, changes.written, spans, self.owner)
            if changes.other.affects_placement:
                self._keep_fleet(reload_fleet(connection, self._fleet, changes.other))
        self._fleet = self._fleet.with_added_load(changes.added_load)
        for tenant in changes.tenants:
            # If a name was another tenant's, the database does not hold what the plan wanted.
            if complete:
                self.tenants.keep_tenant(tenant.tenant, tenant.state)
            else:
                self.tenants.forget_name(tenant.tenant.full_name)
        # Only a tenant that is read is known to be parked.
        for name in (*changes.unread, *(parked.full_name for parked in changes.other.parked)):
            self.tenants.forget_name(name)

    def refresh_fleet(self) -> None:
        """Read the engine instances, and their load: operators add some, and tenants come."""
        with self._translated() as connection:
            self._placements = load_placements(connection)
            self._keep_fleet(load_fleet(connection, self._engines))

    def refresh_pace(self, now: datetime, wait: timedelta, at_once: int) -> Pace | None:
        """Find out whether changes wait: moves give way in the fleets that are read from now on. Returns how.

        Args:
            now: the time.
            wait: how long changes may take.
            at_once: how many moves an instance has places for if nobody waits.
        """
        with self._translated() as connection:
            is_waiting = is_waited(measure_latencies(connection, now, wait))
        self._pace = next_pace(self._pace, now, at_once, is_waiting=is_waiting)
        return self._pace

    def take_over_partitions(
        self, partitions: Sequence[TopicPartition], logs: Mapping[TopicPartition, LogExtent] = MappingProxyType({})
    ) -> dict[TopicPartition, int]:
        """Take partitions up: from now on nobody else writes to them.

        Returns the first offset of each whose effect is not in the database; where ``logs`` says what a partition
        holds, one that it has.
        """
        columns = [[topic for topic, _ in partitions], [partition for _, partition in partitions]]
        with self._translated() as connection, connection.transaction():
            connection.execute(ENSURE_POSITIONS, columns)
            rows = connection.execute(LOCK_POSITIONS, columns).fetchall()
            known = {TopicPartition(row[0], row[1]): Position(row[2], row[3]) for row in rows}
            begun = {source: resume(position, logs.get(source)) for source, position in known.items()}
            take_up(connection, self.owner, begun)
            connection.execute(CLUSTERS_OF_PARTITIONS, [sorted({source.partition for source in begun})])
            self._placements = load_placements(connection)
        self.tenants.forget_tenants()
        for source, resumed in begun.items():
            resumed.report(source)
        return {source: resumed.position.next_offset for source, resumed in begun.items()}

    def forget_positions(self, existing: Mapping[str, int]) -> int:
        """Delete those of partitions that are not there any more; returns how many. ``existing``: per topic.

        If one of them is made again meanwhile, its planner is fenced, takes it up anew and reads it from its beginning:
        what is known already changes nothing.
        """
        with self._translated() as connection, connection.transaction():
            return connection.execute(FORGET_POSITIONS, [list(existing), list(existing.values())]).rowcount

    def find_parked_statuses(self, tenant: ParkedTenant) -> Sequence[LeftStatus]:
        """Statuses that show that ``tenant`` is parked, in the open transaction."""
        with self._translated() as connection:
            return find_parked_statuses(connection, tenant)

    @contextmanager
    def connection(self) -> Iterator[Connection[Any]]:
        """The connection, for statements between batches: each is a transaction of its own."""
        with self._translated() as connection:
            yield connection

    def is_reachable(self) -> bool:
        """Whether a connection is to be had."""
        try:
            self._open_connection().close()
        except psycopg.OperationalError:
            return False
        return True

    def _answers(self) -> bool:
        """Whether the database answers another connection at all. Called on the watch's thread.

        One that refuses it can be reached, and would have ended ours if it wanted to.
        """
        try:
            connect(self._url).close()
        except psycopg.OperationalError as error:
            return not isinstance(error, psycopg.errors.ConnectionTimeout)
        return True

    def abandon_transaction(self) -> None:
        """End the transaction of a batch that cannot be done now, so that nothing waits for it."""
        self._undo()

    def close(self) -> None:
        """Close the connection; what is not committed never happened."""
        self._disconnect()
        self._watch.close()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _keep_fleet(self, fleet: FleetView) -> None:
        """Tell of each instance that this build cannot use; of each once, unless it is read again after a failure."""
        for instance in fleet.unknown:
            if instance != self._fleet.instances.get(instance.id):
                log.error("this build does not know the engine", instance=instance.id, engine=instance.engine)
        self._fleet = replace(fleet, placements=self._placements)

    @contextmanager
    def _translated(self) -> Iterator[Connection[Any]]:
        """The connection; whatever fails on it, nothing of the transaction stays."""
        try:
            connection = self._connected()
            with self._watch.watching(connection):
                yield connection
        except psycopg.Error as error:
            raise self._failure(error) from error
        except BaseException:
            self._undo()
            raise

    def _failure(self, error: psycopg.Error) -> GitOpsError:
        """What ``error`` is to the loop; nothing of the transaction stays."""
        decision = decision_on(error)
        self._undo()
        if decision is Retry:
            self._disconnect()
        return decision(f"database: {described(error)}")

    def _connected(self) -> Connection[Any]:
        if self._connection is None or self._connection.closed:
            asked_at = time.monotonic()
            try:
                self._connection = self._open_connection()
            except psycopg.OperationalError as error:
                self._silent_since = min(self._silent_since, asked_at)
                if time.monotonic() - self._silent_since < SILENT_SECONDS:
                    raise
                self.tenants.forget_tenants()
                raise Unreachable(f"database: {error}") from error
            self._silent_since = float("inf")
            prepare(self._connection)
        return self._connection

    def _open_connection(self) -> Connection[Any]:
        return connect(self._url)

    def _undo(self) -> None:
        """Nothing of an open transaction stays; its connection goes with it, and its statements are prepared anew.

        What is known of tenants and instances may be what has failed: an instance was retired, say. It is read again.
        """
        self.tenants.forget_tenants()
        self._fleet = replace(self._fleet, instances={})
        if self._connection is not None and self._connection.info.transaction_status != TransactionStatus.IDLE:
            self._disconnect()


def connect(url: str) -> Connection[Any]:
    """A connection as the planner wants it; a dead peer is noticed within seconds."""
    return psycopg.connect(
        url,
        options=OPTIONS,
        application_name="planner",
        connect_timeout=SILENT_SECONDS,
        keepalives_idle=5,
        keepalives_interval=2,
        keepalives_count=3,
        tcp_user_timeout=10_000,
        autocommit=True,
    )
