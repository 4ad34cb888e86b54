"""Room for the GitOpsDeployments that bindings want: together at most as many as the tenant may have of its own.

Bindings may name far more components than that. What a binding has, it keeps, whatever others want. A new deployment
needs room, and the oldest binding that waits gets room first. A row counts until its object is gone, so bindings that
are created and deleted in turn get no more. The row of a binding says that it waits, so nobody reads all bindings.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple
from uuid import UUID

from services.common.messages import ChildKind
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.shared.child_objects import ChildObject
from services.kinds.shared.resource import PlainResource
from services.kinds.snapshot_environment_binding.waiting_components import is_waiting
from services.planner.domain.indexed_rows import Counts, Subset, index_of
from services.planner.domain.live_children import live_children
from services.planner.domain.planned_tenant import Context, PlannedTenant
from services.planner.domain.state import TenantState
from services.planner.rows.compiled import ChildRow

WAITING: Subset[PlainResource] = Subset(is_waiting)
BY_CHILD_KIND: Counts[ChildRow, str] = Counts(lambda row: row.kind)
"""How many child objects of each kind there are, with those that have to go."""


class WithinRoom(NamedTuple):
    """What a binding wants, as far as there is room."""

    children: Collection[ChildObject]
    waiting: int = 0
    """How many of its deployments wait for room."""


def within_room(
    state: TenantState, owner: PlainResource, wanted: Collection[ChildObject], context: Context
) -> WithinRoom:
    """What ``owner`` has already, and of the rest, in its order, as much as there is room for.

    Objects that cannot be made for another reason are left in: other code says why. An object that exists without a
    row, because the database was lost, counts as one that ``owner`` has.
    """
    room = _room(state, context)
    news = [child for child in wanted if child.key not in state.child_objects]
    if len(news) <= room:
        return WithinRoom(wanted)
    live = live_children(state, [child.key for child in news], state).present
    own = {key for key, each in live.items() if each.controller is not None and each.controller.uid == owner.uid}
    foreign = {key for key, each in live.items() if each.is_foreign_to(owner)}
    makeable = [child.key for child in news if not child.is_oversized and child.key not in own | foreign]
    beyond = frozenset(makeable[max(0, room - len(own)) :])
    return WithinRoom([child for child in wanted if child.key not in beyond], len(beyond))


def next_to_have_room(state: TenantState, context: Context) -> list[UUID]:
    """Bindings that wait, the oldest first, as many as there may be room for."""
    waiting = index_of(state.plain_resources, WAITING)
    room = _room(state, context) if waiting else 0
    oldest = sorted(waiting.values(), key=lambda row: (row.created_at, row.id)) if room else []
    return [row.id for row in oldest[:room]]


def plan_next_room(planned: PlannedTenant, context: Context) -> PlannedTenant:
    """The tenant with the oldest binding that waits due at once, if this plan has left room for it."""
    cause, waiting = planned.last_cause, next_to_have_room(planned.state, context)
    if cause is None or planned.state.tenant.is_former or not waiting:
        return planned
    planned = planned if waiting[0] in planned.touched else planned.touching(waiting[0], cause)
    return planned.due_by(waiting[0], context.now)


def _room(state: TenantState, context: Context) -> int:
    made = index_of(state.child_objects, BY_CHILD_KIND).get(ChildKind.DEPLOYMENT.value, 0)
    return max(0, context.policy.limits.of(GITOPS_DEPLOYMENT.kind) - made)
