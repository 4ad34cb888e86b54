"""The life of any CR, from its first sight until it is gone: which events count, and what they mean.

Called by the plan for each event. Every function takes the row as it is and returns the row as it shall be.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar
from uuid import UUID

from services.common.messages import ResourceChanged
from services.planner.rows import Cause, Deployment, Resource

IncarnationT = TypeVar("IncarnationT", Deployment, Resource)


@dataclass(frozen=True, slots=True)
class Origin:
    """Whose CR an event speaks of and where it was seen."""

    tenant_id: UUID
    source: str
    id: UUID


def is_late(event: ResourceChanged, known: Deployment | Resource) -> bool:
    """``event`` is older than what is known of this name, or repeats what was known of a CR that a list lacked.

    What was swept and is seen again in the same epoch was swept wrongly: the list began before it was created.

    A newer epoch overrides the order of versions: after a cluster was restored from a backup versions start lower.
    """
    if event.epoch > known.epoch:
        return False
    version, newest = version_order(event.resource_version), version_order(known.resource_version)
    repeats = version == newest and event.uid == known.uid and not known.present and event.epoch < known.epoch
    return version < newest or repeats


def version_order(resource_version: str) -> int:
    """Kubernetes' resource versions are decimal and grow; anything else has no order."""
    return int(resource_version) if resource_version.isascii() and resource_version.isdecimal() else 0


def gone(known: IncarnationT, resource_version: str, cause: Cause) -> IncarnationT:
    """The CR no longer exists. A uid never returns, so this cannot be late."""
    if not known.present:
        return known
    newest = max(known.resource_version, resource_version, key=version_order)
    since = cause if not known.deleting else Cause(known.seen_at, known.trace_id)
    return replace(known, present=False, resource_version=newest, seen_at=since.at, trace_id=since.trace_id)


def swept(known: IncarnationT, epoch: int, cause: Cause) -> IncarnationT:
    """The CR was not seen in a complete list. If that was wrong, a list of a newer epoch revives it."""
    return replace(gone(known, known.resource_version, cause), epoch=epoch)
