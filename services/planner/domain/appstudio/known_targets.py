"""The claims and targets of a tenant as their rules take them, read from its rows. For ``targets``.

One that is invalid, or beyond the quota, is refused: nothing new follows from it. Earlier decisions stay. So a claim
that had a target when it was refused has it until the claim is deleted, and the target ends as its class says.
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
"""Phases of claims that have or had a target, and of targets that a claim has or had, or that are going."""


@dataclass(frozen=True, slots=True)
class Known:
    """The claims and targets of a tenant, by name: those that the rules take, and those that they refuse."""

    claims: Mapping[str, Claim]
    targets: Mapping[str, Target]
    refused: Mapping[str, str]
    """Why each is refused, by the uid of the resource."""
    beyond_quota: Mapping[str, str]
    """Why each that is in force is beyond the quota, by uid. Earlier decisions about it stay, until it ends."""
    present: Mapping[str, str]
    """Uids of all claims that exist, by name."""
    staying: frozenset[str]
    """Names of claims that are not being deleted."""
    classes: Mapping[str, DeploymentTargetClassSpec]
    """The classes that exist and that some of them name."""


def known_of(rows: Collection[PlainResource], limits: Limits) -> Known:
    """The claims and targets in ``rows``, which are all rows of these kinds of a tenant that exist."""
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


def refused_owners(rows: Collection[PlainResource], known: Known) -> dict[str, str]:
    """By name of the target, the claim that has it and is refused. It has the target until it is being deleted."""
    refused = (row for row in rows if row.uid in known.refused and row.kind == DEPLOYMENT_TARGET_CLAIM.kind)
    decided = ((row.name, Decided.of(row)) for row in refused if row.is_active)
    return {each.other: name for name, each in decided if each.phase == BOUND}


def claimant_of(target: Target, known: Known) -> Claimant:
    """State of the claim that ``target`` is reserved for."""
    uid = known.present.get(target.claim)
    if uid is None:
        return Claimant.UNKNOWN
    if target.claim_uid not in {"", uid}:
        return Claimant.GONE
    return Claimant.STAYS if target.claim in known.staying else Claimant.GOES


def _claim(row: PlainResource) -> Claim:
    """Raises Permanent if it is not valid. A claim whose finalizer is not reported counts as one without ours."""
    metadata = _metadata(row)
    return Claim(
        name=row.name,
        uid=row.uid,
        created_at=row.created_at,
        spec=spec_of(DeploymentTargetClaimSpec, row),
        annotations=metadata.annotations,
        given=Decided.of(row).other,
        deleting=row.deleting,
        has_finalizer=FINALIZER in metadata.finalizers,
    )


def _target(row: PlainResource) -> Target:
    """Raises Permanent if it is not valid. A target that was given to a claim is reserved for it.

    After the database was lost, a target that only its own status says was bound is reserved for the claim that it
    names. That claim may be reported later. Nothing is released or deleted because something is not reported yet.
    """
    spec, decided = spec_of(DeploymentTargetSpec, row), Decided.of(row)
    phase = "" if decided.phase == TARGET_BOUND and not decided.other else decided.phase
    given = spec.model_copy(update={"claim_ref": decided.other}) if decided.other else spec
    said = _metadata(row).annotations
    return Target(row.name, given, phase, row.deleting, row.uid, said.get(CLAIM_UID, ""), said.get(PROVISIONED_BY, ""))


def _metadata(row: PlainResource) -> ProjectedMetadata:
    """The metadata; empty if it is too long."""
    try:
        return metadata_of(row)
    except Permanent:
        return ProjectedMetadata({}, {}, ())


def _classes(rows: Iterable[PlainResource]) -> dict[str, DeploymentTargetClassSpec]:
    """For each name, the newest class that some resource was reported with."""
    newest: dict[str, tuple[int, DeploymentTargetClassSpec]] = {}
    for row in rows:
        found = named_class(row.named_class) if row.named_class else None
        if found is not None and (row.refers_to not in newest or newest[row.refers_to][0] < found.version):
            newest[row.refers_to] = found
    return {name: spec for name, (_, spec) in newest.items()}
