"""The kinds whose resources the planner knows rules for, and what they name."""

from __future__ import annotations

from typing import Any

import orjson

GITOPS_DEPLOYMENT = "GitOpsDeployment"
MANAGED_ENVIRONMENT = "GitOpsDeploymentManagedEnvironment"
REPOSITORY_CREDENTIAL = "GitOpsDeploymentRepositoryCredential"
SYNC_RUN = "GitOpsDeploymentSyncRun"
SECRET = "Secret"  # noqa: S105 - a kind

RESOURCE_KINDS = frozenset({MANAGED_ENVIRONMENT, REPOSITORY_CREDENTIAL, SYNC_RUN, SECRET})
"""All but GitOpsDeployment."""

_REFERENCE = {
    MANAGED_ENVIRONMENT: "credentialsSecret",
    REPOSITORY_CREDENTIAL: "secret",
    SYNC_RUN: "gitopsDeploymentName",
}


def refers_to(kind: str, spec: str) -> str:
    """Name of the Secret or GitOpsDeployment that a spec (JSON text) names; empty if it names none."""
    field = _REFERENCE.get(kind)
    if field is None:
        return ""
    try:
        content: Any = orjson.loads(spec)
    except orjson.JSONDecodeError:
        return ""
    name = content.get(field) if isinstance(content, dict) else None
    return name.replace("\0", "") if isinstance(name, str) else ""
