"""What is due by the clock rather than by a message: overdue deletions, room in an allowance, old rows, gauges.

Called by the loop between batches, so that it never runs beside one.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import structlog

from services.common.telemetry.metrics import RESOURCES
from services.planner import SERVICE
from services.planner.kinds.conditions import THROTTLING_SHOWN
from services.planner.kinds.gitops_deployment_status import DELETION_NOTICE
from services.planner.kinds.names import GITOPS_DEPLOYMENT
from services.planner.service import Planner

log = structlog.get_logger(__name__)

SECOND = 1.0
MINUTE = 60.0
PRUNED_AT_ONCE = 1000
NOTICED_AT_ONCE = 500


@dataclass
class Upkeep:
    """Remembers what was done when."""

    operations_kept: timedelta
    sync_runs_kept: timedelta = timedelta(days=15)
    _last: dict[str, float] = field(default_factory=dict)

    def __call__(self, planner: Planner) -> None:
        """Do what is due."""
        if self._due("notice", SECOND):
            planner.consumer.measure_lag()
            self._notice(planner)
        if self._due("room", 5 * SECOND):
            self._give_room(planner)
            self._ease(planner)
        if self._due("prune", MINUTE):
            self._prune(planner)
        if self._due("count", 10 * SECOND):
            self._count(planner)

    def _due(self, what: str, seconds: float) -> bool:
        now = time.monotonic()
        if now - self._last.get(what, -seconds) < seconds:
            return False
        self._last[what] = now
        return True

    def _notice(self, planner: Planner) -> None:
        """Tell the users of deletions that take long."""
        now = datetime.now(UTC)
        events = planner.store.overdue(now - DELETION_NOTICE, now, planner.consumer.partitions, NOTICED_AT_ONCE)
        if events:
            planner.look_again(events)

    def _give_room(self, planner: Planner) -> None:
        """Deployments that were beyond their tenant's allowance, the oldest first, as far as there is room by now."""
        now = datetime.now(UTC)
        partitions = planner.consumer.partitions
        if events := planner.store.with_room(planner.rules.limits, now, partitions, NOTICED_AT_ONCE):
            planner.look_again(events)

    def _ease(self, planner: Planner) -> None:
        """Changes that were held back some time ago are no news any more."""
        now = datetime.now(UTC)
        partitions = planner.consumer.partitions
        if events := planner.store.held_back(now - THROTTLING_SHOWN, now, partitions, NOTICED_AT_ONCE):
            planner.look_again(events)

    def _prune(self, planner: Planner) -> None:
        """A bounded piece at a time; if there is more, the next turn goes on."""
        before = datetime.now(UTC) - self.operations_kept
        runs_before = datetime.now(UTC) - self.sync_runs_kept
        pruned = (
            planner.store.prune_operations(before, PRUNED_AT_ONCE),
            planner.store.forget_runs(runs_before, PRUNED_AT_ONCE),
        )
        if PRUNED_AT_ONCE in pruned:
            del self._last["prune"]

    def _count(self, planner: Planner) -> None:
        RESOURCES.labels(SERVICE, GITOPS_DEPLOYMENT).set(planner.store.count_deployments(planner.consumer.partitions))
