"""Commands of a watcher that does not lead any more, of resources that are gone without a trace.

A watcher that was stopped may send what its Kafka client still has in its queue when it goes on: later than its
successor has listed everything, and later than what it tells of was deleted. While there is a row of the resource, that
tells that the command is late. Once there is none, the newest complete list does: a watcher takes its epoch before the
list begins, sends each resource that the list shows under it, and then the marker. So behind the marker, in the order
of the log, a command of an older epoch is its predecessor's, and a resource without a row was not in the list.

It is so in every order in which a log is read:

- A batch that is read again: its markers are written with its offsets, so none is known ahead of them.
- A rebuild, and ``replay at``: both begin without lists, and take markers as they come in the log.
- A restored database: its lists are those before its offsets.
- A log that was made anew, or put back, is read from its beginning, and its epochs may be lower than those of the
  former one. The lists of its partitions are forgotten when it is taken up (``database/positions.py``).
- What is kept of a parked tenant was judged when it came. When it is planned newer lists are known, and it is not
  judged again.
- A dead letter that is redriven has nothing newer in the log. If its epoch is older than a complete list the resource
  was not in that list.

Called by :mod:`batch_planning`.
"""

from __future__ import annotations

from collections.abc import Collection

from services.common.messages import Command, ResourceChanged
from services.planner.domain import ids
from services.planner.domain.events import Event, SweepScope
from services.planner.domain.state import TenantState


def list_of_unknown(event: Event, tenants: Collection[TenantState]) -> SweepScope | None:
    """The list of whose epoch a change is, if none of the ``tenants`` of its name has a row of the resource."""
    match event.message:
        case Command(event=ResourceChanged() as changed) as told:
            subject = ids.resource_id(told.workspace, changed.uid)
            if all(state.find(subject) is None for state in tenants):
                return SweepScope(told.source, changed.kind, event.partition, changed.epoch)
    return None
