"""SpaceRequests of the devsandbox provisioner, as the rules take them, and the changes that they want. For ``targets``.

A SpaceRequest is removed because of a claim or target that is known and going: a claim stays until what was made for it
is going. The claim may be gone before that, because a watcher was late, or somebody removed its finalizer. Then the
SpaceRequest is removed unless the API server has the claim, or a target of it: after a database was lost, these may not
have been reported yet.

If a watcher cannot make a SpaceRequest or its target, because the kind is not served or the object is refused, it does
not report that. The row that asks for the object shows how long it has been missing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime

from services.common.errors import Permanent
from services.common.messages import UnownedKind
from services.kinds.deployment_target.model import DEPLOYMENT_TARGET
from services.kinds.deployment_target.rows import Target
from services.kinds.deployment_target_claim.catalogue import (
    MINUTES,
    NOT_MADE,
    SPACE_NOT_READY,
    TARGET_NOT_IN_FORCE,
    TARGET_NOT_MADE,
)
from services.kinds.deployment_target_claim.model import DEPLOYMENT_TARGET_CLAIM
from services.kinds.deployment_target_claim.provisioning import (
    NamespaceAccess,
    Provisioning,
    SpaceRequest,
    possible_targets,
    space_name,
    target_name,
    with_target,
)
from services.kinds.deployment_target_claim.rows import PROVISIONER, Claim
from services.kinds.shared.api_model import ForeignCondition
from services.kinds.shared.incarnation import refusal_of
from services.kinds.shared.projection import metadata_of, status_of
from services.kinds.shared.resource import PlainResource
from services.kinds.shared.unowned_objects import UnownedObject
from services.kinds.space_request.model import CLAIM_LABEL, SPACE_REQUEST, TARGET_LABEL, SpaceRequestStatus
from services.planner.domain.state import TenantState
from services.planner.domain.steps.child_objects import UNSEEN_AFTER
from services.planner.domain.steps.unowned_objects import UnownedRequest

READY, FAILS_TO_TERMINATE = "Ready", "UnableToTerminate"


def known_spaces(
    rows: Iterable[PlainResource], claims: Mapping[str, Claim], targets: Mapping[str, Target]
) -> list[SpaceRequest]:
    """SpaceRequests that were made for claims, with the state that their controller reports."""
    names = {space_name(claim): claim.name for claim in claims.values()}
    spaces = (_space(row, names.get(row.name, "")) for row in rows if row.kind == SPACE_REQUEST.kind)
    return [with_target(space, targets) for space in spaces if space.claim]


def space_requests(
    wanted: Provisioning, rows: Iterable[PlainResource], spaces: Iterable[SpaceRequest]
) -> Iterator[UnownedRequest]:
    """Requests to make, label and delete; each on behalf of the claim, or else the target, that it is for."""
    owners = {(row.kind, row.name): row for row in rows}
    by_name = {space.name: space for space in spaces}
    for order in wanted.requests:
        space = by_name.get(order.name)
        uid = owners[SPACE_REQUEST.kind, order.name].uid if space is not None else ""
        spec = {} if uid else {"tierName": order.tier}
        change = UnownedObject(
            UnownedKind.SPACE_REQUEST, order.name, uid, spec=spec, labels=order.labels, annotations=order.annotations
        )
        yield from _for_owner(owners, order.labels[CLAIM_LABEL], order.labels.get(TARGET_LABEL, ""), change)
    for name in wanted.removed:
        uid, space = owners[SPACE_REQUEST.kind, name].uid, by_name[name]
        change = UnownedObject(UnownedKind.SPACE_REQUEST, name, uid, is_deleted=True)
        yield from _for_owner(owners, space.claim, space.target, change)
    for made in wanted.targets:
        spec = made.spec.model_dump(mode="json", by_alias=True, exclude_none=True)
        change = UnownedObject(UnownedKind.TARGET, made.name, spec=spec, annotations=made.annotations)
        yield from _for_owner(owners, made.spec.claim_ref or "", "", change)


def orphan_requests(
    orphans: Iterable[SpaceRequest],
    rows: Iterable[PlainResource],
    claims: Collection[str],
    targets: Collection[str],
) -> Iterator[UnownedRequest]:
    """The request to delete each, on its own behalf. ``claims`` and ``targets``: names of those that are known."""
    own = {row.name: row for row in rows if row.kind == SPACE_REQUEST.kind}
    for space in orphans:
        claim = {} if space.claim in claims else {DEPLOYMENT_TARGET_CLAIM.kind: (space.claim,)}
        unless = claim | {DEPLOYMENT_TARGET.kind: possible_targets(space, targets)}
        row = own[space.name]
        change = UnownedObject(UnownedKind.SPACE_REQUEST, row.name, row.uid, is_deleted=True, unless=unless)
        yield UnownedRequest(row, change)


def unmade_objects(
    wanted: Provisioning, rows: Iterable[PlainResource], state: TenantState, now: datetime
) -> dict[str, str]:
    """By claim, the message for an object that was asked for and is not there when it is due to be asked for again.

    The claim shows the message until the object is there.
    """
    there = {(row.kind, row.name): row for row in rows}
    errors = {}
    for key, name, error in _orders(wanted):
        claim, asked = there.get((DEPLOYMENT_TARGET_CLAIM.kind, name)), state.child_objects.get(key)
        if claim is None or asked is None or asked.uid or key in there:
            continue
        said = refusal_of(claim)
        if now >= asked.seen_at + UNSEEN_AFTER or (said is not None and said.message == error):
            errors[claim.name] = error
    return errors


def refused_targets(wanted: Provisioning, rows: Iterable[PlainResource], refused: Mapping[str, str]) -> dict[str, str]:
    """By claim, the message for a target that exists and is refused. ``refused``: why, by the uid of the resource."""
    there = {row.name: row.uid for row in rows if row.kind == UnownedKind.TARGET.value}
    reasons = ((made, refused.get(there.get(made.name, ""))) for made in wanted.targets)
    return {
        made.spec.claim_ref or "": TARGET_NOT_IN_FORCE.text(target=made.name, why=why) for made, why in reasons if why
    }


def _orders(wanted: Provisioning) -> Iterator[tuple[tuple[str, str], str, str]]:
    """For each object that shall exist: its kind and name, its claim, and the message if it does not exist."""
    for order in wanted.requests:
        said = SPACE_NOT_READY.text(request=order.name, minutes=MINUTES, why=NOT_MADE)
        yield (UnownedKind.SPACE_REQUEST.value, order.name), order.labels[CLAIM_LABEL], said
    for made in wanted.targets:
        said = TARGET_NOT_MADE.text(target=made.name, minutes=MINUTES)
        yield (UnownedKind.TARGET.value, made.name), made.spec.claim_ref or "", said


def _for_owner(
    owners: Mapping[tuple[str, str], PlainResource], claim: str, target: str, change: UnownedObject
) -> Iterator[UnownedRequest]:
    owner = owners.get(("DeploymentTargetClaim", claim)) or owners.get(("DeploymentTarget", target))
    if owner is not None:
        yield UnownedRequest(owner, change)


def _space(row: PlainResource, claim: str) -> SpaceRequest:
    """``claim``: the claim for which a SpaceRequest of this name is made, whatever its label says."""
    made_at = datetime.fromtimestamp(row.created_at / 1000, UTC)
    try:
        meta, status = metadata_of(row), status_of(SpaceRequestStatus, row)
    except Permanent:
        target = target_name(claim) if claim else ""
        return SpaceRequest(row.name, claim, made_at, target, deleting=row.deleting, going_since=_going_since(row))
    ready = next((each for each in status.conditions or () if each.type == READY), None)
    is_stuck = row.deleting and ready is not None and ready.reason == FAILS_TO_TERMINATE
    return SpaceRequest(
        name=row.name,
        claim=claim or meta.labels.get(CLAIM_LABEL, ""),
        target=meta.labels.get(TARGET_LABEL, ""),
        class_name=meta.annotations.get(PROVISIONER, ""),
        is_ready=ready is not None and ready.status == "True",
        made_at=made_at,
        unready=_reason(ready),
        api_url=status.target_cluster_url,
        accesses=tuple(NamespaceAccess(each.name, each.secret_ref) for each in status.namespace_access or ()),
        deleting=row.deleting,
        going_since=_going_since(row),
        failing_since=_time(ready.last_transition_time, row) if is_stuck and ready is not None else None,
    )


def _going_since(row: PlainResource) -> datetime | None:
    return row.seen_at if row.deleting else None


def _reason(ready: ForeignCondition | None) -> str:
    """The reason and message of a condition."""
    texts = (ready.reason, ready.message) if ready is not None else ()
    return ": ".join(each for each in texts if each)


def _time(text: str | None, row: PlainResource) -> datetime:
    """The time of a condition. If it has none, or one in the future, the time of the last change of its resource."""
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return row.seen_at
    return min(found if found.tzinfo is not None else found.replace(tzinfo=UTC), row.seen_at)
