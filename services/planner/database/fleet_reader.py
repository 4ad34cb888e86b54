"""Reads the fleet, for decisions about it. Each read is a method here; its statement is in the module of its rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from psycopg.pq import TransactionStatus

from services.planner.database.connection import DatabaseConnection
from services.planner.database.fleet_queries import (
    load_all_tenants,
    load_fleet_rows,
    load_holdings,
    load_measured_tenants_on,
    load_retired_and_assignments,
    load_tenants_on,
)
from services.planner.database.instance_queries import load_engine_health, load_kept_orphans
from services.planner.database.move_queries import count_returned_moves, load_evacuations, lock_moves
from services.planner.database.pool_queries import find_leaving, load_burdens
from services.planner.database.remedy_queries import load_remediations
from services.planner.domain.fleet.fleet import Fleet, Holding
from services.planner.domain.fleet.loaded_parts import LoadedTenants
from services.planner.domain.fleet.moves.pace import Pace
from services.planner.domain.fleet.pools.pool_rows import Burdens
from services.planner.domain.fleet.remediation.remediation_rows import Remediation
from services.planner.domain.fleet.reports.report_rows import InstanceHealth, KeptOrphans
from services.planner.domain.fleet.rows import Move
from services.planner.engines.interface import Engine
from services.planner.rows.tenants import TenantName


class FleetReader:
    """Of one batch, in its transaction. Any call may raise what :meth:`DatabaseConnection.connection` raises."""

    def __init__(
        self,
        database: DatabaseConnection,
        engines: Mapping[str, Engine],
        pace: Pace | None,
        measured_load: Mapping[str, int],
    ) -> None:
        """Nothing is read before it is asked for.

        Args:
            database: what is read.
            engines: that this build knows.
            pace: of moves, while they give way to changes that wait.
            measured_load: what instances carry, by their ids, as measured last and by what was added since.
        """
        self._database, self._engines, self._pace = database, engines, pace
        self.measured_load = measured_load

    def load_fleet_rows(
        self, orders: Collection[UUID], closing: Collection[str], tenants: Collection[TenantName]
    ) -> Fleet:
        """All rows of the fleet, those of ``tenants``, and which of ``orders`` are decided; other parts are unloaded.

        Locks ``closing``: no planner places a tenant there until the transaction ends, which this opens.
        """
        with self._database.connection() as connection:
            if connection.info.transaction_status == TransactionStatus.IDLE:
                connection.execute("BEGIN")
            return replace(load_fleet_rows(connection, self._engines, orders, tenants, closing), pace=self._pace)

    def lock_moves(self, moves: Collection[Move]) -> bool:
        """Keep planners from taking steps of ``moves`` until the transaction ends; whether each is as it was read."""
        with self._database.connection() as connection:
            return lock_moves(connection, moves)

    def load_retired_and_assignments(self, fleet: Fleet) -> Fleet:
        """``fleet`` with retired instances, and with what operators have assigned."""
        with self._database.connection() as connection:
            return load_retired_and_assignments(connection, fleet)

    def load_holdings(self, instances: Collection[str]) -> Mapping[str, Holding]:
        """What is on each of these instances."""
        with self._database.connection() as connection:
            return load_holdings(connection, instances)

    def load_tenants_on(self, instances: Collection[str]) -> LoadedTenants:
        """Current tenants that are on one of these instances; without their load."""
        with self._database.connection() as connection:
            return load_tenants_on(connection, instances)

    def load_measured_tenants_on(self, instances: Collection[str]) -> LoadedTenants:
        """Current tenants that are on one of these instances, with their load."""
        with self._database.connection() as connection:
            return load_measured_tenants_on(connection, self._engines, instances)

    def load_all_tenants(self) -> LoadedTenants:
        """All current tenants, with their load."""
        with self._database.connection() as connection:
            return load_all_tenants(connection, self._engines)

    def load_burdens(self, now: datetime) -> Burdens:
        """Overloaded instances, and the tenants that were moved of late."""
        with self._database.connection() as connection:
            return load_burdens(connection, now)

    def find_leaving(self) -> Collection[str]:
        """Ids of instances that pools give up, and that no tenant is on."""
        with self._database.connection() as connection:
            return find_leaving(connection)

    def count_returned_moves(self, since: datetime) -> Mapping[tuple[UUID, str], int]:
        """By tenant and target, how many moves went back since then because a step took too long."""
        with self._database.connection() as connection:
            return count_returned_moves(connection, since)

    def load_evacuations(self, since: datetime, now: datetime) -> Mapping[TenantName, frozenset[str]]:
        """By tenant, instances that it was evacuated from since then for a reason that a tenant can cause."""
        with self._database.connection() as connection:
            return load_evacuations(connection, since, now)

    def load_remediations(self) -> Mapping[str, Remediation]:
        """What was done for instances that are ill or have been, by their ids."""
        with self._database.connection() as connection:
            return load_remediations(connection)

    def load_kept_orphans(self, instances: Collection[str]) -> Mapping[str, KeptOrphans]:
        """Objects that no row desires and that agents of these instances leave there, by the newest reports."""
        with self._database.connection() as connection:
            return load_kept_orphans(connection, instances)

    def load_engine_health(self, instances: Collection[str]) -> Mapping[str, InstanceHealth]:
        """The health of these instances, by the newest reports."""
        with self._database.connection() as connection:
            return load_engine_health(connection, instances)
