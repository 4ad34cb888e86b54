"""Late commands: from a watcher that no longer leads, about resources that are gone and have no row.

A watcher that was suspended may resume and send what its Kafka client still has in its queue. By then its successor
has listed everything, and the resource may be deleted. While the resource has a row, the row shows that the command is
late. Once it has none, the newest complete list shows it: a watcher takes its epoch before the list begins, sends each
resource of the list under that epoch, and then the marker. So after the marker, in the order of the log, a command of
an older epoch is from the predecessor, and a resource without a row was not in the list.

This holds however a log is read:

- A batch that is read again: its markers are written with its offsets, so none is known ahead of them.
- A rebuild, and ``replay at``: both begin without lists, and read markers in the order of the log.
- A restored database: its lists are those before its offsets.
- A log that was created again, or restored, is read from its beginning, and its epochs may be lower than those of the
  former one. The lists of its partitions are forgotten when these are claimed (``database/positions.py``).
- Events of a parked tenant were checked when they came. They are not checked again when they are planned, although
  newer lists are known then.
- A dead letter that is redriven: if its epoch is older than a complete list, the resource was not in that list.

Called by :mod:`batch_planning`.
"""

from __future__ import annotations

from collections.abc import Collection

from services.common.messages import Command, ResourceChanged
from services.planner.domain import ids
from services.planner.domain.events import Event, SweepScope
from services.planner.domain.state import TenantState


def list_of_unknown(event: Event, tenants: Collection[TenantState]) -> SweepScope | None:
    """The list whose epoch a change has, if none of the ``tenants`` of its name has a row of the resource."""
    match event.message:
        case Command(event=ResourceChanged() as changed) as command:
            subject = ids.resource_id(command.workspace, changed.uid)
            if all(state.find(subject) is None for state in tenants):
                return SweepScope(command.source, changed.kind, event.partition, changed.epoch)
    return None
