"""A namespace that was deleted and made again is somebody else's: what was there before is gone, told of or not.

A watcher names the namespace of each resource by its uid. Messages of before do not: the tenant has the first uid that
a message tells. Another one ends all that the tenant has, before the resources of the new namespace are taken in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from services.common.messages import Command, ResourceChanged
from services.kinds.shared.incarnation import mark_gone
from services.kinds.shared.resource import Cause
from services.planner.domain import audit
from services.planner.domain.events import Event
from services.planner.domain.planned_tenant import PlannedTenant
from services.planner.rows import Tenant


def with_namespace(tenant: Tenant, events: Sequence[Event]) -> Tenant:
    """``tenant`` with the newest namespace that ``events`` or itself tell of."""
    for event in events:
        match event.message:
            case Command(event=ResourceChanged(epoch=epoch)) as told if _is_newer(tenant, told, epoch):
                uid = told.namespace_uid
                tenant = replace(tenant, namespace_uid=uid, namespace_created_at=told.namespace_created_at)
            case _:
                pass
    return tenant


def is_recycled(before: Tenant, now: Tenant) -> bool:
    """Whether it is another namespace ``now``."""
    return bool(before.namespace_uid) and before.namespace_uid != now.namespace_uid


def is_of_former(tenant: Tenant, command: Command) -> bool:
    """Whether ``command`` tells of another namespace than the tenant's: it is late."""
    return bool(command.namespace_uid) and command.namespace_uid != tenant.namespace_uid


def end_former(planned: PlannedTenant, cause: Cause) -> PlannedTenant:
    """Nothing that the tenant has exists any more. Its dormant rows are deleted when the plan is saved."""
    for known in planned.state.deployments.values():
        if known.present:
            planned = planned.with_row(mark_gone(known, known.resource_version, cause), cause, audit.REPLACED_ACTOR)
    for each in planned.state.plain_resources.values():
        if each.present:
            planned = planned.with_row(mark_gone(each, each.resource_version, cause), cause, audit.REPLACED_ACTOR)
    return planned


def _is_newer(tenant: Tenant, told: Command, epoch: int) -> bool:
    """A list that began after a namespace was made shows an older one only if the API server was restored."""
    if not told.namespace_uid or told.namespace_uid == tenant.namespace_uid:
        return False
    return told.namespace_created_at >= tenant.namespace_created_at or epoch > tenant.namespace_created_at
