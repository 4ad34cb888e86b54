"""The database as the loop sees it: tenants, the transaction of a batch, and what the log's positions are.

One connection, one transaction per batch: opened by the first write, closed by the commit in
:meth:`DatabaseSession.save_changes`; what is read before that is the planner's own. Tenants that were seen before
come from memory. Any call may raise what :meth:`DatabaseConnection.connection` raises.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any
from uuid import UUID, uuid4

import structlog
from psycopg import Connection

from services.common.kafka import LogExtent, TopicPartition
from services.common.telemetry.metrics import BATCH_SECONDS
from services.planner import SERVICE
from services.planner.database.connection import DatabaseConnection
from services.planner.database.dormant_queries import look_up_dormant
from services.planner.database.fleet_reader import FleetReader
from services.planner.database.load import Loaded, load
from services.planner.database.move_queries import find_tenants_to_move, measure_latencies
from services.planner.database.periodic_queries import find_parked_statuses
from services.planner.database.placement_view_queries import (
    load_engine_clusters,
    load_fleet,
    load_placements,
    reload_fleet,
)
from services.planner.database.positions import forget_positions, lock_positions, resume, take_up
from services.planner.database.save import Span, save
from services.planner.database.sweeps import find_unseen, find_unseen_of, load_newest_lists
from services.planner.database.tenant_cache import TenantCache
from services.planner.database.tenant_clusters import CLUSTERS_OF_PARTITIONS
from services.planner.domain.changes import BatchChanges
from services.planner.domain.dormancy import Lookup
from services.planner.domain.events import SweepPlace, SweepScope
from services.planner.domain.fleet.moves.pace import Pace, is_waited, next_pace
from services.planner.domain.fleet.placement_view import PlacementView
from services.planner.domain.parked_statuses import LeftStatus
from services.planner.domain.state import TenantState
from services.planner.domain.sweeps import SweepFound
from services.planner.engines.interface import Engine
from services.planner.rows.consumption import ParkedTenant, SweepPart
from services.planner.rows.tenants import TenantName

log = structlog.get_logger(__name__)

MEBIBYTE = 1024 * 1024
LOAD_SECONDS = BATCH_SECONDS.labels(SERVICE, "load")


class DatabaseSession:
    """See the module. Not for more than one thread."""

    def __init__(
        self,
        url: str,
        engines: Mapping[str, Engine],
        kept_bytes: int = 128 * MEBIBYTE,
        connection_type: type[DatabaseConnection] = DatabaseConnection,
    ) -> None:
        """Connects at first use, and again after the connection was lost.

        Args:
            url: of the database.
            engines: that this build knows.
            kept_bytes: of tenants in memory.
            connection_type: what connects.
        """
        self._engines = engines
        self._database = connection_type(url, self._forget)
        self.owner = uuid4()
        """Who we are: only the planner that took a partition up last may write its rows."""
        self._fleet = PlacementView({}, engines)
        self._placements: Mapping[UUID, str] = {}
        self.tenants = TenantCache(kept_bytes)
        self._pace: Pace | None = None

    @property
    def fleet(self) -> PlacementView:
        """Engine instances as they were read last.

        Their load is that of the last :meth:`refresh_fleet`, and what was written since.
        """
        return self._fleet

    @property
    def fleet_reader(self) -> FleetReader:
        """Reads the fleet, for what a batch decides about it: in its transaction, by the load and pace of now."""
        return FleetReader(self._database, self._engines, self._pace, self._fleet.load)

    def load_tenants(self, wanted: Collection[TenantName]) -> Loaded:
        """The tenants that have these names or had them. They stay in memory unless one of the name is parked."""
        found = {name: self.tenants.find_tenants(name) for name in wanted}
        known = {name: tuple(states) for name, states in found.items() if states is not None}
        if len(known) == len(found) and self._fleet.instances:
            return Loaded(known, frozenset(), self._fleet)
        with self.connection() as connection, LOAD_SECONDS.time():
            loaded = load(connection, found.keys() - known.keys(), self._fleet)
        self._keep_fleet(loaded.fleet)
        for name, states in loaded.tenants.items():
            known[name] = tuple(state.indexed() for state in states)
            if not loaded.is_in_doubt(name):
                self.tenants.keep_tenants(name, known[name])
        return replace(loaded, tenants=known, fleet=self._fleet)

    def find_engine_clusters(self, instances: Collection[str]) -> Mapping[str, str]:
        """The engine cluster of each of these instances that exists."""
        viewed = self._fleet.instances
        known = {each: viewed[each].engine_cluster for each in instances if each in viewed}
        if len(known) == len(instances):
            return known
        with self.connection() as connection:
            return known | load_engine_clusters(connection, {*instances} - known.keys())

    def look_up_dormant(
        self, states: Mapping[UUID, TenantState], lookups: Mapping[UUID, Lookup]
    ) -> Mapping[UUID, TenantState]:
        """``states`` with the dormant rows that ``lookups`` ask for, by tenant."""
        with self.connection() as connection:
            return look_up_dormant(connection, states, lookups)

    def find_unseen(self, scopes: Sequence[SweepScope]) -> Mapping[SweepScope, SweepFound]:
        """Resources in the database that complete lists did not show and that are not to be removed already."""
        with self.connection() as connection:
            return find_unseen(connection, scopes)

    def find_unseen_of(self, part: SweepPart) -> Mapping[UUID, TenantName]:
        """Resources of a part that exist and have not been seen since, with the names of their tenants."""
        with self.connection() as connection:
            return find_unseen_of(connection, part)

    def find_newest_lists(self, places: Collection[SweepPlace]) -> Mapping[SweepPlace, int]:
        """Epochs of the newest complete lists of these places, as far as there are any."""
        with self.connection() as connection:
            return load_newest_lists(connection, places)

    def find_tenants_to_move(self, tenants: Collection[UUID]) -> frozenset[UUID]:
        """Those of ``tenants`` with a move that their planner has not begun with."""
        with self.connection() as connection:
            return find_tenants_to_move(connection, tenants)

    def save_changes(self, changes: BatchChanges, spans: Sequence[Span]) -> None:
        """Write ``changes`` and the offsets, and commit both. Raises Fenced if another planner has taken over."""
        self.write_changes(changes, spans)
        with self.connection() as connection:
            connection.commit()

    def write_changes(self, changes: BatchChanges, spans: Sequence[Span]) -> None:
        """Write without committing: later reads see it, and a failure rolls it back."""
        with self.connection() as connection:
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
        with self.connection() as connection:
            self._placements = load_placements(connection)
            self._keep_fleet(load_fleet(connection, self._engines))

    def refresh_pace(self, now: datetime, wait: timedelta, at_once: int) -> Pace | None:
        """Find out whether changes wait: moves give way in the fleets that are read from now on. Returns how.

        Args:
            now: the time.
            wait: how long changes may take.
            at_once: how many moves an instance has places for if nobody waits.
        """
        with self.connection() as connection:
            is_waiting = is_waited(measure_latencies(connection, now, wait))
        self._pace = next_pace(self._pace, now, at_once, is_waiting=is_waiting)
        return self._pace

    def claim_partitions(
        self, partitions: Sequence[TopicPartition], logs: Mapping[TopicPartition, LogExtent] = MappingProxyType({})
    ) -> dict[TopicPartition, int]:
        """Claim partitions: from now on no other planner writes for them.

        Returns the first offset of each whose effect is not in the database; where ``logs`` says what a partition
        holds, one that it has.
        """
        with self.connection() as connection, connection.transaction():
            known = lock_positions(connection, partitions)
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
        with self.connection() as connection, connection.transaction():
            return forget_positions(connection, existing)

    def find_parked_statuses(self, tenant: ParkedTenant) -> Sequence[LeftStatus]:
        """Statuses that show that ``tenant`` is parked, in the open transaction."""
        with self.connection() as connection:
            return find_parked_statuses(connection, tenant)

    def connection(self) -> AbstractContextManager[Connection[Any]]:
        """The connection, for statements between batches: each is a transaction of its own."""
        return self._database.connection()

    def is_reachable(self) -> bool:
        """Whether a connection is to be had."""
        return self._database.is_reachable()

    def abandon_transaction(self) -> None:
        """End the transaction of a batch that cannot be done now, so that nothing waits for it."""
        self._database.abandon_transaction()

    def close(self) -> None:
        """Close the connection; what is not committed never happened."""
        self._database.close()

    def _keep_fleet(self, fleet: PlacementView) -> None:
        """Tell of each instance that this build cannot use; of each once, unless it is read again after a failure."""
        for instance in fleet.unknown:
            if instance != self._fleet.instances.get(instance.id):
                log.error("this build does not know the engine", instance=instance.id, engine=instance.engine)
        self._fleet = replace(fleet, placements=self._placements)

    def _forget(self) -> None:
        """Read tenants and instances again: what is known of them may be what has failed: a retired instance, say."""
        self.tenants.forget_tenants()
        self._fleet = replace(self._fleet, instances={})
