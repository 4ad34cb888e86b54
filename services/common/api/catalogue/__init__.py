"""Every condition that users can meet, by kind: what it looks like, what it means and what to do about it.

The planner takes its texts from here and the documentation for users is written from here, so they cannot differ.
"""

from __future__ import annotations

from collections.abc import Mapping

from services.common.api.catalogue import credential, deployment, environment, sync_run
from services.common.api.catalogue.entry import Entry

CATALOGUE: Mapping[str, tuple[Entry, ...]] = {
    "GitOpsDeployment": deployment.ENTRIES,
    "GitOpsDeploymentManagedEnvironment": environment.ENTRIES,
    "GitOpsDeploymentRepositoryCredential": credential.ENTRIES,
    "GitOpsDeploymentSyncRun": sync_run.ENTRIES,
}
"""In the order in which the documentation lists them."""

__all__ = ["CATALOGUE", "Entry"]
