"""What the planner does by the clock: deletions that take long, the fleet, parked tenants, old rows, gauges.

The loop calls this between batches, so no task runs at the same time as a batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
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
ORPHANS_REPORTED_WITHIN = timedelta(hours=2)
"""An agent reports orphans that it keeps with each of its comparisons. This is the time of many comparisons."""
LISTS_KEPT = timedelta(days=90)
"""By then the log of commands has long lost the list. Only a workspace that is gone is not listed for so long."""
SAMPLES_KEPT = timedelta(days=2)
"""More than twice the longest soak, with what a rollout waits for beyond it."""
PLACED_AT_ONCE = 50
"""Tenants without an instance that are retried in one round: messages do not wait for more."""
COALESCED_FROM = 500
"""A parked tenant with fewer events than this is not coalesced before it is retried."""


@dataclass
class Task:
    """A function that runs once per period."""

    period_seconds: float
    run: Callable[[PeriodicPlanner], bool | None]
    """Returns True if there is more to do: then the task is due again at once."""
    last_run: float = -math.inf
    """Seconds, by the clock's ``time``."""

    def run_if_due(self, planner: PeriodicPlanner, now: float) -> None:
        """Run the function if its period is over."""
        if now - self.last_run < self.period_seconds:
            return
        self.last_run = now
        if self.run(planner):
            self.last_run = -math.inf


@dataclass
class PeriodicTasks:
    """The tasks of one planner, with what each remembers."""

    audit_kept: timedelta
    sync_runs_kept: timedelta = timedelta(days=15)
    _partitions: frozenset[int] = frozenset()
    """The partitions that the planner owned in the last round."""
    _last_lost: LostObject | None = None
    """The last object of the piece that :meth:`_end_lost` read, if there are more behind it; otherwise None."""
    _coalesced: dict[UUID, int] = field(default_factory=dict)
    """For each parked tenant, how many events were left when they were last coalesced."""
    _placed: set[UUID] = field(default_factory=set)
    """Parked tenants that were retried since there is an instance for them."""
    _silent_instances: SilentInstances = field(default_factory=SilentInstances)

    def __post_init__(self) -> None:
        self._parked = Task(10 * MINUTE, self._retry_parked)
        self._tasks = (
            Task(QUARTER, self._take_steps),
            Task(QUARTER, self._sweep),
            Task(SECOND, self._look_again),
            Task(5 * SECOND, self._end_lost),
            Task(SECOND, self._find_silent_instances),
            Task(MINUTE, self._prune),
            Task(10 * SECOND, self._count),
            Task(10 * SECOND, self._look_at_states),
            Task(SECOND, self._look_at_moves),
            Task(SECOND, self._look_at_remedies),
            Task(10 * SECOND, self._look_at_pools),
            Task(SECOND, self._look_at_installations),
            Task(QUARTER, self._look_at_rollout),
            Task(SECOND, self._place),
            Task(10 * SECOND, self._look_at_freed_namespaces),
            Task(10 * SECOND, self._coalesce_parked),
            self._parked,
        )

    def __call__(self, planner: PeriodicPlanner) -> None:
        """Run the tasks that are due."""
        now = planner.clock.time()
        partitions = frozenset(planner.consumer.partitions)
        if partitions != self._partitions:
            self._start_partitions(planner, partitions - self._partitions)
            self._partitions = partitions
        for task in self._tasks:
            task.run_if_due(planner, now)

    def _start_partitions(self, planner: PeriodicPlanner, partitions: frozenset[int]) -> None:
        """Look at tenants of partitions that are new to this planner.

        Its quotas may differ from those of the planner before, and a rule that failed there may work here.
        """
        with planner.session.connection() as connection:
            events = periodic_queries.find_over_quota(connection, sorted(partitions))
        for first in range(0, len(events), NOTICED_AT_ONCE):
            planner.apply_due_events(events[first : first + NOTICED_AT_ONCE])
        self._parked.last_run = planner.clock.time()
        _retry_parked_of(planner, partitions)

    @staticmethod
    def _plan_found(
        planner: PeriodicPlanner, find: Callable[[Connection[Any], datetime, Sequence[int], int], list[Event]]
    ) -> None:
        """Plan what ``find`` finds, a bounded number at a time."""
        with planner.session.connection() as connection:
            events = find(connection, planner.clock.now(), planner.consumer.partitions, NOTICED_AT_ONCE)
        if events:
            planner.apply_due_events(events)

    def _look_again(self, planner: PeriodicPlanner) -> None:
        """Plan deletions that take long, changes that were held back, and forced deletions past their retention."""
        self._plan_found(planner, periodic_queries.find_due)

    def _take_steps(self, planner: PeriodicPlanner) -> None:
        """Plan tenants whose move may take its next step."""
        self._plan_found(planner, move_queries.find_due_moves)

    def _end_lost(self, planner: PeriodicPlanner) -> bool:
        """Plan the end of objects that a lost instance was to remove, and never will.

        Each run takes a bounded piece. The next run goes on behind it, even if objects of this piece stay.
        """
        with planner.session.connection() as connection:
            now, partitions = planner.clock.now(), planner.consumer.partitions
            events, self._last_lost = instance_queries.find_lost_objects(
                connection, now, partitions, NOTICED_AT_ONCE, self._last_lost
            )
        if events:
            planner.apply_due_events(events)
        return self._last_lost is not None

    def _find_silent_instances(self, planner: PeriodicPlanner) -> None:
        """Plan the health of instances that agents no longer report."""
        self._silent_instances.look(planner)

    def _sweep(self, planner: PeriodicPlanner) -> None:
        """Remove some of the resources that complete lists lacked."""
        with planner.session.connection() as connection:
            due = periodic_queries.find_due_sweep(connection, planner.consumer.partitions)
        if due is not None:
            planner.remove_part(due)

    @staticmethod
    def _plan_if(
        planner: PeriodicPlanner, is_due: Callable[[Connection[Any]], bool], due: FleetDue | RemediesDue | ScalingDue
    ) -> None:
        """Plan ``due`` if ``is_due`` finds something. Only the planner that owns the fleet's partition does this."""
        partition = planner.consumer.fleet_partition
        if partition is None:
            return
        with planner.session.connection() as connection:
            found = is_due(connection)
        if found:
            planner.apply_due_events([Event(due, partition, "")])

    def _look_at_states(self, planner: PeriodicPlanner) -> None:
        """Plan the states of instances: a draining one may have lost its last tenant, another may have become full."""
        self._plan_if(planner, fleet_queries.is_state_due, FleetDue(is_of_states=True))

    def _look_at_moves(self, planner: PeriodicPlanner) -> None:
        """Plan the moves that may begin, or have to go back."""
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
        """Plan remedies for instances that are ill, and end those of instances that are well again."""
        is_due = partial(remedy_queries.is_remedy_due, now=planner.clock.now(), is_on=planner.policy.remedies.is_on)
        self._plan_if(planner, is_due, RemediesDue())

    def _look_at_installations(self, planner: PeriodicPlanner) -> None:
        """Plan instances whose installation may be complete, or overdue."""
        self._plan_if(
            planner, partial(fleet_queries.is_installation_due, now=planner.clock.now()), FleetDue(is_of_states=False)
        )

    def _look_at_pools(self, planner: PeriodicPlanner) -> None:
        """Plan pools that need more or fewer instances, and relief of overloaded ones. :meth:`_count` measures both."""
        fleet = planner.session.fleet
        self._plan_if(
            planner, lambda connection: pool_queries.is_scaling_due(connection) or has_overloaded(fleet), ScalingDue()
        )

    def _look_at_rollout(self, planner: PeriodicPlanner) -> None:
        """Plan the next step of the rollout if it is due."""
        self._plan_if(
            planner, partial(rollout_queries.is_rollout_due, now=planner.clock.now()), FleetDue(is_of_states=False)
        )

    def _retry_parked(self, planner: PeriodicPlanner) -> None:
        """Retry all parked tenants of the planner's partitions."""
        _retry_parked_of(planner, self._partitions)

    def _place(self, planner: PeriodicPlanner) -> None:
        """Retry tenants that waited for an engine instance, once there is one: each once, a few in each round.

        If a rule fails on one then, :meth:`_retry_parked` retries it, with the others that are parked.
        """
        fleet = planner.session.fleet
        if not fleet.instances:
            return
        with planner.session.connection() as connection:
            tenants = periodic_queries.unplaced_tenants(connection, planner.consumer.partitions)
        placeable = [each for each in tenants if fleet.has_instance_for(each.unplaced)]
        self._placed &= {each.tenant_id for each in placeable}
        for tenant in [each for each in placeable if each.tenant_id not in self._placed][:PLACED_AT_ONCE]:
            _retry(planner, tenant)
            self._placed.add(tenant.tenant_id)

    @staticmethod
    def _look_at_freed_namespaces(planner: PeriodicPlanner) -> None:
        """Plan tenants that were refused because their namespace was an engine's, once it is no engine's any more."""
        with planner.session.connection() as connection:
            workspaces = sorted(planner.policy.local_workspaces)
            events = periodic_queries.find_freed(connection, workspaces, planner.consumer.partitions)
        if freed := [event for event in events if not planner.policy.protects(event.tenant_name[1])]:
            planner.apply_due_events(freed)

    def _coalesce_parked(self, planner: PeriodicPlanner) -> None:
        """Coalesce the events of a parked tenant each time that their number has doubled.

        So the work is proportional to the number of events, however long the tenant stays parked.
        """
        with planner.session.connection() as connection:
            found = periodic_queries.count_parked_events(connection, planner.consumer.partitions)
        self._coalesced = {each.tenant_id: self._coalesced.get(each.tenant_id, 0) for each in found}
        for tenant, count in found.items():
            if count >= 2 * self._coalesced[tenant.tenant_id] + COALESCED_FROM:
                with planner.session.connection() as connection:
                    rows = periodic_queries.parked_events(connection, tenant.tenant_id)
                self._coalesced[tenant.tenant_id] = len(planner.parked_replay.coalesce_parked_events(tenant, rows))

    def _prune(self, planner: PeriodicPlanner) -> bool:
        """Delete old rows, a bounded number of each kind in each run."""
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
        return PRUNED_AT_ONCE in pruned

    @staticmethod
    def _count(planner: PeriodicPlanner) -> None:
        """Set the gauges and measure the load of instances, which placement and pools use.

        Reports that agents no longer repeat are forgotten first.
        """
        now = planner.clock.now()
        with planner.session.connection() as connection:
            periodic_queries.forget_kept_orphans(connection, now - ORPHANS_REPORTED_WITHIN)
            periodic_queries.forget_lists(connection, now - LISTS_KEPT)
            set_gauges(planner, connection)
        planner.session.refresh_fleet()


def _retry_parked_of(planner: PeriodicPlanner, partitions: frozenset[int]) -> None:
    """Retry the parked tenants of ``partitions``."""
    with planner.session.connection() as connection:
        tenants = periodic_queries.parked_tenants(connection, sorted(partitions))
    TENANTS_PARKED.labels(SERVICE).set(len(tenants))
    for tenant in tenants:
        _retry(planner, tenant)


def _retry(planner: PeriodicPlanner, tenant: ParkedTenant) -> None:
    with planner.session.connection() as connection:
        rows = periodic_queries.parked_events(connection, tenant.tenant_id)
        shown = periodic_queries.events_of_parked(connection, tenant.tenant_id)
    planner.parked_replay.retry_parked(tenant, rows, shown)
