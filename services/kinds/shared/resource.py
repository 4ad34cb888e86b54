"""What the rules of all kinds take and return: a resource as it was written, and what was found out about it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

SECRET_ABSENT = "absent"  # noqa: S105 - no password
"""In place of a Secret's version, where there is no such Secret."""


@dataclass(frozen=True, slots=True)
class Cause:
    """The event behind a change: when it happened and which trace it belongs to."""

    at: datetime
    trace_id: str


@dataclass(frozen=True, slots=True)
class Origin:
    """Whose resource an event speaks of and where it was seen."""

    tenant_id: UUID
    source: str
    id: UUID


@dataclass(frozen=True, slots=True)
class Incarnation:
    """One incarnation (uid) of a custom resource or of a Secret: what rows of all kinds have."""

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
    """Its tenant has too much of its kind: nothing new follows from it until there is room."""
    held_back_ms: int
    """How long the watcher held the newest change back."""
    seen_at: datetime
    trace_id: str

    @property
    def is_active(self) -> bool:
        """False once it is deleted or being deleted."""
        return self.present and not self.deleting


@dataclass(frozen=True, slots=True)
class PlainResource(Incarnation):
    """An incarnation of a kind without columns of its own: of any but GitOpsDeployment."""

    kind: str
    spec: str
    """JSON text as the user wrote it; of a Secret its type and its sealed content."""
    omitted: str
    """Why ``spec`` was left out; empty if it is there."""
    refers_to: str
    """Name of the Secret or of the GitOpsDeployment that it names; may be empty."""
    secret_type: str
    """Type of the Secret that it names, as the watcher found it at the last change."""
    secret_binding: str
    """What that Secret may be used for, sealed: see ``secret_binding.py``; empty if no watcher has said."""
    created_at: int
    """Milliseconds since 1970, in whole seconds."""
    target_uid: str
    """Of a sync run: uid of the deployment it names, as the watcher first found it."""
    target_generation: int
    """Its generation then: what the run is meant to sync."""
    accepted: str
    """JSON of the spec that counts: of an environment the one that its recipe was compiled from; empty if none is.

    Of a claim or a target what was decided of it: its phase, and what it has.
    """
    refusal: str
    """JSON of what is wrong with it: status, reason and message of its condition; empty if nothing is."""
    due_at: datetime | None = None
    """When it has to be looked at again, though nothing happens."""
    metadata: str = ""
    """What its kind declares of its metadata: JSON text, which ``projection.py`` reads."""
    metadata_omitted: str = ""
    """Why ``metadata`` was left out; empty if it is there."""
    status: str = ""
    """What its kind declares of the status that other controllers write, likewise. Ours is in no row of this."""
    status_omitted: str = ""
    named_class: str = ""
    """The DeploymentTargetClass that it names, as the watcher found it: JSON of its version and spec; empty: none."""
    progress: str = ""
    """What its kind's rules remember of how far it has come: JSON text of theirs; empty if it has not begun."""
    secret_version: str = ""
    """resourceVersion of the Secret that it names, likewise, or ``SECRET_ABSENT``; empty: it was not told."""


def within_quota(row: PlainResource) -> PlainResource:
    """The row as if there were room for it: what was accepted before it outgrew its quota stays in force."""
    return replace(row, over_quota=False) if row.over_quota else row


@dataclass(frozen=True, slots=True)
class Check:
    """What an agent found when it tried the credentials of a resource."""

    resource_id: UUID
    digest: str
    """Of the compiled manifest that was tried."""
    reason: str
    message: str
    working_spec: str
    """JSON of the spec with which credentials last worked, which an engine holds since; empty if none ever did."""
