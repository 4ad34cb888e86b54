"""The kinds whose resources the planner knows rules for, and what they name."""

from __future__ import annotations

from typing import Any

import orjson

from services.common.api import names

GITOPS_DEPLOYMENT = names.GITOPS_DEPLOYMENT.kind
MANAGED_ENVIRONMENT = names.MANAGED_ENVIRONMENT.kind
REPOSITORY_CREDENTIAL = names.REPOSITORY_CREDENTIAL.kind
SYNC_RUN = names.SYNC_RUN.kind
SECRET = names.SECRET

RESOURCE_KINDS = frozenset({*(kind.kind for kind in names.NAMES), SECRET} - {GITOPS_DEPLOYMENT})
"""All but GitOpsDeployment."""

_REFERENCE = {kind.kind: kind.reference for kind in names.NAMES if kind.reference}


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
