"""Bindings: each has one GitOpsDeployment for each component that the build service has reported.

This step does not read how the deployments are: the status of a binding is compiled from their statuses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from uuid import UUID

from services.common.errors import Permanent
from services.common.messages import UnownedKind
from services.kinds.application.kind import APPLICATION
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.shared.conditions import Refused
from services.kinds.shared.projection import metadata_of, status_of
from services.kinds.shared.reconciled import INVALID_SPEC, Problem
from services.kinds.shared.resource import Cause, PlainResource
from services.kinds.shared.unowned_objects import UnownedObject
from services.kinds.snapshot_environment_binding.catalogue import (
    ENVIRONMENT_EXPIRED,
    ENVIRONMENT_INVALID,
    INVALID_STATUS,
)
from services.kinds.snapshot_environment_binding.missing_application import missing_application_problem
from services.kinds.snapshot_environment_binding.model import BINDING, BindingStatus
from services.kinds.snapshot_environment_binding.name_conflicts import has_name_conflict, with_name_conflict
from services.kinds.snapshot_environment_binding.named_commits import with_named_commits
from services.kinds.snapshot_environment_binding.rules import Binding, accept, decide
from services.kinds.snapshot_environment_binding.waiting_components import waiting_problem, with_waiting
from services.planner.domain.appstudio import environments
from services.planner.domain.appstudio.bound_pairs import (
    BY_PAIR,
    REFUSED,
    Pair,
    bound_pair,
    older_in_force,
    pair_of,
    rivals,
)
from services.planner.domain.appstudio.deployment_room import next_to_have_room, within_room
from services.planner.domain.appstudio.environments import NO_PLACE, Place, places
from services.planner.domain.appstudio.missing_applications import WITHOUT_APPLICATION, removal_of
from services.planner.domain.appstudio.outcomes import (
    Outcome,
    differs_by_kind,
    is_touched,
    owners_of_foreign,
    refused,
    wanted_by,
    with_wanted,
)
from services.planner.domain.indexed_rows import Subset, differing, index_of
from services.planner.domain.planned_tenant import Context, PlannedTenant
from services.planner.domain.state import TenantState
from services.planner.domain.steps.unowned_objects import UnownedRequest, reconcile_unowned_objects

NAME_CONFLICTING: Subset[PlainResource] = Subset(has_name_conflict)
"""Bindings that are planned again when a deployment goes."""


def plan_bindings(planned: PlannedTenant, context: Context) -> PlannedTenant:
    """The tenant with the deployments that its bindings want, and what is wrong with these."""
    cause = planned.last_cause
    if cause is None or planned.state.tenant.is_former:
        return planned
    planned = _with_named_commits(planned, context)
    state = planned.state
    met = {*_met_by_others(state, context), *next_to_have_room(state, context)}
    if not met and not _is_concerned(planned, context):
        return planned
    by_name = places(state, context)
    concerned = sorted(_concerned(state, by_name, met, context), key=lambda row: (row.created_at, row.id))
    older = _older(state, {pair_of(each) for each in concerned})
    for each in concerned:
        outcome = _outcome(each, by_name, older.get(each.id, ""), context)
        planned = _with_room(planned, each, outcome, cause, context)
    removals = _removals(planned.state, by_name, context)
    return reconcile_unowned_objects(planned, (BINDING.kind,), removals, cause, context)


def _with_room(
    planned: PlannedTenant, row: PlainResource, outcome: Outcome, cause: Cause, context: Context
) -> PlannedTenant:
    """The tenant with the deployments of a binding, as far as there is room for them."""
    children, most = outcome.children, context.policy.limits.of(GITOPS_DEPLOYMENT.kind)
    waiting = 0
    if children is not None and row.is_active:
        within, waiting = within_room(planned.state, row, children, context)
        crowded = waiting_problem(waiting, len(children), most) if waiting else None
        outcome = Outcome(within, outcome.problem or crowded)
    wanted = wanted_by(planned, row, outcome, cause, context)
    is_conflicting = bool(wanted.refused or wanted.foreign)
    kept = with_name_conflict(with_waiting(row, waiting), is_conflicting=is_conflicting)
    return with_wanted(planned, kept, outcome, wanted)


def _with_named_commits(planned: PlannedTenant, context: Context) -> PlannedTenant:
    """The tenant with the order in which changed bindings have named their commits, for promotions."""
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
    """Whether there are bindings, or were, and something that the rules read differs, or a binding is due."""
    some = [state.plain_resources_of_kind(BINDING.kind) for state in (planned.state, context.before)]
    looked_at = (BINDING.kind, *environments.LOOKED_AT)
    return any(some) and (differs_by_kind(planned.state, context, looked_at) or is_touched(planned, (BINDING.kind,)))


def _removals(state: TenantState, by_name: Mapping[str, Place], context: Context) -> Iterator[UnownedRequest]:
    """Requests to delete bindings whose environment is over, or whose Application has been missing for long.

    A watcher may not have reported the Application, so the API server is asked for it before the deletion.
    """
    if any(place.is_expired for place in by_name.values()):
        yield from map(_removal, _bindings_of_expired(state, by_name))
    for row in index_of(state.plain_resources, WITHOUT_APPLICATION).values():
        pair, removal = pair_of(row), removal_of(row, context)
        if pair is None or removal is None or removal > context.now or by_name.get(pair[1], NO_PLACE).is_expired:
            continue
        yield _removal(row, unless={APPLICATION.kind: (pair[0],)})


def _bindings_of_expired(state: TenantState, by_name: Mapping[str, Place]) -> Iterator[PlainResource]:
    for (_, environment), group in index_of(state.plain_resources, BY_PAIR).items():
        if by_name.get(environment, NO_PLACE).is_expired:
            yield from group.values()
    for row in index_of(state.plain_resources, REFUSED).values():
        pair = bound_pair(state, row)
        if pair is not None and by_name.get(pair[1], NO_PLACE).is_expired:
            yield row


def _removal(row: PlainResource, unless: Mapping[str, tuple[str, ...]] = MappingProxyType({})) -> UnownedRequest:
    return UnownedRequest(row, UnownedObject(UnownedKind.BINDING, row.name, row.uid, is_deleted=True, unless=unless))


def _met_by_others(state: TenantState, context: Context) -> set[UUID]:
    """Bindings that lack a deployment because somebody else has its name, or lose one because of that.

    Checked when any deployment differs.
    """
    if state.deployments is context.before.deployments and not differs_by_kind(state, context, (BINDING.kind,)):
        return set()
    return {*index_of(state.plain_resources, NAME_CONFLICTING), *owners_of_foreign(state, context.before)}


def _concerned(
    state: TenantState, by_name: Mapping[str, Place], met: Collection[UUID], context: Context
) -> Collection[PlainResource]:
    """Bindings that exist and of which something differs that their rules read.

    This is the binding itself, another binding of the same pair, the objects of its environment, or who has the names
    of its deployments.
    """
    rows, before = state.plain_resources_of_kind(BINDING.kind), context.before
    if not context.is_known:
        return [row for row in rows.values() if row.present]
    changed = set(differing(state.plain_resources, before.plain_resources))
    pairs = {
        bound_pair(of, each)
        for of in (state, before)
        for subject in changed
        if (each := of.plain_resources.get(subject)) is not None and each.kind == BINDING.kind
    }
    then = places(before, context) if differs_by_kind(state, context, environments.LOOKED_AT) else by_name
    moved = {name for name in {*by_name, *then} if _compiled_from(by_name, name) != _compiled_from(then, name)}
    groups = index_of(state.plain_resources, BY_PAIR).items()
    others = (subject for pair, group in groups if pair in pairs or pair[1] in moved for subject in group)
    return [row for subject in {*changed, *met, *others} if (row := rows.get(subject)) is not None and row.present]


def _compiled_from(by_name: Mapping[str, Place], name: str) -> object:
    return by_name[name].compiled_from if name in by_name else None


def _older(state: TenantState, pairs: Iterable[Pair | None]) -> dict[UUID, str]:
    """For each binding of these pairs that is not in force, the name of the one that is."""
    found = (older_in_force(pair, rivals(state, pair)) for pair in pairs if pair is not None)
    return {subject: name for older in found for subject, name in older.items()}


def _outcome(row: PlainResource, by_name: Mapping[str, Place], older: str, context: Context) -> Outcome:
    addresses = context.policy.addresses
    try:
        spec = accept(row, addresses, context.policy.limits)
        labels = metadata_of(row).labels
    except Refused as why:
        return refused(why)
    except Permanent as why:
        return Outcome(None, Problem(INVALID_SPEC.reason, str(why)))
    reported = _reported(row)
    if isinstance(reported, Problem):
        return Outcome(None, reported)
    place = by_name.get(spec.environment, NO_PLACE)
    if place.is_expired:
        return Outcome((), Problem.of(ENVIRONMENT_EXPIRED, environment=spec.environment))
    removal = removal_of(row, context)
    missing = missing_application_problem(spec.application, removal) if removal is not None else None
    if place is not NO_PLACE and place.environment is None and not older:
        return Outcome(None, missing or Problem.of(ENVIRONMENT_INVALID, environment=spec.environment))
    decision = decide(Binding(row.name, spec, reported, place.environment, place.backing, labels, older), addresses)
    children = decision.deployments.values() if decision.deployments is not None else None
    return Outcome(children, missing or decision.problem)


def _reported(row: PlainResource) -> BindingStatus | Problem:
    """What the build service reports about a binding, or what is wrong with that."""
    try:
        return status_of(BindingStatus, row)
    except Permanent as why:
        return Problem.of(INVALID_STATUS, detail=why)
