"""How far a GitOpsDeploymentSyncRun has come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

SyncState = Literal["Waiting", "Running", "Terminating", "Ended", "Refused"]


@dataclass(frozen=True, slots=True)
class SyncRun:
    """How far a GitOpsDeploymentSyncRun has come."""

    resource_id: UUID
    deployment_name: str
    """As first seen: it is immutable."""
    revision: str
    """As first seen; empty: what the deployment tracks."""
    first_version: int
    """Resource version at first sight: decides whose turn it is among runs of the same second."""
    deployment_id: UUID | None
    """Of the deployment it means, from the first sight of that on, whoever bears the name by then."""
    sequence: int
    """Grows with each run that is started for a deployment; 0 before it is started."""
    state: SyncState
    phase: str
    message: str
    """The engine's words, or why it was refused."""
    synced_revision: str
    started_at: str
    finished_at: str
