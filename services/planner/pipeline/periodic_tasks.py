"""What the planner does by the clock: deletions that take long, the fleet, parked tenants, old rows, gauges.

Called by the loop between batches, so that it never runs beside one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import structlog
from psycopg import Connection

from services.common.telemetry.metrics import MOVES_GIVING_WAY, TENANTS_PARKED
from services.planner import SERVICE
from services.planner.database import (
    fleet_queries,
    instance_queries,
    move_queries,
    periodic_queries,
    pool_queries,
    remedy_queries,
    rollout_queries,
)
from services.planner.database.instance_queries import LostObject
from services.planner.domain.events import Event, FleetDue, RemediesDue, ScalingDue
from services.planner.domain.fleet.pools.relief import has_overloaded
from services.planner.pipeline.gauges import set_gauges
from services.planner.pipeline.periodic_planner import PeriodicPlanner
from services.planner.pipeline.silent_instances import SilentInstances
from services.planner.rows.consumption import ParkedTenant

log = structlog.get_logger(__name__)

SECOND = 1.0
MINUTE = 60.0
QUARTER = 0.25
PRUNED_AT_ONCE = 1000
NOTICED_AT_ONCE = 500
TOLD_AGAIN_WITHIN = timedelta(hours=2)
"""What agents keep though no row desires it: many of their comparisons."""
LISTS_KEPT = timedelta(days=90)
"""Long after the log of commands has lost them: of a workspace that is gone."""
SAMPLES_KEPT = timedelta(days=2)
"""The longest soak, with what is waited for beyond it, and more than once."""
PLACED_AT_ONCE = 50
"""Tenants that waited for an instance: messages do not wait for all of them."""
KEPT_UNSEEN = 500
"""So few events of a parked tenant are not looked at before they are planned."""


@dataclass
class PeriodicTasks:
    """Remembers what was done when."""

    audit_kept: timedelta
    sync_runs_kept: timedelta = timedelta(days=15)
    _last: dict[str, float] = field(default_factory=dict)
    _partitions: frozenset[int] = frozenset()
    _lost: LostObject | None = None
    """The last one that was looked at of what lost instances were to remove, if there are more behind it."""
    _compacted: dict[UUID, int] = field(default_factory=dict)
    """How many events of each parked tenant had to be kept when that was last looked at."""
    _placed: set[UUID] = field(default_factory=set)
    """Parked tenants that have been tried again since there is an instance for them."""
    _silent_instances: SilentInstances = field(default_factory=SilentInstances)

    def __call__(self, planner: PeriodicPlanner) -> None:
        """Do what is due."""
        now = planner.clock.time()
        partitions = frozenset(planner.consumer.partitions)
        if partitions != self._partitions:
            self._take_up(planner, partitions - self._partitions)
            self._partitions = partitions
        tasks: tuple[tuple[str, float, Callable[[PeriodicPlanner], None]], ...] = (
            ("steps of moves", QUARTER, self._take_steps),
            ("sweep", QUARTER, self._sweep),
            ("look", SECOND, self._look_again),
            ("lost", 5 * SECOND, self._end_lost),
            ("health", SECOND, self._silent_instances.look),
            ("prune", MINUTE, self._prune),
            ("count", 10 * SECOND, self._count),
            ("states", 10 * SECOND, self._look_at_states),
            ("moves", SECOND, self._look_at_moves),
            ("remedies", SECOND, self._look_at_remedies),
            ("pools", 10 * SECOND, self._look_at_pools),
            ("installations", SECOND, self._look_at_installations),
            ("rollout", QUARTER, self._look_at_rollout),
            ("unplaced", SECOND, self._place),
            ("compact", 10 * SECOND, self._compact),
            ("parked", 10 * MINUTE, partial(self._retry_parked, partitions=partitions)),
        )
        for what, seconds, task in tasks:
            if self._due(what, now, seconds):
                task(planner)

    def _due(self, what: str, now: float, seconds: float) -> bool:
        if now - self._last.get(what, -seconds) < seconds:
            return False
        self._last[what] = now
        return True

    def _take_up(self, planner: PeriodicPlanner, partitions: frozenset[int]) -> None:
        """Quotas may be others than those of the planner before, and what it failed on may be mended."""
        with planner.session.connection() as connection:
            events = periodic_queries.find_over_quota(connection, sorted(partitions))
        for first in range(0, len(events), NOTICED_AT_ONCE):
            planner.apply_due_events(events[first : first + NOTICED_AT_ONCE])
        self._last["parked"] = planner.clock.time()
        self._retry_parked(planner, partitions)

    def _look_again(self, planner: PeriodicPlanner) -> None:
        """Deletions that take long, and changes held back and forced deletions that are no news any more."""
        with planner.session.connection() as connection:
            now = planner.clock.now()
            events = periodic_queries.find_due(connection, now, planner.consumer.partitions, NOTICED_AT_ONCE)
        if events:
            planner.apply_due_events(events)

    def _take_steps(self, planner: PeriodicPlanner) -> None:
        """Tenants on their way from one instance to another."""
        with planner.session.connection() as connection:
            now = planner.clock.now()
            events = move_queries.find_due_moves(connection, now, planner.consumer.partitions, NOTICED_AT_ONCE)
        if events:
            planner.apply_due_events(events)

    def _end_lost(self, planner: PeriodicPlanner) -> None:
        """What a retired instance was to remove, and never will: it is lost.

        A bounded piece at a time; if there is more, the next turn goes on behind it, even if this piece fails or stays.
        """
        with planner.session.connection() as connection:
            now, partitions = planner.clock.now(), planner.consumer.partitions
            events, self._lost = instance_queries.find_lost_objects(
                connection, now, partitions, NOTICED_AT_ONCE, self._lost
            )
        if self._lost is not None:
            self._last.pop("lost", None)
        if events:
            planner.apply_due_events(events)

    def _sweep(self, planner: PeriodicPlanner) -> None:
        """A part of what complete lists lacked."""
        with planner.session.connection() as connection:
            due = periodic_queries.find_due_sweep(connection, planner.consumer.partitions)
        if due is not None:
            planner.remove_part(due)

    @staticmethod
    def _plan_if(
        planner: PeriodicPlanner, is_due: Callable[[Connection[Any]], bool], due: FleetDue | RemediesDue | ScalingDue
    ) -> None:
        """Have the fleet looked at, by the one planner that decides about it, if something is due."""
        partition = planner.consumer.fleet_partition
        if partition is None:
            return
        with planner.session.connection() as connection:
            found = is_due(connection)
        if found:
            planner.apply_due_events([Event(due, partition, "")])

    def _look_at_states(self, planner: PeriodicPlanner) -> None:
        """Instances that are to be retired may have lost their last tenant; others may be full, or not any more."""
        self._plan_if(planner, fleet_queries.is_state_due, FleetDue(is_of_states=True))

    def _look_at_moves(self, planner: PeriodicPlanner) -> None:
        """A move may begin, or has to go back."""
        if planner.consumer.fleet_partition is None:
            MOVES_GIVING_WAY.set(0)
            return
        now, at_once = planner.clock.now(), planner.policy.moves_at_once
        pace = planner.session.refresh_pace(now, planner.policy.moves_yield_above, at_once)
        MOVES_GIVING_WAY.set(pace is not None)
        paced = at_once if pace is None else pace.places
        self._plan_if(
            planner,
            partial(move_queries.is_move_due, now=now, at_once=at_once, paced=paced),
            FleetDue(is_of_states=False),
        )

    def _look_at_remedies(self, planner: PeriodicPlanner) -> None:
        """Instances may be ill, or have been."""
        is_due = partial(remedy_queries.is_remedy_due, now=planner.clock.now(), is_on=planner.policy.remedies.is_on)
        self._plan_if(planner, is_due, RemediesDue())

    def _look_at_installations(self, planner: PeriodicPlanner) -> None:
        """Instances that are not ready yet may be so by now, or overdue."""
        self._plan_if(
            planner, partial(fleet_queries.is_installation_due, now=planner.clock.now()), FleetDue(is_of_states=False)
        )

    def _look_at_pools(self, planner: PeriodicPlanner) -> None:
        """Pools may need more instances, or fewer, and instances may carry too much, as :meth:`_count` has measured."""
        fleet = planner.session.fleet
        self._plan_if(
            planner, lambda connection: pool_queries.is_scaling_due(connection) or has_overloaded(fleet), ScalingDue()
        )

    def _look_at_rollout(self, planner: PeriodicPlanner) -> None:
        """The next step of the rollout that is under way may be taken."""
        self._plan_if(
            planner, partial(rollout_queries.is_rollout_due, now=planner.clock.now()), FleetDue(is_of_states=False)
        )

    def _retry_parked(self, planner: PeriodicPlanner, partitions: frozenset[int]) -> None:
        with planner.session.connection() as connection:
            tenants = periodic_queries.parked_tenants(connection, sorted(partitions))
        TENANTS_PARKED.labels(SERVICE).set(len(tenants))
        for tenant in tenants:
            self._retry(planner, tenant)

    def _place(self, planner: PeriodicPlanner) -> None:
        """Tenants that there was no engine instance for, as soon as there is one: each once, a few at a time.

        One on which a rule fails then is tried again with all others that are parked.
        """
        fleet = planner.session.fleet
        if not fleet.instances:
            return
        with planner.session.connection() as connection:
            tenants = periodic_queries.unplaced_tenants(connection, planner.consumer.partitions)
        placeable = [each for each in tenants if fleet.has_instance_for(each.unplaced)]
        self._placed &= {each.tenant_id for each in placeable}
        for tenant in [each for each in placeable if each.tenant_id not in self._placed][:PLACED_AT_ONCE]:
            self._retry(planner, tenant)
            self._placed.add(tenant.tenant_id)

    @staticmethod
    def _retry(planner: PeriodicPlanner, tenant: ParkedTenant) -> None:
        with planner.session.connection() as connection:
            rows = periodic_queries.parked_events(connection, tenant.tenant_id)
            shown = periodic_queries.events_of_parked(connection, tenant.tenant_id)
        planner.parked_replay.retry_parked(tenant, rows, shown)

    def _compact(self, planner: PeriodicPlanner) -> None:
        """Coalesce the kept events of a parked tenant each time that their number has doubled.

        So the work is proportional to the number of events, however long the tenant stays parked.
        """
        with planner.session.connection() as connection:
            found = periodic_queries.count_parked_events(connection, planner.consumer.partitions)
        self._compacted = {each.tenant_id: self._compacted.get(each.tenant_id, 0) for each in found}
        for tenant, count in found.items():
            if count >= 2 * self._compacted[tenant.tenant_id] + KEPT_UNSEEN:
                with planner.session.connection() as connection:
                    rows = periodic_queries.parked_events(connection, tenant.tenant_id)
                self._compacted[tenant.tenant_id] = len(planner.parked_replay.coalesce_parked_events(tenant, rows))

    def _prune(self, planner: PeriodicPlanner) -> None:
        """A bounded piece at a time; if there is more, the next turn goes on."""
        now = planner.clock.now()
        with planner.session.connection() as connection:
            pruned = (
                periodic_queries.delete_audit_records(connection, now - self.audit_kept, PRUNED_AT_ONCE),
                periodic_queries.delete_ended_runs(connection, now - self.sync_runs_kept, PRUNED_AT_ONCE),
                move_queries.delete_moves(connection, now - self.audit_kept, PRUNED_AT_ONCE),
                fleet_queries.delete_orders(connection, now - self.audit_kept, PRUNED_AT_ONCE),
                rollout_queries.delete_samples(connection, now - SAMPLES_KEPT, PRUNED_AT_ONCE),
            )
            rollout_queries.delete_rollouts(connection, now - self.audit_kept)
            instance_queries.forget_retired(connection)
        if PRUNED_AT_ONCE in pruned:
            del self._last["prune"]

    @staticmethod
    def _count(planner: PeriodicPlanner) -> None:
        """What metrics show, and placement and pools go by; not what nobody tells of any more."""
        now = planner.clock.now()
        with planner.session.connection() as connection:
            periodic_queries.forget_kept_orphans(connection, now - TOLD_AGAIN_WITHIN)
            periodic_queries.forget_lists(connection, now - LISTS_KEPT)
            set_gauges(planner, connection)
        planner.session.refresh_fleet()
