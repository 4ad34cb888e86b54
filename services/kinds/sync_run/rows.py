"""The row of a GitOpsDeploymentSyncRun."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

SyncState = Literal["Waiting", "Running", "Terminating", "Ended", "Refused"]


@dataclass(frozen=True, slots=True)
class SyncRun:
    """The state of a GitOpsDeploymentSyncRun."""

    resource_id: UUID
    deployment_name: str
    """As first seen, because it is immutable."""
    revision: str
    """As first seen; empty: what the deployment tracks."""
    first_version: int
    """Resource version when first seen. It decides whose turn it is among runs of the same second."""
    deployment_id: UUID | None
    """Id of the deployment that it means, whoever has its name by now."""
    sequence: int
    """Increases with each run that is started for a deployment; 0 before the start."""
    state: SyncState
    phase: str
    message: str
    """The engine's message, or why the run was refused."""
    synced_revision: str
    started_at: str
    finished_at: str
