"""Rows of the audit of resources."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

Action = Literal["create", "update", "delete", "reissue"]
AuditState = Literal["Waiting", "Completed", "Failed"]


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """An audit row: one change of one resource."""

    id: UUID
    deployment_id: UUID
    workspace: str
    namespace: str
    kind: str
    name: str
    generation: int
    action: Action
    actor: str
    state: AuditState
    message: str
    trace_id: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class AuditedChange:
    """A change that has an audit row of its own, although a former change may have its id.

    Generations of a resource grow, and its deletion is its last change, unless its API server is restored from a
    backup: then the same generations, and the deletion, come once more.
    """

    id: UUID
    displaced_id: UUID
    """Which the row of a former change gets."""
    deletion_id: UUID | None
    """Of the row of the resource's deletion, if the resource is there and had no row: was it there before?"""


@dataclass(frozen=True, slots=True)
class AuditOutcome:
    """What became of an operation that is still open."""

    id: UUID
    state: AuditState
    message: str
    updated_at: datetime
