"""The devsandbox provisioner: makes a SpaceRequest for each claim that waits for a target, and a target of the result.

Other provisioners are other services. Nothing is done here for their classes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from services.common.json_values import digest
from services.kinds.deployment_target.model import DeploymentTargetSpec
from services.kinds.deployment_target.rows import CLAIM_UID, PROVISIONED_BY, Target
from services.kinds.deployment_target.rules import DELETE, Deprovisioning
from services.kinds.deployment_target_claim import catalogue as texts
from services.kinds.deployment_target_claim.binder import ClaimOutcome
from services.kinds.deployment_target_claim.model import MAX_CLAIM_NAME
from services.kinds.deployment_target_claim.rows import PENDING, PROVISIONER, Claim
from services.kinds.deployment_target_class.model import DEVSANDBOX, DeploymentTargetClassSpec
from services.kinds.shared.text import MAX_LABEL, MAX_NAME, MAX_URL, readable
from services.kinds.space_request.model import CLAIM_LABEL, TARGET_LABEL

TIER = "appstudio-env"
MAX_WHY = 1024
"""Characters of a message about a SpaceRequest."""
STUCK_AFTER = timedelta(minutes=texts.STUCK_MINUTES)
"""For how long a SpaceRequest may fail to terminate."""
READY_WITHIN = timedelta(minutes=texts.MINUTES)
"""After how long a claim says that it waits for a SpaceRequest, or for a provisioner of others."""


@dataclass(frozen=True, slots=True)
class NamespaceAccess:
    """A namespace that the sandbox has made, and the Secret with its credentials."""

    name: str
    secret: str


@dataclass(frozen=True, slots=True)
class SpaceRequest:
    """A SpaceRequest, and what its controller says of it."""

    name: str
    claim: str
    """The claim in its label."""
    made_at: datetime
    target: str = ""
    """The target in its label."""
    class_name: str = ""
    """Class of the claim that it was made for, in its annotation; empty: it is not ours."""
    is_ready: bool = False
    api_url: str = ""
    unready: str = ""
    """Why it is not ready, by its controller."""
    accesses: tuple[NamespaceAccess, ...] = ()
    deleting: bool = False
    failing_since: datetime | None = None
    """Since when its controller reports that its deletion fails."""
    going_since: datetime | None = None
    """Since when it is being deleted, without any other report."""

    @property
    def unfit(self) -> str:
        """Why no target can be made of it; empty: one can. Another controller writes the result."""
        if len(self.accesses) != 1:
            return texts.NOT_ONE_NAMESPACE.text(request=self.name, count=len(self.accesses))
        (access,) = self.accesses
        given = (
            ("namespaceAccess.name", access.name, MAX_LABEL),
            ("namespaceAccess.secretRef", access.secret, MAX_NAME),
            ("targetClusterURL", self.api_url, MAX_URL),
        )
        wrong = ((field, most) for field, text, most in given if not 0 < len(text) <= most)
        return next((texts.SPACE_NOT_FIT.text(request=self.name, field=field, most=most) for field, most in wrong), "")


@dataclass(frozen=True, slots=True)
class SpaceRequestOrder:
    """A desired SpaceRequest."""

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    tier: str = TIER


@dataclass(frozen=True, slots=True)
class TargetOrder:
    """A target to make. It belongs only to its claim, and may outlive it."""

    name: str
    spec: DeploymentTargetSpec
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Provisioning:
    """What the provisioner wants in a namespace."""

    requests: tuple[SpaceRequestOrder, ...] = ()
    """All SpaceRequests that should exist: new ones, and existing ones that stay."""
    removed: tuple[str, ...] = ()
    """Names of the SpaceRequests to delete."""
    targets: tuple[TargetOrder, ...] = ()
    errors: Mapping[str, str] | None = None
    """Errors of what claims wait for, by name of the claim."""
    crowded_out: tuple[str, ...] = ()
    """Names of claims without room for a SpaceRequest."""


def provision(
    claims: Mapping[str, Claim],
    outcomes: Mapping[str, ClaimOutcome],
    targets: Mapping[str, Target],
    requests: Iterable[SpaceRequest],
    classes: Mapping[str, DeploymentTargetClassSpec],
    now: datetime,
    *,
    room: int,
) -> Provisioning:
    """The SpaceRequests and targets of one namespace; everything is given by name.

    A SpaceRequest is made once its claim is known to stay until the SpaceRequest is being deleted, and only if there is
    ``room``: for so many new ones.
    """
    standing = sorted(requests, key=lambda each: each.name)
    removed = tuple(each.name for each in standing if not each.deleting and _goes(each, claims, targets, classes))
    kept = [each for each in standing if each.name not in removed]
    waiting = {
        name: claims[name]
        for name, outcome in sorted(outcomes.items())
        if outcome.phase == PENDING and PROVISIONER in outcome.annotations and _is_ours(claims[name], classes)
    }
    names = {each.name: _made_of(each, claims, outcomes, targets) for each in kept}
    serving = [each for each in kept if each.claim in waiting and _serves(each, waiting[each.claim], targets, names)]
    served = {each.claim for each in serving}
    ready = [each for each in serving if each.is_ready and not each.unfit]
    blocking = [each for each in kept if each.deleting and each.claim in waiting and each.claim not in served]
    asking = [claim for name, claim in waiting.items() if name not in served and space_name(claim) not in names]
    oldest = sorted((each for each in asking if each.has_finalizer), key=lambda each: (each.created_at, each.name))
    return Provisioning(
        requests=(
            *(_standing(each, names[each.name]) for each in kept if not each.deleting),
            *map(_new, oldest[: max(0, room)]),
        ),
        removed=removed,
        targets=tuple(
            _target(waiting[each.claim], each, names[each.name]) for each in ready if names[each.name] not in targets
        ),
        errors={
            **{each.claim: why for each in blocking if (why := _leaving_error(each, waiting[each.claim], now))},
            **{each.claim: why for each in serving if (why := _error(each, names[each.name], targets, now))},
        },
        crowded_out=tuple(each.name for each in oldest[max(0, room) :]),
    )


def orphans_among(
    requests: Iterable[SpaceRequest],
    claims: Mapping[str, str],
    targets: Mapping[str, Target],
    classes: Mapping[str, DeploymentTargetClassSpec],
) -> dict[str, SpaceRequest]:
    """Those whose claim is gone, and which no target has, by name: nobody else would have them removed.

    The name of each tells which of all claims of a name it was. One of which a target was made goes as its class says,
    if that is known; any other one goes.

    Args:
        requests: of one namespace, ``with_target``.
        claims: uids of the claims that are known there, by name.
        targets: those that are known there, by name.
        classes: those that are known, by name.
    """
    of_claims = {_name_for(*each) for each in claims.items()}

    def is_orphan(request: SpaceRequest) -> bool:
        if request.deleting or not request.class_name or request.name in of_claims or request.target in targets:
            return False
        return not request.target or _policy(classes.get(request.class_name)) == DELETE

    return {each.name: each for each in requests if is_orphan(each)}


def with_target(request: SpaceRequest, targets: Mapping[str, Target]) -> SpaceRequest:
    """The request, with the one of ``targets`` that was made of it, if its label does not name that yet.

    That target has one of the possible names, and names the claim whose uid is in the name of ``request``.
    """
    if request.target:
        return request
    mark = _mark_in(request.name)
    there = (targets.get(name) for name in (target_name(request.claim), _other_name(request.claim, mark)))
    made = next((each for each in there if each is not None and _mark(each.claim_uid) == mark), None)
    return replace(request, target=made.name) if made is not None else request


def possible_targets(request: SpaceRequest, targets: Collection[str]) -> tuple[str, ...]:
    """Possible names of the target made of ``request``, if one was made that is not known yet.

    If another one of ``targets``, such as a former claim's, has the first name, it is the second. It may be the second
    in other cases, too, because the owner of the first name may have gone since.
    """
    if request.target:
        return (request.target,)
    first, other = target_name(request.claim), _other_name(request.claim, _mark_in(request.name))
    return (other,) if first in targets else (first, other)


def due_at(request: SpaceRequest, now: datetime) -> datetime | None:
    """When the claim of ``request`` should say that it is not ready, or not going; None: it is, or says so."""
    due = _stuck_at(request) if request.deleting else _late_at(request)
    return due if due is not None and due > now else None


def _late_at(request: SpaceRequest) -> datetime | None:
    return request.made_at + READY_WITHIN if not request.is_ready else None


def _stuck_at(request: SpaceRequest) -> datetime | None:
    since = request.failing_since or request.going_since
    return since + STUCK_AFTER if since is not None else None


def deprovisioning(target: str, requests: Iterable[SpaceRequest], now: datetime) -> Deprovisioning:
    """Progress of the deletion of what was made for ``target``."""
    made = [each for each in requests if each.target == target]
    is_stuck = any(each.failing_since is not None and now >= each.failing_since + STUCK_AFTER for each in made)
    return Deprovisioning(bool(made), is_stuck)


def target_name(claim: str) -> str:
    """Name of the target that is made for a claim."""
    return f"{claim}-dt"


def other_target_name(claim: Claim) -> str:
    """Name of the target if another one, such as a former claim's, has the first name. It fits a label."""
    return _other_name(claim.name, _mark(claim.uid))


def _other_name(claim: str, mark: str) -> str:
    return f"{claim[: MAX_CLAIM_NAME - 6].rstrip('-.')}-dt-{mark}"


def space_name(claim: Claim) -> str:
    """Name of the SpaceRequest for a claim. To make it twice makes one."""
    return _name_for(claim.name, claim.uid)


def _name_for(claim: str, uid: str) -> str:
    return f"{claim}-{_mark(uid)}"


def _mark(uid: str) -> str:
    """A mark of the claim in the names of what is made for it."""
    return digest(uid)[:5]


def _mark_in(request: str) -> str:
    return request.rpartition("-")[2]


def _is_ours(claim: Claim, classes: Mapping[str, DeploymentTargetClassSpec]) -> bool:
    known = classes.get(claim.class_name)
    return known is not None and known.provisioner == DEVSANDBOX


def _goes(
    request: SpaceRequest,
    claims: Mapping[str, Claim],
    targets: Mapping[str, Target],
    classes: Mapping[str, DeploymentTargetClassSpec],
) -> bool:
    """Whether it is deleted: with its target, or with its claim if there was no target. A policy may keep it."""
    target = targets.get(request.target)
    known = classes.get(target.class_name if target else request.class_name)
    is_left = target.deleting if target else request.claim not in claims
    return is_left and _policy(known) == DELETE


def _policy(class_: DeploymentTargetClassSpec | None) -> str:
    return class_.reclaim_policy if class_ is not None else ""


def _new(claim: Claim) -> SpaceRequestOrder:
    return SpaceRequestOrder(space_name(claim), {CLAIM_LABEL: claim.name}, {PROVISIONER: claim.class_name})


def _serves(request: SpaceRequest, claim: Claim, targets: Mapping[str, Target], names: Collection[str]) -> bool:
    """Whether a target is made of it for ``claim``, which waits.

    That is the one of its own name, if there is one. Another one is taken unless it was for a former claim, which has
    left the target that was made of it.

    Args:
        request: one whose label names the claim.
        claim: that waits.
        targets: all, by name.
        names: of all SpaceRequests.
    """
    if request.deleting or request.name == space_name(claim):
        return not request.deleting
    made = targets.get(request.target)
    return space_name(claim) not in names and (made is None or made.claim == claim.name)


def _made_of(
    request: SpaceRequest,
    claims: Mapping[str, Claim],
    outcomes: Mapping[str, ClaimOutcome],
    targets: Mapping[str, Target],
) -> str:
    """Name of the target that is or will be made of ``request``. Once its label names one, it stays."""
    claim, outcome = claims.get(request.claim), outcomes.get(request.claim)
    if request.target or claim is None:
        return request.target or target_name(request.claim)
    names = (target_name(claim.name), other_target_name(claim))
    if outcome is not None and outcome.target in names:
        return outcome.target
    return names[1] if names[0] in targets else names[0]


def _standing(request: SpaceRequest, target: str) -> SpaceRequestOrder:
    made = request.target or (target if request.is_ready and not request.unfit else "")
    labels = {CLAIM_LABEL: request.claim} | ({TARGET_LABEL: made} if made else {})
    return SpaceRequestOrder(request.name, labels, {PROVISIONER: request.class_name} if request.class_name else {})


def _target(claim: Claim, request: SpaceRequest, name: str) -> TargetOrder:
    (access,) = request.accesses
    spec = DeploymentTargetSpec.model_validate(
        {
            "deploymentTargetClassName": claim.class_name,
            "kubernetesCredentials": {
                "defaultNamespace": access.name,
                "apiURL": request.api_url,
                "clusterCredentialsSecret": access.secret,
                "allowInsecureSkipTLSVerify": False,
            },
            "claimRef": claim.name,
        }
    )
    return TargetOrder(name, spec, {PROVISIONED_BY: DEVSANDBOX, CLAIM_UID: claim.uid})


def _leaving_error(request: SpaceRequest, claim: Claim, now: datetime) -> str:
    """The error while a SpaceRequest of the same name is being deleted; empty: none yet."""
    due = _stuck_at(request)
    if request.name != space_name(claim) or due is None or now < due:
        return ""
    return texts.SPACE_NOT_GONE.text(request=request.name, minutes=texts.STUCK_MINUTES, why=_why(request))


def _why(request: SpaceRequest) -> str:
    return readable(request.unready)[:MAX_WHY] or texts.NO_REASON


def _error(request: SpaceRequest, target: str, targets: Mapping[str, Target], now: datetime) -> str:
    """The error of what a claim waits for; empty: none yet."""
    if not request.is_ready:
        is_late = due_at(request, now) is None
        late = texts.SPACE_NOT_READY.text(request=request.name, minutes=texts.MINUTES, why=_why(request))
        return late if is_late else ""
    return request.unfit or (texts.TARGET_NAME_TAKEN.text(target=target) if target in targets else "")
