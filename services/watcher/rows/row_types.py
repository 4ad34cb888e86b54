"""The two types of compiled rows that a watcher writes: statuses of resources, and child objects.

A type says how its messages are decoded. :mod:`row_consumer` and :mod:`delivery` serve both types.
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
    """What rows of all types have."""

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
    """One type of rows."""

    name: str
    """The type's name in metrics and logs."""
    key_subject: str
    """Subject of the key's schema. Keys name the namespace."""
    group_prefix: str
    from_record: Callable[[Mapping[str, Any]], RowT]
    """Raises Poison."""
    require_known: Callable[[RowT], RowT]
    """Returns the row if it can be written. Raises Poison otherwise."""
    at_once: int
    """How many rows of one namespace are written at a time."""
    wave_of: Callable[[RowT], int]
    """The row's wave. A row waits while its namespace has pending rows of lower waves."""

    def consumer_group(self, workspace: str) -> str:
        """The workspace's own consumer group."""
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
