"""The life of a resource, from its first event until it is gone: which events count, and what they mean.

The plan calls it for each event. Every function takes the row as it is and returns the row as it should be. What
follows from a row is decided elsewhere, for all of a tenant's resources together.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import orjson

from services.common.json_values import canonical
from services.common.messages import ResourceChanged
from services.kinds.shared.conditions import Refused
from services.kinds.shared.kind import Kind
from services.kinds.shared.resource import Cause, Incarnation, Origin, PlainResource
from services.kinds.shared.secret_binding import standing_text
from services.kinds.shared.text import MAX_REFUSAL

IncarnationT = TypeVar("IncarnationT", bound=Incarnation)


def is_late(event: ResourceChanged, known: Incarnation) -> bool:
    """Whether ``event`` is older than ``known``, a row of the same name.

    An event of a newer epoch is never late: after a cluster was restored from a backup, versions start lower. An event
    about a resource that a later list lacked is late, whatever its version: a former leader may have seen a version
    that no command had. In the same epoch it is not late: the list began before the resource was created.
    """
    if event.epoch > known.epoch:
        return False
    is_unlisted = event.uid == known.uid and not known.present and event.epoch < known.epoch
    return is_unlisted or version_order(event.resource_version) < version_order(known.resource_version)


def version_order(resource_version: str) -> int:
    """A resource version as a number: versions are decimal and increase. Others count as 0."""
    return int(resource_version) if resource_version.isascii() and resource_version.isdecimal() else 0


def mark_gone(known: IncarnationT, resource_version: str, cause: Cause) -> IncarnationT:
    """The row of a resource that does not exist any more. This event is never late: a uid never returns."""
    if not known.present:
        return known
    newest = max(known.resource_version, resource_version, key=version_order)
    since = cause if not known.deleting else Cause(known.seen_at, known.trace_id)
    return replace(known, present=False, resource_version=newest, seen_at=since.at, trace_id=since.trace_id)


def mark_swept(known: IncarnationT, epoch: int, cause: Cause) -> IncarnationT:
    """The row of a resource that a complete list lacked. If the list was wrong, a newer epoch revives it."""
    return replace(mark_gone(known, known.resource_version, cause), epoch=epoch)


def update_resource(
    kind: Kind, known: PlainResource | None, event: ResourceChanged, origin: Origin, cause: Cause
) -> PlainResource:
    """The row of a resource with this content. ``event`` is not late. The row's time changes only with its content."""
    seen = PlainResource(
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
        finalizer=kind.finalizer in event.finalizers,
        spec=event.spec,
        omitted=_reason(event.spec_omitted),
        refers_to=kind.referenced_by(event.spec),
        secret_type=event.secret_type.replace("\0", ""),
        secret_binding=standing_text(known.secret_binding if known else "", event.secret_binding),
        created_at=event.created_at,
        target_uid=known.target_uid if known else event.target_uid.replace("\0", ""),
        target_generation=known.target_generation if known else event.target_generation,
        accepted=known.accepted if known else _recalled(kind, event),
        refusal=known.refusal if known else "",
        over_quota=known.over_quota if known else False,
        held_back_ms=event.held_back_ms,
        seen_at=cause.at,
        trace_id=cause.trace_id,
        due_at=known.due_at if known else None,
        metadata=event.metadata,
        metadata_omitted=_reason(event.metadata_omitted),
        status=event.status,
        status_omitted=_reason(event.status_omitted),
        named_class=event.named_class,
        progress=_progress(kind, known.progress if known else "", event, cause),
        secret_version=event.secret_version.replace("\0", ""),
    )
    if known is None:
        return seen
    if kind.is_repeat is not None and kind.is_repeat(known, seen):
        return replace(known, resource_version=seen.resource_version, epoch=seen.epoch)
    return replace(seen, seen_at=known.seen_at, trace_id=known.trace_id) if _content(known) == _content(seen) else seen


def _progress(kind: Kind, progress: str, event: ResourceChanged, cause: Cause) -> str:
    """The resource's progress; that of its status if it is ahead, because a database may have been lost."""
    if kind.recalled_progress is None or not event.recalled_status:
        return progress
    return kind.recalled_progress(progress, event.recalled_status, cause.at)


def _content(resource: PlainResource) -> tuple[object, ...]:
    return (
        resource.generation,
        resource.deleting,
        resource.present,
        resource.spec,
        resource.secret_type,
        resource.secret_binding,
        resource.metadata,
        resource.metadata_omitted,
        resource.status,
        resource.status_omitted,
        resource.named_class,
        resource.secret_version,
    )


def _recalled(kind: Kind, event: ResourceChanged) -> str:
    return kind.recall(event.recalled_status) if kind.recall is not None and event.recalled_status else ""


def _reason(omitted: str) -> str:
    """Why something was left out, as rows store it."""
    return omitted.replace("\0", "")[:MAX_REFUSAL]


def clear_throttling(known: IncarnationT) -> IncarnationT:
    """The row after the condition Throttled is no longer shown."""
    return replace(known, held_back_ms=0)


def refuse_resource(known: PlainResource, why: Refused | None) -> PlainResource:
    """The row with the reason ``why`` it is refused; None: it is not refused."""
    text = canonical({"status": why.status, "reason": why.reason, "message": why.message}) if why is not None else ""
    return replace(known, refusal=text)


def refusal_of(known: PlainResource) -> Refused | None:
    """Why the resource is refused; None if it is not."""
    return Refused(**orjson.loads(known.refusal)) if known.refusal else None
