"""Claims and targets: who has which, and what is released, reclaimed and removed. ``plan.py`` calls this.

All claims and targets of a tenant are decided together, in order, by the rules of their kinds, so no two claims get one
target. The rows of the resources store the decision (``shared/decided.py``), and a watcher writes it to the resources
(``unowned_objects.py``). Decisions are made again only if something differs that they depend on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from services.common.errors import Permanent
from services.common.messages import UnownedKind
from services.kinds.deployment_target.catalogue import NOT_TERMINATED
from services.kinds.deployment_target.model import DEPLOYMENT_TARGET, DeploymentTargetSpec
from services.kinds.deployment_target.rows import BOUND as TARGET_BOUND
from services.kinds.deployment_target.rows import FAILED, Target
from services.kinds.deployment_target.rows import FINALIZER as TARGET_FINALIZER
from services.kinds.deployment_target.rules import TargetOutcome, target_change, target_outcome
from services.kinds.deployment_target_claim.binder import ClaimOutcome, bind, claim_change, is_target_left
from services.kinds.deployment_target_claim.model import DEPLOYMENT_TARGET_CLAIM
from services.kinds.deployment_target_claim.provisioning import (
    STUCK_AFTER,
    Provisioning,
    SpaceRequest,
    deprovisioning,
    due_at,
    orphans_among,
    provision,
)
from services.kinds.deployment_target_claim.rows import BOUND, LOST, PENDING
from services.kinds.deployment_target_claim.rows import FINALIZER as CLAIM_FINALIZER
from services.kinds.deployment_target_claim.waiting import Wait, late_error, with_wait
from services.kinds.environment.model import ENVIRONMENT
from services.kinds.shared.decided import Decided
from services.kinds.shared.resource import Cause, PlainResource
from services.kinds.shared.spec_text import spec_of
from services.kinds.shared.unowned_objects import UnownedObject
from services.kinds.space_request.model import SPACE_REQUEST
from services.planner.domain.appstudio.known_targets import Known, claimant_of, known_of, refused_owners
from services.planner.domain.appstudio.outcomes import differs_by_kind, is_touched
from services.planner.domain.appstudio.pending_claims import awaited_class, with_pending_claims
from services.planner.domain.appstudio.previews import ended_claims
from services.planner.domain.appstudio.spaces import (
    known_spaces,
    orphan_requests,
    refused_targets,
    space_requests,
    unmade_objects,
)
from services.planner.domain.indexed_rows import Groups, index_of
from services.planner.domain.planned_tenant import Context, PlannedTenant
from services.planner.domain.state import TenantState
from services.planner.domain.steps.unowned_objects import UnownedRequest, reconcile_unowned_objects

KINDS = (DEPLOYMENT_TARGET_CLAIM.kind, DEPLOYMENT_TARGET.kind, SPACE_REQUEST.kind)
"""The kinds whose resources are decided, and on whose behalf objects are changed."""
BY_NAME: Groups[PlainResource, tuple[str, str]] = Groups(
    lambda row: (row.kind, row.name) if row.present and row.kind in KINDS else None
)
"""Resources that exist, by kind and name."""


def plan_targets(planned: PlannedTenant, context: Context) -> PlannedTenant:
    """The tenant with its claims and targets decided, and with the changes of objects that follow."""
    cause, state = planned.last_cause, planned.state
    if cause is None or not _is_concerned(planned, context):
        return planned
    if state.tenant.is_former:
        return planned.with_state(state.without_pending_claims(*state.pending_claims))
    rows = _rows(state)
    known = known_of(rows, context.policy.limits)
    outcomes = bind(known.claims.values(), known.targets.values(), known.classes)
    rows = [_with_wait(row, outcomes, known, cause) for row in rows]
    spaces = known_spaces(rows, known.claims, known.targets)
    orphans = orphans_among(spaces, known.present, known.targets, known.classes)
    wanted = _provisioning(known, outcomes, spaces, orphans, cause, context)
    unmade = unmade_objects(wanted, rows, state, cause.at) | refused_targets(wanted, rows, known.refused)
    no_room = dict.fromkeys(wanted.crowded_out, context.policy.limits.message(SPACE_REQUEST.kind))
    late = {row.name: error for row in rows if (error := late_error(row, cause.at))}
    errors = {**unmade, **(wanted.errors or {}), **no_room, **late}
    outcomes = {name: _with_error(each, errors.get(name, "")) for name, each in outcomes.items()}
    owners = refused_owners(rows, known) | {
        outcome.target: name for name, outcome in outcomes.items() if outcome.phase == BOUND
    }
    made_of = _by_target(spaces)
    targets = {name: _target_outcome(each, owners, known, made_of, cause) for name, each in known.targets.items()}
    decided = [
        _with_decision(row, known, outcomes, targets, made_of) if row.kind != SPACE_REQUEST.kind else row
        for row in rows
    ]
    state = with_pending_claims(state.with_plain_resources(*decided), decided, outcomes, known.classes)
    waiting = {name for name, each in outcomes.items() if each.phase == PENDING}
    planned = _with_due_times(planned.with_state(state), decided, spaces, waiting, cause)
    left = {space.claim for space in spaces if space.name in wanted.removed}
    requests = [
        *_claim_requests(decided, known, outcomes, left, ended_claims(planned.state)),
        *space_requests(wanted, decided, spaces),
        *orphan_requests(orphans.values(), decided, known.present, known.targets),
        *_target_requests(decided, known, targets),
        *_refused_requests(decided, known, left),
    ]
    return reconcile_unowned_objects(planned, KINDS, requests, cause, context)


class ClaimBacking(NamedTuple):
    """What an environment gets from the claim that it names."""

    phase: str | None
    """None: there is no such claim."""
    target: DeploymentTargetSpec | None = None
    """The target that the claim has."""
    secret_type: str = ""
    """The type of the Secret that opens the target, if it was reported."""
    secret_version: str = ""
    """The version of that Secret; empty: it was not reported whether there is one."""


def claim_backing(state: TenantState, name: str) -> ClaimBacking:
    """What a claim gives, as ``plan_targets`` decided."""
    claim = _named(state, DEPLOYMENT_TARGET_CLAIM.kind, name)
    if claim is None:
        return ClaimBacking(None)
    decided = Decided.of(claim)
    target = _named(state, DEPLOYMENT_TARGET.kind, decided.other) if decided.phase == BOUND else None
    try:
        spec = spec_of(DeploymentTargetSpec, target) if target is not None else None
    except Permanent:
        spec = None
    if target is None or spec is None:
        return ClaimBacking(decided.phase or PENDING)
    return ClaimBacking(decided.phase or PENDING, spec, target.secret_type, target.secret_version)


def _named(state: TenantState, kind: str, name: str) -> PlainResource | None:
    return next(iter(index_of(state.plain_resources, BY_NAME).get((kind, name), {}).values()), None)


def _is_concerned(planned: PlannedTenant, context: Context) -> bool:
    return differs_by_kind(planned.state, context, (*KINDS, ENVIRONMENT.kind)) or is_touched(planned, KINDS)


def _rows(state: TenantState) -> list[PlainResource]:
    """Resources of these kinds that exist."""
    return [each for kind in KINDS for each in state.plain_resources_in_order(kind) if each.present]


def _provisioning(
    known: Known,
    outcomes: Mapping[str, ClaimOutcome],
    spaces: Collection[SpaceRequest],
    orphans: Collection[str],
    cause: Cause,
    context: Context,
) -> Provisioning:
    """What is to be provisioned for claims that are known. Other SpaceRequests are left alone.

    So is that of a refused claim until the claim is being deleted. All of them use room.
    """
    standing = {name: claim for name, claim in known.claims.items() if not claim.deleting}
    known_claims = {*known.claims, *(known.present.keys() - known.staying)}
    known_for = [
        each
        for each in spaces
        if each.name not in orphans and (each.claim in known_claims or each.target in known.targets)
    ]
    room = context.policy.limits.of(SPACE_REQUEST.kind) - len(spaces)
    return provision(standing, outcomes, known.targets, known_for, known.classes, cause.at, room=room)


def _by_target(spaces: Iterable[SpaceRequest]) -> dict[str, list[SpaceRequest]]:
    """By the name of a target, the SpaceRequests that it was made from."""
    found: dict[str, list[SpaceRequest]] = {}
    for space in spaces:
        found.setdefault(space.target, []).append(space)
    return found


def _with_wait(row: PlainResource, outcomes: Mapping[str, ClaimOutcome], known: Known, cause: Cause) -> PlainResource:
    """The row with the time since when it waits, if it is a claim that waits for a provisioner of others."""
    if row.kind != DEPLOYMENT_TARGET_CLAIM.kind:
        return row
    class_ = awaited_class(outcomes.get(row.name), row.refers_to, known.classes)
    return with_wait(row, class_.provisioner if class_ is not None else "", cause.at)


def _with_error(outcome: ClaimOutcome, error: str) -> ClaimOutcome:
    return replace(outcome, error=error) if error and not outcome.error else outcome


def _with_due_times(
    planned: PlannedTenant,
    rows: Iterable[PlainResource],
    spaces: Iterable[SpaceRequest],
    waiting: Collection[str],
    cause: Cause,
) -> PlannedTenant:
    """The rows of targets and claims with the time at which what they wait for has lasted too long.

    They wait for a namespace that does not go; for one that is not there yet, if the claim is in ``waiting``; or for
    any target of a provisioner of others.
    """
    times: dict[tuple[str, str], datetime] = {}
    for space in spaces:
        if space.failing_since is not None and cause.at < space.failing_since + STUCK_AFTER:
            times[DEPLOYMENT_TARGET.kind, space.target] = space.failing_since + STUCK_AFTER
        if space.claim in waiting and (due := due_at(space, cause.at)) is not None:
            key = (DEPLOYMENT_TARGET_CLAIM.kind, space.claim)
            times[key] = min(due, times.get(key, due))
    for row in rows:
        wait = Wait.of(row) if row.kind == DEPLOYMENT_TARGET_CLAIM.kind else None
        due = wait.late_at if wait is not None and wait.late_at > cause.at else times.get((row.kind, row.name))
        if due is not None and (row.deleting or row.kind == DEPLOYMENT_TARGET_CLAIM.kind):
            planned = planned.due_by(row.id, due)
            planned = planned if row.id in planned.touched else planned.touching(row.id, cause)
    return planned


def _target_outcome(
    target: Target, owners: Mapping[str, str], known: Known, made_of: Mapping[str, list[SpaceRequest]], cause: Cause
) -> TargetOutcome:
    class_ = known.classes.get(target.class_name)
    policy = class_.reclaim_policy if class_ is not None else ""
    return target_outcome(
        target,
        owners.get(target.name, ""),
        policy,
        deprovisioning(target.name, made_of.get(target.name, ()), cause.at),
        claimant_of(target, known),
    )


def _with_decision(
    row: PlainResource,
    known: Known,
    outcomes: Mapping[str, ClaimOutcome],
    targets: Mapping[str, TargetOutcome],
    made_of: Mapping[str, list[SpaceRequest]],
) -> PlainResource:
    """The row with the decision. A refused resource keeps its earlier decision."""
    before, beyond_quota = Decided.of(row), known.beyond_quota.get(row.uid, "")
    if (error := known.refused.get(row.uid)) is not None:
        return before.kept_in(row, error)
    if row.kind == DEPLOYMENT_TARGET.kind:
        outcome = targets[row.name]
        had = known.targets[row.name].claim if outcome.is_deleted and not outcome.unless else ""
        has = outcome.claim if outcome.phase == TARGET_BOUND else had
        stuck = next((space.name for space in made_of.get(row.name, ())), "")
        error = NOT_TERMINATED.text(request=stuck) if outcome.phase == FAILED and row.deleting and stuck else ""
        return Decided(outcome.phase, has).kept_in(row, beyond_quota or error)
    if row.name not in outcomes:  # it is being deleted
        return before.kept_in(row, beyond_quota)
    of_claim = outcomes[row.name]
    lost = before.other if of_claim.phase == LOST else ""
    return Decided(of_claim.phase, of_claim.target or lost).kept_in(row, beyond_quota or of_claim.error)


def _claim_requests(
    rows: Iterable[PlainResource],
    known: Known,
    outcomes: Mapping[str, ClaimOutcome],
    left: Collection[str],
    ended: Collection[str],
) -> Iterator[UnownedRequest]:
    """``left``: claims for which something was made that is not going yet; ``ended``: claims that go."""
    for row in rows:
        if row.kind != DEPLOYMENT_TARGET_CLAIM.kind:
            continue
        if row.name in ended and row.is_active:
            yield UnownedRequest(row, UnownedObject(UnownedKind.CLAIM, row.name, row.uid, is_deleted=True))
            continue
        if row.uid in known.refused:
            continue
        claim = known.claims[row.name]
        yield UnownedRequest(
            row, claim_change(claim, outcomes.get(row.name), known.targets.values(), is_cleaned_up=row.name not in left)
        )


def _target_requests(
    rows: Iterable[PlainResource], known: Known, outcomes: Mapping[str, TargetOutcome]
) -> Iterator[UnownedRequest]:
    for row in rows:
        if row.uid not in known.refused and row.kind == DEPLOYMENT_TARGET.kind:
            yield UnownedRequest(row, target_change(known.targets[row.name], outcomes[row.name]))


def _refused_requests(rows: Iterable[PlainResource], known: Known, left: Collection[str]) -> Iterator[UnownedRequest]:
    """Requests for refused resources: they are not kept alive. A claim goes once what it had is going."""
    for row in rows:
        if row.uid not in known.refused or not row.deleting:
            continue
        if row.kind == DEPLOYMENT_TARGET_CLAIM.kind:
            stays = row.name in left or is_target_left(row.name, known.targets.values())
            wanted = UnownedObject(UnownedKind.CLAIM, row.name, row.uid, finalizers={CLAIM_FINALIZER: stays})
        else:
            wanted = UnownedObject(UnownedKind.TARGET, row.name, row.uid, finalizers={TARGET_FINALIZER: False})
        yield UnownedRequest(row, wanted)
