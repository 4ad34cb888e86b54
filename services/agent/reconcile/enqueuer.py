"""Decides which objects are queued: those of a row or a watch event, and regularly all that have drifted.

A worker that finds a queued object as desired does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from services.agent.objects.live import EngineObjects
from services.agent.objects.managed_kinds import KINDS, ObjectKey, application_of, sync_of
from services.agent.observe.pending_acks import PendingAcks
from services.agent.reconcile.outcome_reporter import OutcomeReporter
from services.common.backoff import KeyedBackoff
from services.common.errors import Permanent
from services.common.kubernetes import APPLICATION
from services.common.messages import EngineResource
from services.common.messages.compiled import RowKind
from services.common.queueing import Place, WorkQueue

ORPHAN_LANE = ""
"""The lane of orphans. Tenants' lanes are named after AppProjects."""

REPAIR_LIMIT_SECONDS, FREE_REPAIRS = 30, 3
BACKOFF_RESET_SECONDS = 60
"""An object that was not repaired for so long is repaired without delay."""

HasDrifted = Callable[[ObjectKey, EngineResource], bool]


class Enqueuer:
    """Queues the objects of one instance."""

    def __init__(
        self,
        rows: Mapping[ObjectKey, EngineResource],
        live: EngineObjects,
        queue: WorkQueue[ObjectKey],
        has_drifted: HasDrifted,
        outcomes: OutcomeReporter,
        pending: PendingAcks,
    ) -> None:
        self._rows, self._live, self._queue = rows, live, queue
        self._has_drifted, self._outcomes, self._pending = has_drifted, outcomes, pending
        self._repairs: KeyedBackoff[ObjectKey] = KeyedBackoff(REPAIR_LIMIT_SECONDS, FREE_REPAIRS, BACKOFF_RESET_SECONDS)
        """Delays of repairs. Only repeated repairs of an object are delayed."""

    def enqueue_key(self, key: ObjectKey) -> None:
        """Queue ``key``."""
        self._queue.add_key(key, self._place(key))

    def enqueue_if_drifted(self, key: ObjectKey, now: float) -> None:
        """A watch showed a change of an object: queue the object if it has drifted, and its sync in any case."""
        self.enqueue_sync(key)
        if key not in self._queue:
            if self._is_to_repair(key):  # if not: most often the echo of our own write
                self._queue.add_key_at(key, self._place(key), now + self._repairs.next_delay(key, now))
        elif self._is_going(key) or (self._is_to_repair(key) and self._queue.is_in_progress(key)):
            self.enqueue_key(key)

    def enqueue_sync(self, key: ObjectKey) -> None:
        """Queue the sync of an Application that has changed."""
        if key.kind == APPLICATION.kind and (sync := sync_of(key)) in self._rows:
            self.enqueue_key(sync)

    def is_due(self, key: ObjectKey) -> bool:
        """Whether the object of ``key`` is not as desired, or its message is not acknowledged."""
        row = self._rows.get(key)
        if row is None:
            return False
        if key not in self._pending:
            self._outcomes.forget_failure(key)
        return key in self._pending or row.desired == "absent" or self._may_have_drifted(key, row)

    def _place(self, key: ObjectKey) -> Place[ObjectKey]:
        """The place in its tenant's lane.

        Objects are created in the order of their waves, AppProjects before Applications, and deleted in reverse order.
        A sync waits for its Application only, whatever else waits in the lane.
        """
        row = self._rows.get(key)
        if row is None:
            return Place(ORPHAN_LANE, -1 if KINDS[key.kind].cascade_finalizer else 0, "absent")
        if row.desired == "absent":
            return Place(row.lane, -row.wave, "absent")
        follows = application_of(key) if key.kind == RowKind.SYNC_OPERATION else None
        return Place(row.lane, row.wave, "present", follows)

    def _is_going(self, key: ObjectKey) -> bool:
        live = self._live.get(key)
        return live is None or live.deletion_started is not None

    def _is_to_repair(self, key: ObjectKey) -> bool:
        row = self._rows.get(key)
        if row is None or self._outcomes.has_failed(key, row):
            return False
        return self._may_have_drifted(key, row)

    def _may_have_drifted(self, key: ObjectKey, row: EngineResource) -> bool:
        try:
            return self._has_drifted(key, row)
        except Permanent:
            return True  # the work itself says what is wrong with the row
