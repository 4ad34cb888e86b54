"""Bindings: each has one GitOpsDeployment for each component that the build service has told of.

How these deployments are is no concern of this step: a binding's status follows from their statuses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from types import MappingProxyType
from uuid import UUID

from services.common.errors import Permanent
from services.common.messages import UnownedKind
from services.kinds.application.kind import APPLICATION
from services.kinds.shared.conditions import Refused
from services.kinds.shared.projection import metadata_of, status_of
from services.kinds.shared.reconciled import INVALID_SPEC, Problem
from services.kinds.shared.resource import PlainResource
from services.kinds.shared.spec_text import readable_spec
from services.kinds.shared.unowned_objects import UnownedObject
from services.kinds.snapshot_environment_binding.catalogue import ENVIRONMENT_EXPIRED, ENVIRONMENT_INVALID
from services.kinds.snapshot_environment_binding.missing_application import missing_application_problem
from services.kinds.snapshot_environment_binding.model import BINDING, BindingSpec, BindingStatus
from services.kinds.snapshot_environment_binding.named_commits import with_named_commits
from services.kinds.snapshot_environment_binding.rules import Binding, Rival, accept, decide, older_bindings
from services.planner.domain.appstudio import environments
from services.planner.domain.appstudio.environments import NO_PLACE, Place, places
from services.planner.domain.appstudio.missing_applications import removal_of
from services.planner.domain.appstudio.outcomes import (
    NAME_CONFLICTING,
    Outcome,
    differs_by_kind,
    is_touched,
    owners_of_foreign,
    refused,
    with_outcome,
)
from services.planner.domain.indexed_rows import differing, index_of
from services.planner.domain.planned_tenant import Context, PlannedTenant
from services.planner.domain.state import TenantState
from services.planner.domain.steps.unowned_objects import UnownedRequest, tend_unowned_objects

Pair = tuple[str, str]
"""Application and environment."""


def plan_bindings(planned: PlannedTenant, context: Context, now: datetime) -> PlannedTenant:
    """The tenant with the deployments that its bindings want, and what is wrong with these."""
    cause = planned.last_cause
    if cause is None or planned.state.tenant.is_former:
        return planned
    planned = _with_named_commits(planned, context)
    state = planned.state
    rows, met = state.plain_resources_of_kind(BINDING.kind), _met_by_others(state, context)
    if not met and not _is_concerned(planned, context):
        return planned
    by_name, older = places(state, context), older_bindings(_rivals(rows.values()))
    for each in sorted(_concerned(state, by_name, met, context), key=lambda row: (row.created_at, row.id)):
        outcome = _outcome(each, by_name, older.get(each.id, ""), context)
        planned = with_outcome(planned, each, outcome, cause, context)
    removals = _removals(rows.values(), by_name, context, now)
    return tend_unowned_objects(planned, (BINDING.kind,), removals, cause, context)


def _with_named_commits(planned: PlannedTenant, context: Context) -> PlannedTenant:
    """With the order in which bindings that differ have named their commits, for promotions."""
    state, before = planned.state, context.before.plain_resources if context.is_known else {}
    if not differs_by_kind(state, context, (BINDING.kind,)):
        return planned
    rows = [
        row for subject, row in state.plain_resources_of_kind(BINDING.kind).items() if row is not before.get(subject)
    ]
    named = [with_named_commits(row) for row in rows if row.present]
    changed = [row for row in named if row != state.plain_resources[row.id]]
    return planned.with_state(state.with_plain_resources(*changed)) if changed else planned


def _is_concerned(planned: PlannedTenant, context: Context) -> bool:
    """Whether anything differs that the rules look at, or one is due, and there are bindings, or were."""
    some = [state.plain_resources_of_kind(BINDING.kind) for state in (planned.state, context.before)]
    looked_at = (BINDING.kind, *environments.LOOKED_AT)
    return any(some) and (differs_by_kind(planned.state, context, looked_at) or is_touched(planned, (BINDING.kind,)))


def _removals(
    rows: Iterable[PlainResource], by_name: Mapping[str, Place], context: Context, now: datetime
) -> Iterator[UnownedRequest]:
    """Bindings whose environment is over, and those whose Application is missing for long.

    That it is missing is only what was told, so the API server is asked for it once more.
    """
    for row in rows:
        pair, removal = pair_of(row), removal_of(row, context)
        if not row.present or pair is None:
            continue
        application, environment = pair
        if by_name.get(environment, NO_PLACE).is_expired:
            yield _removal(row)
        elif removal is not None and removal <= now:
            yield _removal(row, unless={APPLICATION.kind: application})


def _removal(row: PlainResource, unless: Mapping[str, str] = MappingProxyType({})) -> UnownedRequest:
    return UnownedRequest(row, UnownedObject(UnownedKind.BINDING, row.name, row.uid, is_deleted=True, unless=unless))


def _met_by_others(state: TenantState, context: Context) -> set[UUID]:
    """Bindings that lack a deployment because its name is not theirs, or lose one so.

    Asked when any deployment differs.
    """
    if state.deployments is context.before.deployments and not differs_by_kind(state, context, (BINDING.kind,)):
        return set()
    return {*index_of(state.plain_resources, NAME_CONFLICTING), *owners_of_foreign(state, context.before)}


def _concerned(
    state: TenantState, by_name: Mapping[str, Place], met: Collection[UUID], context: Context
) -> Iterator[PlainResource]:
    """Bindings that exist and of which something differs that their rules look at.

    That is the binding itself, another one of the same pair, what is there of its environment, or who has the names of
    its deployments.
    """
    rows, before = state.plain_resources_of_kind(BINDING.kind), context.before
    changed = set(differing(state.plain_resources, before.plain_resources))
    known = (each for subject in changed for each in (rows.get(subject), before.plain_resources.get(subject)) if each)
    pairs = {pair_of(each) for each in known if each.kind == BINDING.kind}
    then = places(before, context) if differs_by_kind(state, context, environments.LOOKED_AT) else by_name
    moved = {name for name in {*by_name, *then} if by_name.get(name) != then.get(name)}
    for subject, row in rows.items():
        pair = pair_of(row)
        is_other = subject in changed or subject in met or (pair is not None and (pair in pairs or pair[1] in moved))
        if row.present and (is_other or not context.is_known):
            yield row


def pair_of(row: PlainResource) -> Pair | None:
    """What a binding binds; None if its spec cannot be read, or there is no room for it."""
    spec = readable_spec(BindingSpec, row)
    return (spec.application, spec.environment) if spec is not None else None


def _rivals(rows: Iterable[PlainResource]) -> Iterator[Rival]:
    for each in rows:
        if each.present and (pair := pair_of(each)) is not None:
            yield Rival(each.id, each.name, each.created_at, *pair)


def _outcome(row: PlainResource, by_name: Mapping[str, Place], older: str, context: Context) -> Outcome:
    addresses = context.policy.addresses
    try:
        spec = accept(row, addresses, context.policy.limits)
        reported, labels = status_of(BindingStatus, row), metadata_of(row).labels
    except Refused as why:
        return refused(why)
    except Permanent as why:
        return Outcome(None, Problem(INVALID_SPEC.reason, str(why)))
    place = by_name.get(spec.environment, NO_PLACE)
    if place.is_expired:
        return Outcome((), Problem.of(ENVIRONMENT_EXPIRED, environment=spec.environment))
    removal = removal_of(row, context)
    missing = missing_application_problem(spec.application, removal) if removal is not None else None
    if place is not NO_PLACE and place.spec is None and not older:
        return Outcome(None, missing or Problem.of(ENVIRONMENT_INVALID, environment=spec.environment))
    decision = decide(Binding(row.name, spec, reported, place.spec, place.backing, labels, older), addresses)
    children = decision.deployments.values() if decision.deployments is not None else None
    return Outcome(children, missing or decision.problem)
