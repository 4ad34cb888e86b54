"""Decides which objects are looked at, and when: what a watch shows, what a row says, and everything now and then.

It decides nothing else: work on an object that is as desired finds so and ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from services.agent.duties import Duties
from services.agent.kinds import KINDS
from services.agent.live_objects import LiveObjects
from services.agent.objects import ObjectKey, application_of, sync_of
from services.agent.repair_pace import RepairPace
from services.agent.settlement import Settlement
from services.agent.work_queue import Place, WorkQueue
from services.common.errors import Permanent
from services.common.kube import APPLICATION
from services.common.messages import EngineResource
from services.common.messages.compiled import RowKind

ORPHAN_LANE = ""
"""No tenant's lane: lanes are named after AppProjects."""

HasDrifted = Callable[[ObjectKey, EngineResource], bool]


class Attention:
    """Marks objects of one instance in its queue."""

    def __init__(
        self,
        rows: Mapping[ObjectKey, EngineResource],
        live: LiveObjects,
        queue: WorkQueue,
        has_drifted: HasDrifted,
        settlement: Settlement,
        duties: Duties,
    ) -> None:
        self._rows, self._live, self._queue = rows, live, queue
        self._has_drifted, self._settlement, self._duties = has_drifted, settlement, duties
        self._pace = RepairPace()

    def mark(self, key: ObjectKey, not_before: datetime | None = None) -> None:
        """Look at ``key``."""
        if not_before is None:
            self._queue.mark(key, self._place(key))
        else:
            self._queue.mark_at(key, self._place(key), not_before)

    def notice(self, key: ObjectKey, now: datetime) -> None:
        """An object changed under us: look at it if it is not as desired, and at its sync in any case."""
        self.follow_up(key)
        if key not in self._queue:
            if self._is_to_repair(key):  # if not: most often the echo of our own write
                self.mark(key, self._pace.next_repair(key, now))
        elif self._is_going(key):
            self.mark(key)
        elif self._is_to_repair(key):
            self._queue.mark_if_running(key, self._place(key))

    def follow_up(self, key: ObjectKey) -> None:
        """An object changed: if it is an Application, look at its sync."""
        if key.kind == APPLICATION.kind and (sync := sync_of(key)) in self._rows:
            self.mark(sync)

    def compare(self, now: datetime) -> None:
        """Mark every row that is not as desired, or has to be told of once more."""
        for key, row in self._rows.items():
            if key not in self._duties:
                self._settlement.allow_again(key)
            is_open = key in self._duties or row.desired == "absent" or self._settlement.is_to_repeat(key, now)
            if is_open or self._may_have_drifted(key, row):
                self.mark(key)

    def _place(self, key: ObjectKey) -> Place:
        row = self._rows.get(key)
        if row is None:
            return Place(ORPHAN_LANE, wave=1 if KINDS[key.kind].cascade_finalizer else 0, absent=True)
        absent = row.desired == "absent"
        follows = application_of(key) if key.kind == RowKind.SYNC_OPERATION and not absent else None
        return Place(row.lane, row.wave, absent, follows)

    def _is_going(self, key: ObjectKey) -> bool:
        live = self._live.get(key)
        return live is None or live.deletion_started is not None

    def _is_to_repair(self, key: ObjectKey) -> bool:
        row = self._rows.get(key)
        if row is None or self._settlement.is_refused(key, row):
            return False
        return self._may_have_drifted(key, row)

    def _may_have_drifted(self, key: ObjectKey, row: EngineResource) -> bool:
        try:
            return self._has_drifted(key, row)
        except Permanent:
            return True  # the work itself says what is wrong with the row
