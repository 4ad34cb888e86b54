"""Keeps what the rules of an AppStudio kind have decided about a resource, in the tenant's rows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from services.kinds.shared.child_objects import ChildObject
from services.kinds.shared.conditions import Refused
from services.kinds.shared.incarnation import refuse_resource
from services.kinds.shared.reconciled import NAME_TAKEN, Problem
from services.kinds.shared.resource import Cause, PlainResource
from services.planner.domain.planned_tenant import Context, PlannedTenant
from services.planner.domain.state import TenantState
from services.planner.domain.steps.child_objects import want_child_objects
from services.planner.rows import ChildKey


@dataclass(frozen=True, slots=True)
class Outcome:
    """What follows from one resource."""

    children: Collection[ChildObject] | None
    """All child objects that it wants; None: that is not known, so those that it has stay."""
    problem: Problem | None = None


def differs_by_kind(state: TenantState, context: Context, kinds: Collection[str]) -> bool:
    """Whether a resource of these kinds is another row than before the batch, or anything else may be otherwise."""
    before = context.before
    return not context.is_known or any(
        state.plain_resources_of_kind(kind) is not before.plain_resources_of_kind(kind) for kind in kinds
    )


def refused(why: Refused) -> Outcome:
    """Of a resource whose spec is not accepted: what it has stays."""
    return Outcome(None, Problem(why.reason, why.message))


def with_outcome(
    planned: PlannedTenant, owner: PlainResource, outcome: Outcome, cause: Cause, context: Context
) -> PlannedTenant:
    """The tenant with what follows from ``owner``. What one that is being deleted has stays: it goes after it."""
    state, problem = planned.state, outcome.problem
    if outcome.children is not None and owner.is_active:
        state, refused = want_child_objects(state, owner, context.policy.kinds[owner.kind], outcome.children, cause)
        problem = problem or next(map(_not_made, refused), None)
    row = refuse_resource(owner, problem.refusal if problem is not None else None)
    return planned.with_state(state if row == owner else state.with_plain_resources(row))


def _not_made(key: ChildKey) -> Problem:
    kind, name = key
    return Problem.of(NAME_TAKEN, kind=kind, name=name)
