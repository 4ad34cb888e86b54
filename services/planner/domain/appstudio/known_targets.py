"""The claims and targets of a tenant as their rules take them, read from its rows. For ``targets``.

What is not valid, or beyond the quota, is refused: nothing new follows from it. What was decided of it before stays, so
that a claim which had a target when it was refused has it until it is deleted, and the target ends as its class says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from services.common.errors import Permanent
from services.kinds.deployment_target.model import DeploymentTargetSpec
from services.kinds.deployment_target.rows import BOUND as TARGET_BOUND
from services.kinds.deployment_target.rows import CLAIM_UID, FAILED, PROVISIONED_BY, RELEASED, Target
from services.kinds.deployment_target.rules import Claimant
from services.kinds.deployment_target_claim.model import DEPLOYMENT_TARGET_CLAIM, DeploymentTargetClaimSpec
from services.kinds.deployment_target_claim.rows import BOUND, FINALIZER, LOST, Claim
from services.kinds.deployment_target_class.model import DeploymentTargetClassSpec
from services.kinds.deployment_target_class.rules import named_class
from services.kinds.shared.decided import Decided
from services.kinds.shared.limits import Limits
from services.kinds.shared.projection import ProjectedMetadata, metadata_of
from services.kinds.shared.resource import PlainResource
from services.kinds.shared.spec_text import spec_of
from services.kinds.space_request.model import SPACE_REQUEST

GIVEN = frozenset({BOUND, LOST, RELEASED, FAILED})
"""Phases of claims that have or had a target, and of targets that some claim has or had, or that are going."""


@dataclass(frozen=True, slots=True)
class Known:
    """The claims and targets that there are, by name, as the rules take them, and those that they do not take."""

    claims: Mapping[str, Claim]
    targets: Mapping[str, Target]
    refused: Mapping[str, str]
    """Why, by the uid of the resource."""
    beyond_quota: Mapping[str, str]
    """Likewise, of those that are in force all the same: what was decided of them stays, and comes to its end."""
    present: Mapping[str, str]
    """Uids of all claims that are there, by name."""
    staying: frozenset[str]
    """Names of those that are not being deleted."""
    classes: Mapping[str, DeploymentTargetClassSpec]
    """Those that some of them name, and that exist."""


def known_of(rows: Collection[PlainResource], limits: Limits) -> Known:
    """What there is; ``rows``: of a tenant, those of these kinds that exist."""
    claims: dict[str, Claim] = {}
    targets: dict[str, Target] = {}
    refused: dict[str, str] = {}
    beyond_quota = {row.uid: limits.message(row.kind) for row in rows if row.over_quota}
    for row in rows:
        if row.kind == SPACE_REQUEST.kind:
            continue
        is_claim = row.kind == DEPLOYMENT_TARGET_CLAIM.kind
        if row.over_quota and Decided.of(row).phase not in GIVEN:
            refused[row.uid] = beyond_quota[row.uid]
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
    return Known(
        claims,
        targets,
        refused,
        beyond_quota,
        present={row.name: row.uid for row in there},
        staying=staying,
        classes=_classes(rows),
    )


def held_by_refused(rows: Collection[PlainResource], known: Known) -> dict[str, str]:
    """Claims by the name of the target that each has: one that is refused by now has it until it is being deleted."""
    refused = (row for row in rows if row.uid in known.refused and row.kind == DEPLOYMENT_TARGET_CLAIM.kind)
    decided = ((row.name, Decided.of(row)) for row in refused if row.is_active)
    return {each.other: name for name, each in decided if each.phase == BOUND}


def claimant_of(target: Target, known: Known) -> Claimant:
    """How the claim stands that ``target`` is kept for."""
    uid = known.present.get(target.claim)
    if uid is None:
        return Claimant.UNTOLD
    if target.claim_uid not in {"", uid}:
        return Claimant.GONE
    return Claimant.STAYS if target.claim in known.staying else Claimant.GOES


def _claim(row: PlainResource) -> Claim:
    """Raises Permanent if it is not valid. Whether it has our finalizer is told, or else it does not count as kept."""
    told = _metadata(row)
    return Claim(
        name=row.name,
        uid=row.uid,
        created_at=row.created_at,
        spec=spec_of(DeploymentTargetClaimSpec, row),
        annotations=told.annotations,
        given=Decided.of(row).other,
        deleting=row.deleting,
        has_finalizer=FINALIZER in told.finalizers,
    )


def _target(row: PlainResource) -> Target:
    """Likewise. A claim that it was given to has it, or had it until it is deleted, though it may not say so yet.

    One that only recalls that it was bound, because the database was lost, is kept for the claim that it names. That
    may be told of later: nothing is released, or even deleted, for want of what nobody has told yet.
    """
    spec, decided = spec_of(DeploymentTargetSpec, row), Decided.of(row)
    phase = "" if decided.phase == TARGET_BOUND and not decided.other else decided.phase
    given = spec.model_copy(update={"claim_ref": decided.other}) if decided.other else spec
    said = _metadata(row).annotations
    return Target(row.name, given, phase, row.deleting, row.uid, said.get(CLAIM_UID, ""), said.get(PROVISIONED_BY, ""))


def _metadata(row: PlainResource) -> ProjectedMetadata:
    """What is too long says nothing."""
    try:
        return metadata_of(row)
    except Permanent:
        return ProjectedMetadata({}, {}, ())


def _classes(rows: Iterable[PlainResource]) -> dict[str, DeploymentTargetClassSpec]:
    """Of each the newest that some resource was told of."""
    newest: dict[str, tuple[int, DeploymentTargetClassSpec]] = {}
    for row in rows:
        found = named_class(row.named_class) if row.named_class else None
        if found is not None and (row.refers_to not in newest or newest[row.refers_to][0] < found.version):
            newest[row.refers_to] = found
    return {name: spec for name, (_, spec) in newest.items()}
