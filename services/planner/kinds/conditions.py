"""Conditions of a CR's status as this API has always written them: a condition that once was never disappears."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

Condition = dict[str, Any]
Holding = Mapping[str, tuple[str, str]]
"""Reason and message of each condition that holds, by type."""

MAX_MESSAGE = 32768

UNKNOWN = "an unknown error occurred"
"""For whatever users cannot mend."""


def merged(previous: Iterable[Condition], holding: Holding, at: datetime) -> list[Condition]:
    """The conditions of the next status, in a stable order: known ones first, then new ones as they come.

    What holds is True; what was there and holds no longer is False, reason ``<type>Resolved``, without a message.
    ``lastTransitionTime`` moves when status, reason or message do.
    """
    known = {condition["type"]: condition for condition in previous}
    now = timestamp(at)
    types = [*known, *(type_ for type_ in holding if type_ not in known)]
    return [_condition(known.get(type_), type_, holding.get(type_), now) for type_ in types]


def probed(conditions: Iterable[Condition], at: datetime) -> list[Condition]:
    """The same conditions, as written at ``at``."""
    return [condition | {"lastProbeTime": timestamp(at)} for condition in conditions]


def timestamp(at: datetime) -> str:
    """RFC 3339 in whole seconds, as Kubernetes writes times."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _condition(known: Condition | None, type_: str, holds: tuple[str, str] | None, now: str) -> Condition:
    reason, message = holds or (f"{type_}Resolved", "")
    content = {
        "type": type_,
        "status": "True" if holds else "False",
        "reason": reason,
        "message": message[:MAX_MESSAGE],
    }
    if known is not None and all(known.get(name) == value for name, value in content.items()):
        return known
    probe = known.get("lastProbeTime", now) if known is not None else now
    return content | {"lastTransitionTime": now, "lastProbeTime": probe}
