"""Claims and targets: who has which, and what is released, reclaimed and removed. Called by the plan.

All claims and targets of a tenant are decided together, in the tenant's order, by the rules of their kinds: so no two
claims ever get one target. A decision is in the rows of the resources from this plan on (``shared/decided.py``), and a
watcher writes it to the resources themselves (``unowned_objects.py``). Nothing is decided anew unless something differs
that a decision follows from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from services.common.errors import Permanent
from services.common.messages import UnownedKind
from services.kinds.deployment_target.catalogue import NOT_TERMINATED
from services.kinds.deployment_target.model import DEPLOYMENT_TARGET, DeploymentTargetSpec
from services.kinds.deployment_target.rows import BOUND as TARGET_BOUND
from services.kinds.deployment_target.rows import CLAIM_UID, FAILED, PROVISIONED_BY, Target
from services.kinds.deployment_target.rows import FINALIZER as TARGET_FINALIZER
from services.kinds.deployment_target.rules import Claimant, TargetOutcome, target_change, target_outcome
from services.kinds.deployment_target_claim.binder import ClaimOutcome, bind, claim_change
from services.kinds.deployment_target_claim.model import DEPLOYMENT_TARGET_CLAIM, DeploymentTargetClaimSpec
from services.kinds.deployment_target_claim.provisioning import (
    STUCK_AFTER,
    Provisioning,
    SpaceRequest,
    deprovisioning,
    due_at,
    provision,
)
from services.kinds.deployment_target_claim.rows import BOUND, LOST, PENDING, Claim
from services.kinds.deployment_target_claim.rows import FINALIZER as CLAIM_FINALIZER
from services.kinds.deployment_target_class.model import DeploymentTargetClassSpec
from services.kinds.deployment_target_class.rules import named_class
from services.kinds.environment.model import ENVIRONMENT
from services.kinds.shared.decided import Decided
from services.kinds.shared.projection import metadata_of
from services.kinds.shared.resource import Cause, PlainResource
from services.kinds.shared.spec_text import spec_of
from services.kinds.shared.unowned_objects import UnownedObject
from services.kinds.space_request.model import SPACE_REQUEST
from services.planner.domain.appstudio.outcomes import differs_by_kind, is_touched
from services.planner.domain.appstudio.pending_claims import with_pending_claims
from services.planner.domain.appstudio.previews import ended_claims
from services.planner.domain.appstudio.spaces import known_spaces, space_requests, unmade_spaces
from services.planner.domain.planned_tenant import Context, PlannedTenant
from services.planner.domain.state import TenantState
from services.planner.domain.steps.unowned_objects import UnownedRequest, tend_unowned_objects

KINDS = (DEPLOYMENT_TARGET_CLAIM.kind, DEPLOYMENT_TARGET.kind, SPACE_REQUEST.kind)
OWNERS = (DEPLOYMENT_TARGET_CLAIM.kind, DEPLOYMENT_TARGET.kind)
"""On whose behalf something is changed."""


@dataclass(frozen=True, slots=True)
class Known:
    """The claims and targets that there are, by name, as the rules take them, and those that they do not take."""

    claims: Mapping[str, Claim]
    targets: Mapping[str, Target]
    refused: Mapping[str, str]
    """Why, by the uid of the resource."""
    present: Mapping[str, str]
    """Uids of all claims that are there, by name."""
    staying: frozenset[str]
    """Names of those that are not being deleted."""
    classes: Mapping[str, DeploymentTargetClassSpec]
    """Those that some of them name, and that exist."""


def plan_targets(planned: PlannedTenant, context: Context) -> PlannedTenant:
    """The tenant with its claims and targets decided, and with what is to be changed of them."""
    cause, state = planned.last_cause, planned.state
    if cause is None or not _is_concerned(planned, context):
        return planned
    if state.tenant.is_former:
        return planned.with_state(state.without_pending_claims(*state.pending_claims))
    rows = _rows(state)
    known = _known(rows, context)
    outcomes = bind(known.claims.values(), known.targets.values(), known.classes)
    spaces = known_spaces(rows, known.claims)
    wanted = _provisioning(known, outcomes, spaces, cause.at)
    errors = {**unmade_spaces(wanted, rows, state, cause.at), **(wanted.errors or {})}
    outcomes = {name: _with_error(each, errors.get(name, "")) for name, each in outcomes.items()}
    owners = {outcome.target: name for name, outcome in outcomes.items() if outcome.phase == BOUND}
    targets = {name: _target_outcome(each, owners, known, spaces, cause) for name, each in known.targets.items()}
    decided = [
        _with_decision(row, known, outcomes, targets, spaces) if row.kind != SPACE_REQUEST.kind else row for row in rows
    ]
    state = with_pending_claims(state.with_plain_resources(*decided), decided, outcomes, known.classes)
    waiting = {name for name, each in outcomes.items() if each.phase == PENDING}
    planned = _with_due_times(planned.with_state(state), decided, spaces, waiting, cause)
    left = {space.claim for space in spaces if space.name in wanted.removed}
    requests = [
        *_claim_requests(decided, known, outcomes, left, ended_claims(planned.state)),
        *space_requests(wanted, decided, spaces),
        *_target_requests(decided, known, targets),
        *_refused_requests(decided, known),
    ]
    return tend_unowned_objects(planned, OWNERS, requests, cause, context)


class ClaimBacking(NamedTuple):
    """What an environment gets of the claim that it names."""

    phase: str | None
    """None: there is no such claim."""
    target: DeploymentTargetSpec | None = None
    """The one that it has."""
    secret_type: str = ""
    """Of the Secret that opens it, as far as it was told."""
    secret_version: str = ""
    """Likewise; empty: it was not told whether there is one."""


def claim_backing(state: TenantState, name: str) -> ClaimBacking:
    """As it was decided, by ``plan_targets``."""
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
    rows = state.plain_resources_of_kind(kind).values()
    return next((each for each in rows if each.present and each.name == name), None)


def _is_concerned(planned: PlannedTenant, context: Context) -> bool:
    return differs_by_kind(planned.state, context, (*KINDS, ENVIRONMENT.kind)) or is_touched(planned, KINDS)


def _rows(state: TenantState) -> list[PlainResource]:
    """Those that exist."""
    return [each for kind in KINDS for each in state.plain_resources_in_order(kind) if each.present]


def _known(rows: Iterable[PlainResource], context: Context) -> Known:
    claims: dict[str, Claim] = {}
    targets: dict[str, Target] = {}
    refused: dict[str, str] = {}
    for row in rows:
        if row.kind == SPACE_REQUEST.kind:
            continue
        is_claim = row.kind == DEPLOYMENT_TARGET_CLAIM.kind
        if row.over_quota:
            refused[row.uid] = context.policy.limits.message(row.kind)
            continue
        try:
            if is_claim:
                claims[row.name] = _claim(row)
            else:
                targets[row.name] = _target(row)
        except Permanent as error:
            refused[row.uid] = str(error)
    there = [row for row in rows if row.kind == DEPLOYMENT_TARGET_CLAIM.kind]
    staying = frozenset(row.name for row in there if row.is_active)
    return Known(claims, targets, refused, {row.name: row.uid for row in there}, staying, _classes(rows))


def _claim(row: PlainResource) -> Claim:
    """Raises Permanent if it is not valid."""
    return Claim(
        name=row.name,
        uid=row.uid,
        created_at=row.created_at,
        spec=spec_of(DeploymentTargetClaimSpec, row),
        annotations=metadata_of(row).annotations,
        given=Decided.of(row).other,
        deleting=row.deleting,
    )


def _target(row: PlainResource) -> Target:
    """Likewise. A claim that it was given to has it, or had it until it is deleted, though it may not say so yet.

    One that only recalls that it was bound, because the database was lost, is kept for the claim that it names. That
    may be told of later: nothing is released, or even deleted, for want of what nobody has told yet.
    """
    spec, decided = spec_of(DeploymentTargetSpec, row), Decided.of(row)
    phase = "" if decided.phase == TARGET_BOUND and not decided.other else decided.phase
    given = spec.model_copy(update={"claim_ref": decided.other}) if decided.other else spec
    said = _annotations(row)
    return Target(row.name, given, phase, row.deleting, row.uid, said.get(CLAIM_UID, ""), said.get(PROVISIONED_BY, ""))


def _annotations(row: PlainResource) -> Mapping[str, str]:
    """Those that are too long say nothing."""
    try:
        return metadata_of(row).annotations
    except Permanent:
        return {}


def _classes(rows: Iterable[PlainResource]) -> dict[str, DeploymentTargetClassSpec]:
    """Of each the newest that some resource was told of."""
    newest: dict[str, tuple[int, DeploymentTargetClassSpec]] = {}
    for row in rows:
        found = named_class(row.named_class) if row.named_class else None
        if found is not None and (row.refers_to not in newest or newest[row.refers_to][0] < found.version):
            newest[row.refers_to] = found
    return {name: spec for name, (_, spec) in newest.items()}


def _provisioning(
    known: Known, outcomes: Mapping[str, ClaimOutcome], spaces: Iterable[SpaceRequest], now: datetime
) -> Provisioning:
    """By what is known: a SpaceRequest of a claim and a target that nobody has told of is left alone."""
    standing = {name: claim for name, claim in known.claims.items() if not claim.deleting}
    told = [each for each in spaces if each.claim in known.claims or each.target in known.targets]
    return provision(standing, outcomes, known.targets, told, known.classes, now)


def _with_error(outcome: ClaimOutcome, error: str) -> ClaimOutcome:
    return replace(outcome, error=error) if error and not outcome.error else outcome


def _with_due_times(
    planned: PlannedTenant,
    rows: Iterable[PlainResource],
    spaces: Iterable[SpaceRequest],
    waiting: Collection[str],
    cause: Cause,
) -> PlannedTenant:
    """Targets and claims are looked at again when what they wait for has lasted for too long.

    That is a namespace that does not go, and one that is not there yet, of the claims in ``waiting``.
    """
    times: dict[tuple[str, str], datetime] = {}
    for space in spaces:
        if space.failing_since is not None and cause.at < space.failing_since + STUCK_AFTER:
            times[DEPLOYMENT_TARGET.kind, space.target] = space.failing_since + STUCK_AFTER
        if space.claim in waiting and (due := due_at(space, cause.at)) is not None:
            times[DEPLOYMENT_TARGET_CLAIM.kind, space.claim] = due
    for row in rows:
        due = times.get((row.kind, row.name))
        if due is not None and (row.deleting or row.kind == DEPLOYMENT_TARGET_CLAIM.kind):
            planned = planned.due_by(row.id, due)
            planned = planned if row.id in planned.touched else planned.touching(row.id, cause)
    return planned


def _target_outcome(
    target: Target, owners: Mapping[str, str], known: Known, spaces: Iterable[SpaceRequest], cause: Cause
) -> TargetOutcome:
    class_ = known.classes.get(target.class_name)
    policy = class_.reclaim_policy if class_ is not None else ""
    return target_outcome(
        target,
        owners.get(target.name, ""),
        policy,
        deprovisioning(target.name, spaces, cause.at),
        _claimant(target, known),
    )


def _claimant(target: Target, known: Known) -> Claimant:
    uid = known.present.get(target.claim)
    if uid is None:
        return Claimant.UNTOLD
    if target.claim_uid not in {"", uid}:
        return Claimant.GONE
    return Claimant.STAYS if target.claim in known.staying else Claimant.GOES


def _with_decision(
    row: PlainResource,
    known: Known,
    outcomes: Mapping[str, ClaimOutcome],
    targets: Mapping[str, TargetOutcome],
    spaces: Iterable[SpaceRequest],
) -> PlainResource:
    """What is refused keeps what was decided of it."""
    before = Decided.of(row)
    if (error := known.refused.get(row.uid)) is not None:
        return before.kept_in(row, error)
    if row.kind == DEPLOYMENT_TARGET.kind:
        outcome = targets[row.name]
        had = known.targets[row.name].claim if outcome.is_deleted and not outcome.unless else ""
        has = outcome.claim if outcome.phase == TARGET_BOUND else had
        stuck = next((space.name for space in spaces if space.target == row.name), "")
        error = NOT_TERMINATED.text(request=stuck) if outcome.phase == FAILED and row.deleting and stuck else ""
        return Decided(outcome.phase, has).kept_in(row, error)
    if row.name not in outcomes:  # it is being deleted
        return before.kept_in(row, "")
    of_claim = outcomes[row.name]
    lost = before.other if of_claim.phase == LOST else ""
    return Decided(of_claim.phase, of_claim.target or lost).kept_in(row, of_claim.error)


def _claim_requests(
    rows: Iterable[PlainResource],
    known: Known,
    outcomes: Mapping[str, ClaimOutcome],
    left: Collection[str],
    ended: Collection[str],
) -> Iterator[UnownedRequest]:
    """``left``: claims for which something was made that is not going yet; ``ended``: those that go."""
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


def _refused_requests(rows: Iterable[PlainResource], known: Known) -> Iterator[UnownedRequest]:
    """What is not taken is not kept: it goes when somebody deletes it."""
    kept = {
        DEPLOYMENT_TARGET_CLAIM.kind: (UnownedKind.CLAIM, CLAIM_FINALIZER),
        DEPLOYMENT_TARGET.kind: (UnownedKind.TARGET, TARGET_FINALIZER),
    }
    for row in rows:
        if row.uid in known.refused and row.deleting:
            kind, finalizer = kept[row.kind]
            yield UnownedRequest(row, UnownedObject(kind, row.name, row.uid, finalizers={finalizer: False}))
