"""What becomes of a DeploymentTarget: bound, released, reclaimed, removed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from services.common.messages import UnownedKind
from services.kinds.deployment_target.rows import AVAILABLE, BOUND, FAILED, FINALIZER, RELEASED, Target
from services.kinds.deployment_target_claim.model import DEPLOYMENT_TARGET_CLAIM
from services.kinds.deployment_target_class.model import DEVSANDBOX
from services.kinds.shared.unowned_objects import UnownedObject

DELETE = "Delete"
"""Reclaim policy: a target goes with its claim. With every other one, and if its class is gone, it stays."""


@dataclass(frozen=True, slots=True)
class TargetOutcome:
    """What a target shall be."""

    phase: str
    claim: str
    """What its claimRef shall be; empty: it shall have none."""
    has_finalizer: bool = True
    is_deleted: bool = False
    """It is to be deleted, unless it is being deleted already."""
    unless: str = ""
    """Name of the claim for which it is not deleted, if there is that after all."""


@dataclass(frozen=True, slots=True)
class Deprovisioning:
    """How the namespace is going that was made for a target."""

    exists: bool = False
    is_stuck: bool = False
    """It has failed to go for as long as is waited."""


class Claimant(Enum):
    """How the claim stands that a target is kept for."""

    STAYS = auto()
    GOES = auto()
    """It is being deleted."""
    UNTOLD = auto()
    """Nobody has told of it: it is gone, or yet to come."""
    GONE = auto()
    """Another one has its name."""


def target_outcome(target: Target, owner: str, policy: str, space: Deprovisioning, claimant: Claimant) -> TargetOutcome:
    """What ``target`` shall be.

    Args:
        target: as it is.
        owner: name of the claim that the binder has given it to; empty: to none.
        policy: the reclaim policy of its class; empty if there is no such class.
        space: what was made for it.
        claimant: of the claim that its claimRef names.
    """
    is_released = _is_released(target, claimant)
    if target.deleting:
        return _deleting(target, policy, space, is_released=is_released)
    if owner:
        return TargetOutcome(BOUND, owner)
    if is_released:
        return TargetOutcome(RELEASED, "", is_deleted=policy == DELETE)
    if policy == DELETE and claimant in {Claimant.UNTOLD, Claimant.GONE} and _came_too_late(target):
        unless = target.claim if claimant is Claimant.UNTOLD else ""
        return TargetOutcome(AVAILABLE, target.claim, is_deleted=True, unless=unless)
    phase = target.phase if target.phase in {RELEASED, FAILED} else AVAILABLE
    return TargetOutcome(phase, target.claim)


def target_change(target: Target, outcome: TargetOutcome) -> UnownedObject:
    """How the target comes to be what it shall be."""
    return UnownedObject(
        UnownedKind.TARGET,
        target.name,
        target.uid,
        is_deleted=outcome.is_deleted and not target.deleting,
        unless={DEPLOYMENT_TARGET_CLAIM.kind: (outcome.unless,)} if outcome.unless and not target.deleting else {},
        spec={"claimRef": outcome.claim or None},
        finalizers={FINALIZER: outcome.has_finalizer},
    )


def _deleting(target: Target, policy: str, space: Deprovisioning, *, is_released: bool) -> TargetOutcome:
    """The namespace that was made for it goes first, if it shall go."""
    stays = policy == DELETE and space.exists
    phase = RELEASED if is_released else target.phase or AVAILABLE
    return TargetOutcome(
        FAILED if stays and space.is_stuck else phase, "" if is_released else target.claim, has_finalizer=stays
    )


def _came_too_late(target: Target) -> bool:
    """Whether the planner has made it for a claim that may have gone before it was there.

    What has made it goes with that claim, so nobody else can use it. Others take back themselves what they have made.
    """
    return target.provisioned_by == DEVSANDBOX and bool(target.claim) and target.phase in {"", AVAILABLE}


def _is_released(target: Target, claimant: Claimant) -> bool:
    """It was bound, and its claim goes or is gone. One that is kept for a claim which is yet to come never was."""
    return bool(target.claim) and target.phase in {BOUND, RELEASED, FAILED} and claimant is not Claimant.STAYS
