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
"""Reclaim policy: a target is deleted with its claim. With any other policy, and if its class is gone, it stays."""


@dataclass(frozen=True, slots=True)
class TargetOutcome:
    """The desired state of a target."""

    phase: str
    claim: str
    """The desired claimRef; empty: none."""
    has_finalizer: bool = True
    is_deleted: bool = False
    """Whether it should be deleted, unless it is being deleted."""
    unless: str = ""
    """Name of a claim; if it exists, the target is not deleted."""


@dataclass(frozen=True, slots=True)
class Deprovisioning:
    """Progress of the deletion of the namespace that was made for a target."""

    exists: bool = False
    is_stuck: bool = False
    """Whether its deletion has failed for too long."""


class Claimant(Enum):
    """State of the claim that a target is reserved for."""

    STAYS = auto()
    GOES = auto()
    """The claim is being deleted."""
    UNKNOWN = auto()
    """The claim is unknown: it is gone, or yet to come."""
    GONE = auto()
    """Another claim has its name."""


def target_outcome(target: Target, owner: str, policy: str, space: Deprovisioning, claimant: Claimant) -> TargetOutcome:
    """The desired state of ``target``.

    Args:
        target: as it is.
        owner: name of the claim that the binder has given it to; empty: none.
        policy: the reclaim policy of its class; empty if there is no such class.
        space: what was made for it.
        claimant: state of the claim that its claimRef names.
    """
    is_released = _is_released(target, claimant)
    if target.deleting:
        return _deleting(target, policy, space, is_released=is_released)
    if owner:
        return TargetOutcome(BOUND, owner)
    if is_released:
        return TargetOutcome(RELEASED, "", is_deleted=policy == DELETE)
    if policy == DELETE and claimant in {Claimant.UNKNOWN, Claimant.GONE} and _came_too_late(target):
        unless = target.claim if claimant is Claimant.UNKNOWN else ""
        return TargetOutcome(AVAILABLE, target.claim, is_deleted=True, unless=unless)
    phase = target.phase if target.phase in {RELEASED, FAILED} else AVAILABLE
    return TargetOutcome(phase, target.claim)


def target_change(target: Target, outcome: TargetOutcome) -> UnownedObject:
    """The change that gives the target its desired state."""
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
    """A target to delete. If the namespace that was made for it should be deleted, too, that goes first."""
    stays = policy == DELETE and space.exists
    phase = RELEASED if is_released else target.phase or AVAILABLE
    return TargetOutcome(
        FAILED if stays and space.is_stuck else phase, "" if is_released else target.claim, has_finalizer=stays
    )


def _came_too_late(target: Target) -> bool:
    """Whether the planner has made it for a claim that may have gone before it existed.

    The namespace of such a target is deleted with that claim, so nobody else can use the target. Other provisioners
    reclaim their own targets.
    """
    return target.provisioned_by == DEVSANDBOX and bool(target.claim) and target.phase in {"", AVAILABLE}


def _is_released(target: Target, claimant: Claimant) -> bool:
    """Whether it was bound, and its claim is going or gone. A target reserved for a future claim was never bound."""
    return bool(target.claim) and target.phase in {BOUND, RELEASED, FAILED} and claimant is not Claimant.STAYS
