"""Names of Argo CD's objects, made from ids that the platform owns."""

from __future__ import annotations

from functools import lru_cache
from uuid import UUID

from services.common.argocd_names import CLUSTER_SUFFIX

PROJECT_PREFIX = "app-project-"
CLUSTER_PREFIX = "managed-env-"
REPOSITORY_PREFIX = "repo-cred-"

DATABASE_ID = "databaseID"
"""Label with the id of what an object was made for."""


def project_name(tenant: UUID) -> str:
    """Name of a tenant's AppProject."""
    return f"{PROJECT_PREFIX}{tenant}"


def tenant_of(lane: str) -> UUID | None:
    """The tenant that has this lane; None if it is no tenant's."""
    try:
        return UUID(lane.removeprefix(PROJECT_PREFIX)) if lane.startswith(PROJECT_PREFIX) else None
    except ValueError:
        return None


def cluster_project_name(tenant: UUID) -> str:
    """Name of its AppProject for environments that allow resources outside of namespaces."""
    return f"{PROJECT_PREFIX}{tenant}{CLUSTER_SUFFIX}"


@lru_cache(maxsize=4096)
def cluster_name(environment: UUID | str) -> str:
    """Name of an environment's cluster secret, which is also Argo CD's name of the cluster."""
    return f"{CLUSTER_PREFIX}{environment}"


def repository_name(credential: UUID) -> str:
    """Name of a credential's repository secret."""
    return f"{REPOSITORY_PREFIX}{credential}"


def id_of(name: str) -> UUID | None:
    """Id of the resource that a Secret of Argo CD was made for; None if the name is not one of ours."""
    text = name.removeprefix(CLUSTER_PREFIX).removeprefix(REPOSITORY_PREFIX)[: len(str(UUID(int=0)))]
    try:
        return UUID(text) if text != name[: len(text)] else None
    except ValueError:
        return None
