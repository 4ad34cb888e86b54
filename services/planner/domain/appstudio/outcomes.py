"""Stores what the rules of an AppStudio kind have decided about a resource, in the tenant's rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from uuid import UUID

from services.kinds.shared.child_objects import ChildObject
from services.kinds.shared.conditions import Refused
from services.kinds.shared.incarnation import refuse_resource
from services.kinds.shared.reconciled import NAME_EXISTS, NAME_TAKEN, Problem
from services.kinds.shared.resource import Cause, PlainResource
from services.planner.domain.ids import resource_id
from services.planner.domain.live_children import children_differing, live_children, reported_as
from services.planner.domain.planned_tenant import Context, PlannedTenant
from services.planner.domain.state import TenantState
from services.planner.domain.steps.child_objects import Wanted, want_child_objects


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the rules have decided about one resource."""

    children: Collection[ChildObject] | None
    """All child objects that it wants; None: that is not known, so those that it has stay."""
    problem: Problem | None = None
    warning: Problem | None = None
    """The problem to show if there is no other."""


def differs_by_kind(state: TenantState, context: Context, kinds: Collection[str]) -> bool:
    """Whether a resource of these kinds differs from before the batch, or the tenant has another basis."""
    before = context.before
    return not context.is_known or any(
        state.plain_resources_of_kind(kind) is not before.plain_resources_of_kind(kind) for kind in kinds
    )


def is_touched(planned: PlannedTenant, kinds: Collection[str]) -> bool:
    """Whether a resource of these kinds was touched. One that is due is touched though it does not differ."""
    rows = map(planned.state.plain_resources.get, planned.touched)
    return any(row is not None and row.kind in kinds for row in rows)


def refused(why: Refused) -> Outcome:
    """The outcome of a resource whose spec is refused: its child objects stay."""
    return Outcome(None, Problem(why.reason, why.message))


def with_outcome(
    planned: PlannedTenant, owner: PlainResource, outcome: Outcome, cause: Cause, context: Context
) -> PlannedTenant:
    """The tenant with the outcome of ``owner``."""
    return with_wanted(planned, owner, outcome, wanted_by(planned, owner, outcome, cause, context))


def wanted_by(planned: PlannedTenant, owner: PlainResource, outcome: Outcome, cause: Cause, context: Context) -> Wanted:
    """The child objects that ``owner`` wants. If it is being deleted, those that it has stay until it is gone."""
    if outcome.children is None or not owner.is_active:
        return Wanted(planned.state)
    return want_child_objects(planned.state, owner, context.policy.kinds[owner.kind], outcome.children, cause)


def with_wanted(planned: PlannedTenant, owner: PlainResource, outcome: Outcome, wanted: Wanted) -> PlannedTenant:
    """The tenant with these child objects of ``owner``, and with what is wrong with it."""
    shown = outcome.problem or _name_conflict(wanted) or outcome.warning
    row = refuse_resource(owner, shown.refusal if shown is not None else None)
    is_same = row == wanted.state.plain_resources.get(row.id)
    return planned.with_state(wanted.state if is_same else wanted.state.with_plain_resources(row))


def _name_conflict(wanted: Wanted) -> Problem | None:
    """Why the first child object that cannot be made is not made."""
    conflicts = [(NAME_TAKEN, key) for key in wanted.refused] + [(NAME_EXISTS, key) for key in wanted.foreign]
    shown = ((entry, *reported_as(key)) for entry, key in conflicts)
    return next((Problem.of(entry, kind=kind, name=name) for entry, kind, name in shown), None)


def owners_of_foreign(state: TenantState, before: TenantState) -> Iterator[UUID]:
    """Resources whose child object has a name that an object of somebody else now has."""
    keys = [*children_differing(state, before)]
    for key, live in live_children(state, keys, before).present.items():
        row = state.child_objects[key]
        owner = state.plain_resources.get(resource_id(row.workspace, row.owner_uid))
        if owner is not None and live.is_foreign_to(owner):
            yield owner.id
