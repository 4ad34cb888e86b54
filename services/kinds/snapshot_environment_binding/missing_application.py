"""Bindings whose Application is missing: since when, and when they are deleted because of that.

An Application that nobody has told of need not be missing: the workspace cluster may not serve the kind, or a planner
may have heard of the binding first. So one is missed only if it was there before, or if others of its namespace are.
And that is not enough to delete anything: a watcher asks the API server for this very Application before it does.

Since when it is missed is remembered in the row of the binding. A planner whose database was lost begins anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from services.common.times import rfc3339
from services.kinds.shared.reconciled import Problem
from services.kinds.shared.resource import PlainResource
from services.kinds.snapshot_environment_binding.catalogue import APPLICATION_NOT_FOUND
from services.kinds.snapshot_environment_binding.model import BINDING
from services.kinds.snapshot_environment_binding.remembered import remembered, with_remembered

MISSED_SINCE = "applicationMissedSince"
"""Milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class KnownApplications:
    """Those of a namespace, by name, as far as they were told."""

    present: frozenset[str]
    gone: frozenset[str]
    """Were present until now."""
    are_all: bool
    """Whether all that there are may be expected to be known."""

    def is_missing(self, name: str, *, was_missing: bool) -> bool:
        """Whether there is no Application of this name, as far as that can be known."""
        return name not in self.present and (was_missing or self.are_all or name in self.gone)


def misses_application(row: PlainResource) -> bool:
    """Whether it is a binding whose Application is missed."""
    return row.kind == BINDING.kind and row.present and missed_since(row) is not None


def missed_since(row: PlainResource) -> datetime | None:
    """Since when the Application of a binding is missed; None: it is not."""
    since = remembered(row, MISSED_SINCE)
    return datetime.fromtimestamp(since / 1000, UTC) if isinstance(since, int) else None


def with_missed_since(row: PlainResource, since: datetime | None) -> PlainResource:
    """The row that keeps this."""
    return with_remembered(row, MISSED_SINCE, int(since.timestamp() * 1000) if since is not None else None)


def missing_application_problem(application: str, removal: datetime) -> Problem:
    """What a binding says until it is deleted."""
    return Problem.of(APPLICATION_NOT_FOUND, application=application, time=rfc3339(removal))
