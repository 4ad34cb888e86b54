"""What is common to all CRs but GitOpsDeployments, and to Secrets: a row that says what was written, and no more.

What follows from it is decided elsewhere, for all of a tenant's resources together.
"""

from __future__ import annotations

from dataclasses import replace

import orjson

from services.common.api import FINALIZER
from services.common.messages import ResourceChanged
from services.planner.canonical import canonical
from services.planner.kinds.bounds import MAX_REFUSAL
from services.planner.kinds.conditions import Refused
from services.planner.kinds.lifecycle import Origin
from services.planner.kinds.names import SECRET, refers_to
from services.planner.rows import Cause, Resource


def changed(known: Resource | None, event: ResourceChanged, origin: Origin, cause: Cause) -> Resource:
    """It exists with this content. ``event`` is not late. Its time moves only if it says something new."""
    seen = Resource(
        id=origin.id,
        tenant_id=origin.tenant_id,
        kind=event.kind,
        source=origin.source,
        name=event.name,
        uid=event.uid,
        resource_version=event.resource_version,
        generation=event.generation,
        epoch=max(known.epoch, event.epoch) if known else event.epoch,
        present=True,
        deleting=event.deleting,
        finalizer=FINALIZER in event.finalizers,
        spec=event.spec,
        omitted=event.spec_omitted.replace("\0", "")[:MAX_REFUSAL],
        refers_to=refers_to(event.kind, event.spec),
        secret_type=event.secret_type.replace("\0", ""),
        created_at=event.created_at,
        target_uid=known.target_uid if known else event.target_uid.replace("\0", ""),
        target_generation=known.target_generation if known else event.target_generation,
        accepted=known.accepted if known else "",
        refusal=known.refusal if known else "",
        over_quota=known.over_quota if known else False,
        held_back_ms=event.held_back_ms,
        seen_at=cause.at,
        trace_id=cause.trace_id,
    )
    if known is None:
        return seen
    if _repeats(known, seen):
        return replace(known, resource_version=seen.resource_version, epoch=seen.epoch)
    return replace(seen, seen_at=known.seen_at, trace_id=known.trace_id) if _content(known) == _content(seen) else seen


def _repeats(known: Resource, seen: Resource) -> bool:
    """A list shows it again. The same version of a Secret is another text each time it is sealed, with the same key."""
    same_version = known.present and known.resource_version == seen.resource_version
    return known.kind == SECRET and same_version and (_is_newer(known, seen) or _key_id(known) == _key_id(seen))


def _is_newer(known: Resource, seen: Resource) -> bool:
    """``known`` was sealed after ``seen``: an old message is being replayed."""
    return known.seen_at > seen.seen_at


def _key_id(resource: Resource) -> str:
    content = orjson.loads(resource.spec)
    return str(content.get("keyId", "")) if isinstance(content, dict) else ""


def _content(resource: Resource) -> tuple[object, ...]:
    return (resource.generation, resource.deleting, resource.present, resource.spec, resource.secret_type)


def eased(known: Resource) -> Resource:
    """What was held back is long past."""
    return replace(known, held_back_ms=0)


def refused(known: Resource, why: Refused | None) -> Resource:
    """With what is wrong with it, or without."""
    text = canonical({"status": why.status, "reason": why.reason, "message": why.message}) if why is not None else ""
    return replace(known, refusal=text)


def refusal_of(known: Resource) -> Refused | None:
    """What is wrong with it; None if nothing is."""
    return Refused(**orjson.loads(known.refusal)) if known.refusal else None
