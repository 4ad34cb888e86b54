"""Bindings whose Application is missing: since when, and when they are deleted because of that.

An Application that is unknown need not be missing: the workspace cluster may not serve the kind, or a planner may have
received the binding first. So it counts as missing only if it existed before, or if others of its namespace are known.
Even that is not enough to delete anything: a watcher first asks the API server for this very Application.

The binding's row stores since when it is missing. A planner whose database was lost begins anew.
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
    """The known Applications of a namespace, by name."""

    present: frozenset[str]
    gone: frozenset[str]
    """Names of those that have just gone."""
    are_all: bool
    """Whether all existing Applications may be expected to be known."""

    def is_missing(self, name: str, *, was_missing: bool) -> bool:
        """Whether there is no Application of this name, as far as that can be known."""
        return name not in self.present and (was_missing or self.are_all or name in self.gone)


def misses_application(row: PlainResource) -> bool:
    """Whether it is a binding whose Application is missing."""
    return row.kind == BINDING.kind and row.present and missed_since(row) is not None


def missed_since(row: PlainResource) -> datetime | None:
    """Since when the Application of a binding is missing; None: it is not."""
    since = remembered(row, MISSED_SINCE)
    return datetime.fromtimestamp(since / 1000, UTC) if isinstance(since, int) else None


def with_missed_since(row: PlainResource, since: datetime | None) -> PlainResource:
    """The row with this time."""
    return with_remembered(row, MISSED_SINCE, int(since.timestamp() * 1000) if since is not None else None)


def missing_application_problem(application: str, removal: datetime) -> Problem:
    """The problem of a binding until it is deleted."""
    return Problem.of(APPLICATION_NOT_FOUND, application=application, time=rfc3339(removal))
