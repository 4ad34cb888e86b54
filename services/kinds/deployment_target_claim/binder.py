"""The binder: which claim has which target. All claims of a namespace are decided at once: no two get the same one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from services.common.messages import UnownedKind
from services.kinds.deployment_target.rows import AVAILABLE, RELEASED, Target
from services.kinds.deployment_target.rows import BOUND as TARGET_BOUND
from services.kinds.deployment_target_claim import catalogue as texts
from services.kinds.deployment_target_claim.rows import (
    BIND_COMPLETE,
    BOUND,
    BOUND_BY_CONTROLLER,
    FINALIZER,
    LOST,
    PENDING,
    PROVISIONER,
    TRUE,
    Claim,
)
from services.kinds.shared.unowned_objects import UnownedObject


@dataclass(frozen=True, slots=True)
class ClaimOutcome:
    """The decision about a claim."""

    phase: str
    target: str = ""
    """The target that it has."""
    error: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """The binder's annotations that it should have. Others of these names are removed."""


def bind(claims: Iterable[Claim], targets: Iterable[Target], classes: Collection[str]) -> dict[str, ClaimOutcome]:
    """The outcome of each claim that is not being deleted, by name.

    Claims that were bound before come first, whether or not they show it yet; then those that name a target; then the
    others; among equal ones the oldest.

    Args:
        claims: those of a namespace.
        targets: those of the same namespace.
        classes: names of all DeploymentTargetClasses.
    """
    by_name = {each.name: each for each in sorted(targets, key=lambda each: each.name)}
    outcomes: dict[str, ClaimOutcome] = {}
    taken: set[str] = set()
    waiting = (each for each in claims if not each.deleting)
    for claim in sorted(waiting, key=lambda each: (not each.was_bound, not each.target, each.created_at, each.name)):
        outcome = _outcome(claim, by_name, taken, classes)
        outcomes[claim.name] = outcome
        if outcome.phase == BOUND:
            taken.add(outcome.target)
    return outcomes


def claim_change(
    claim: Claim, outcome: ClaimOutcome | None, targets: Iterable[Target], *, is_cleaned_up: bool = True
) -> UnownedObject:
    """The change that makes the claim show its outcome, and keeps it while needed.

    Args:
        claim: as it is.
        outcome: None if it is being deleted.
        targets: all of its namespace.
        is_cleaned_up: whether what was made for it, and was never its target, is being deleted.
    """
    finalizers = {FINALIZER: not claim.deleting or is_target_left(claim.name, targets) or not is_cleaned_up}
    if outcome is None:
        return UnownedObject(UnownedKind.CLAIM, claim.name, claim.uid, finalizers=finalizers)
    names = (BIND_COMPLETE, BOUND_BY_CONTROLLER, PROVISIONER)
    return UnownedObject(
        UnownedKind.CLAIM,
        claim.name,
        claim.uid,
        spec={"targetName": outcome.target} if outcome.target else {},
        annotations={name: outcome.annotations.get(name) for name in names},
        finalizers=finalizers,
    )


def is_target_left(claim: str, targets: Iterable[Target]) -> bool:
    """Whether a target still names the claim that had it. A claim that is being deleted stays for so long."""
    return any(each.claim == claim and each.phase in {TARGET_BOUND, RELEASED} for each in targets)


def _outcome(
    claim: Claim, targets: Mapping[str, Target], taken: Collection[str], classes: Collection[str]
) -> ClaimOutcome:
    if claim.was_bound:
        return _again(claim, targets, taken)
    if claim.target:
        return _named(claim, targets.get(claim.target), taken)
    found = next((each for each in targets.values() if each.name not in taken and _is_found_by(claim, each)), None)
    if found is not None:
        return _bound(claim, found, {BOUND_BY_CONTROLLER: TRUE})
    if not claim.class_name:
        return ClaimOutcome(PENDING)
    error = "" if claim.class_name in classes else texts.CLASS_NOT_FOUND.text(name=claim.class_name)
    return ClaimOutcome(PENDING, error=error, annotations={PROVISIONER: claim.class_name})


def _again(claim: Claim, targets: Mapping[str, Target], taken: Collection[str]) -> ClaimOutcome:
    """The outcome of a claim that was bound before: bound while its target exists, and again when it comes back."""
    target = targets.get(claim.target) if claim.target else _reserved_for(claim, targets)
    if target is None:
        error = texts.TARGET_LOST.text(target=claim.target or f"{claim.name}-dt")
        return ClaimOutcome(LOST, error=error, annotations=_annotations(claim))
    if target.claim not in {"", claim.name} or target.name in taken:
        return ClaimOutcome(LOST, error=texts.ALREADY_CLAIMED.message, annotations=_annotations(claim))
    return _bound(claim, target, {})


def _reserved_for(claim: Claim, targets: Mapping[str, Target]) -> Target | None:
    return next((each for each in targets.values() if each.claim == claim.name), None)


def _named(claim: Claim, target: Target | None, taken: Collection[str]) -> ClaimOutcome:
    """The outcome of a claim that names its target. A target reserved for the claim need not match otherwise."""
    if target is None or target.deleting:
        return ClaimOutcome(PENDING)
    if target.name in taken or not _may_have(claim, target):
        return ClaimOutcome(PENDING, error=texts.ALREADY_CLAIMED.message)
    if target.claim == claim.name or matches(claim, target):
        return _bound(claim, target, {})
    return ClaimOutcome(PENDING, error=texts.NO_MATCH.message)


def _is_found_by(claim: Claim, target: Target) -> bool:
    """Whether the claim may get a target that it does not name. If one is to be made for it, it waits for that one."""
    is_for_it = target.claim == claim.name if PROVISIONER in claim.annotations else True
    return is_for_it and not target.deleting and matches(claim, target)


def matches(claim: Claim, target: Target) -> bool:
    """Same class, available, with credentials, reserved for no other claim; and the claim wants no other target."""
    credentials = target.spec.kubernetes_credentials
    return (
        target.class_name == claim.class_name
        and target.phase in {"", AVAILABLE}
        and bool(credentials.api_url and credentials.cluster_credentials_secret)
        and _may_have(claim, target)
        and claim.target in {"", target.name}
    )


def _may_have(claim: Claim, target: Target) -> bool:
    """Whether the target is neither reserved for another claim, nor made for one, such as a former one of this name."""
    return target.claim in {"", claim.name} and target.claim_uid in {"", claim.uid}


def _bound(claim: Claim, target: Target, added: Mapping[str, str]) -> ClaimOutcome:
    return ClaimOutcome(BOUND, target.name, annotations={**_annotations(claim), **added})


def _annotations(claim: Claim) -> dict[str, str]:
    """Annotations of a claim that is or was bound: how it was bound, and who makes targets of its class."""
    was_found = BOUND_BY_CONTROLLER in claim.annotations or (bool(claim.given) and not claim.spec.target_name)
    kept = {BOUND_BY_CONTROLLER: TRUE} if was_found else {}
    made = {PROVISIONER: claim.class_name} if PROVISIONER in claim.annotations and claim.class_name else {}
    return {BIND_COMPLETE: TRUE} | kept | made
