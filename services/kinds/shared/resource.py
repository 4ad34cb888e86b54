"""What the rules of all kinds take and return: a resource as written, and what is known of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

SECRET_ABSENT = "absent"  # noqa: S105 - no password
"""The version of a Secret that does not exist."""


@dataclass(frozen=True, slots=True)
class Cause:
    """The event behind a change: when it happened and which trace it belongs to."""

    at: datetime
    trace_id: str


@dataclass(frozen=True, slots=True)
class Origin:
    """The tenant of a resource, and where it was seen."""

    tenant_id: UUID
    source: str
    id: UUID


@dataclass(frozen=True, slots=True)
class Incarnation:
    """One incarnation (uid) of a custom resource or Secret: the columns of all kinds' rows."""

    id: UUID
    tenant_id: UUID
    source: str
    name: str
    uid: str
    resource_version: str
    generation: int
    epoch: int
    present: bool
    deleting: bool
    finalizer: bool
    over_quota: bool
    """Whether its tenant has too many of its kind. Nothing new follows from it until there is room."""
    held_back_ms: int
    """How long the watcher held back the newest change."""
    seen_at: datetime
    trace_id: str

    @property
    def is_active(self) -> bool:
        """False once it is deleted or being deleted."""
        return self.present and not self.deleting


@dataclass(frozen=True, slots=True)
class PlainResource(Incarnation):
    """An incarnation of a kind without its own columns: any but GitOpsDeployment."""

    kind: str
    spec: str
    """JSON text as the user wrote it; for a Secret its type and its sealed content."""
    omitted: str
    """Why ``spec`` was left out; empty if it was not."""
    refers_to: str
    """Name of the Secret or GitOpsDeployment that it names; may be empty."""
    secret_type: str
    """Type of the named Secret, as the watcher found it at the last change."""
    secret_binding: str
    """What that Secret may be used for, sealed: see ``secret_binding.py``; empty if no watcher has sent it."""
    created_at: int
    """Milliseconds since 1970, in whole seconds."""
    target_uid: str
    """For a sync run: uid of the named deployment, as the watcher first found it."""
    target_generation: int
    """That deployment's generation then, which the run should sync."""
    accepted: str
    """JSON of the accepted spec: for an environment the one from which its recipe was compiled; empty if there is none.
    For a claim or target the decision about it: its phase, and what it has."""
    refusal: str
    """JSON of its error: status, reason and message of the condition; empty if there is none."""
    due_at: datetime | None = None
    """When to look at it again without an event."""
    metadata: str = ""
    """Its declared metadata as JSON text, which ``projection.py`` reads."""
    metadata_omitted: str = ""
    """Why ``metadata`` was left out; empty if it was not."""
    status: str = ""
    """The declared status of other controllers as JSON text. No row has our own status."""
    status_omitted: str = ""
    named_class: str = ""
    """The DeploymentTargetClass that it names, as the watcher found it: JSON of its version and spec; empty: none."""
    progress: str = ""
    """The progress that its kind's rules store, as JSON text of their own; empty: not begun."""
    secret_version: str = ""
    """resourceVersion of the named Secret, or ``SECRET_ABSENT``; empty: unknown."""


def within_quota(row: PlainResource) -> PlainResource:
    """The row as if there were room for it. What was accepted before it exceeded its quota stays in force."""
    return replace(row, over_quota=False) if row.over_quota else row


@dataclass(frozen=True, slots=True)
class Check:
    """The result of an agent's check of a resource's credentials."""

    resource_id: UUID
    digest: str
    """Digest of the checked manifest."""
    reason: str
    message: str
    working_spec: str
    """JSON of the spec with which credentials last worked, which an engine has since; empty if none ever did."""
