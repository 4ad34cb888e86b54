"""The two sorts of compiled rows that a watcher brings about: the statuses of resources, and child objects.

A sort says how its messages are understood; :mod:`row_consumer` and :mod:`delivery` serve both alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from services.common.messages import WorkspaceObject, WorkspaceResource
from services.common.queueing import UNBOUNDED
from services.watcher.rows.child_manifest import require_known_child, wave_of
from services.watcher.rows.status_writer import require_known_kind


class Row(Protocol):
    """What all of them have."""

    @property
    def workspace(self) -> str: ...  # noqa: D102
    @property
    def namespace(self) -> str: ...  # noqa: D102
    @property
    def kind(self) -> str: ...  # noqa: D102
    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def seen_at(self) -> datetime: ...  # noqa: D102


RowT = TypeVar("RowT", bound=Row)


@dataclass(frozen=True, slots=True)
class RowType(Generic[RowT]):
    """One sort of rows."""

    name: str
    """As metrics and the log call it."""
    key_subject: str
    """Of the schema of its keys, which tell the namespace."""
    group_prefix: str
    from_record: Callable[[Mapping[str, Any]], RowT]
    """Raises Poison."""
    require_known: Callable[[RowT], RowT]
    """Raises Poison if it is none that can be brought about."""
    at_once: int
    """Rows of one namespace that are brought about at the same time."""
    wave_of: Callable[[RowT], int]
    """A row is passed over while its namespace has pending ones of lower waves."""

    def consumer_group(self, workspace: str) -> str:
        """The group is the workspace's own, as its topic is."""
        return f"{self.group_prefix}{workspace}"


STATUSES = RowType(
    "status",
    "gitops.public.workspace_resources.Key",
    "gitops-watcher-",
    WorkspaceResource.from_record,
    require_known_kind,
    at_once=UNBOUNDED,
    wave_of=lambda _row: 0,
)
OBJECTS = RowType(
    "object",
    "gitops.public.workspace_objects.Key",
    "gitops-objects-",
    WorkspaceObject.from_record,
    require_known_child,
    at_once=4,  # of the writers the others serve other namespaces, however many rows this one has
    wave_of=wave_of,
)
