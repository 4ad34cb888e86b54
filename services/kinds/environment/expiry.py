"""Previews: environments that are deleted, with everything they have deployed, when their time is over.

The time is an annotation, because older clients that write an Environment back would lose an unknown field of the spec.
It counts if nothing about it looks like a mistake. A time before the environment's creation is one: otherwise a preview
that is created again from a repository, with the former one's time, would never exist.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from services.common.errors import Permanent
from services.common.json_values import canonical
from services.common.times import rfc3339
from services.kinds.environment import catalogue as texts
from services.kinds.environment.known import KnownEnvironment
from services.kinds.environment.model import ENVIRONMENT
from services.kinds.shared.conditions import parsed_status
from services.kinds.shared.projection import metadata_of
from services.kinds.shared.reconciled import Problem
from services.kinds.shared.resource import PlainResource

LONGEST = timedelta(days=texts.LONGEST_DAYS)
"""Longest time after the creation of the environment."""

_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)")


def is_preview(row: PlainResource) -> bool:
    """Whether the environment has, or had, a time at which it is over."""
    return row.kind == ENVIRONMENT.kind and row.present and (texts.EXPIRES_AT in row.metadata or bool(row.progress))


def expires_at(row: PlainResource, known: KnownEnvironment) -> datetime | None:
    """When an environment is over; None: it has no such time.

    Raises Permanent, with a message for the user.
    """
    text = metadata_of(row).annotations.get(texts.EXPIRES_AT)
    if text is None:
        return None
    at, created_at = _time(text), datetime.fromtimestamp(row.created_at / 1000, UTC)
    if at is None:
        raise Permanent(texts.NO_TIME)
    if not known.claim_name or known.target_namespace is not None:
        raise Permanent(texts.NO_CLAIM)
    if at <= created_at:
        raise Permanent(texts.TOO_EARLY.format(created_at=rfc3339(created_at)))
    if at > created_at + LONGEST:
        raise Permanent(texts.TOO_LATE.format(created_at=rfc3339(created_at)))
    return at


def expiry_problem(row: PlainResource, known: KnownEnvironment) -> Problem | None:
    """The problem with an environment's time, or that the time is over."""
    try:
        at = expires_at(row, known)
    except Permanent as error:
        return Problem.of(texts.INVALID_EXPIRY, detail=str(error))
    left = remaining_of(row)
    if left is None or at is None:
        return None
    return Problem.of(texts.EXPIRED, time=rfc3339(at), left=left)


def remaining_of(row: PlainResource) -> int | None:
    """How much is left of what an environment has deployed whose time is over; None: its time is not over."""
    left = parsed_status(row.progress).get("remaining") if row.progress else None
    return left if isinstance(left, int) else None


def with_remaining(row: PlainResource, left: int | None) -> PlainResource:
    """The row with what is left."""
    return replace(row, progress=canonical({"remaining": left}) if left is not None else "")


def _time(text: str) -> datetime | None:
    """The time; None: it is invalid, or too far away for some clocks."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC) if _RFC_3339.fullmatch(text) else None
    except (ValueError, OverflowError):
        return None
