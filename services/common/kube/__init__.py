"""The Kubernetes API as both edges use it: a thin asynchronous client and a list+watch stream.

Configuration, authentication and TLS are kubernetes_asyncio's; requests go through its aiohttp session with
orjson, because its generated methods spend several times the CPU of the request itself.
"""

from services.common.kube.client import KubeClient, connect
from services.common.kube.errors import (
    AlreadyExists,
    Conflict,
    Expired,
    NotFound,
    Refused,
    ServerFailed,
    Unauthenticated,
)
from services.common.kube.lease import Election
from services.common.kube.reflector import (
    Changed,
    ListCompleted,
    ListStarted,
    Reflection,
    Removed,
    Seen,
    reflect,
)
from services.common.kube.resources import (
    APP_PROJECT,
    APPLICATION,
    CONFIG_MAP,
    CUSTOM_RESOURCES,
    GITOPS_DEPLOYMENT,
    LEASE,
    MANAGED_ENVIRONMENT,
    NAMESPACE,
    REPOSITORY_CREDENTIAL,
    SECRET,
    SYNC_RUN,
    Manifest,
    Resource,
)

__all__ = [
    "APPLICATION",
    "APP_PROJECT",
    "CONFIG_MAP",
    "CUSTOM_RESOURCES",
    "GITOPS_DEPLOYMENT",
    "LEASE",
    "MANAGED_ENVIRONMENT",
    "NAMESPACE",
    "REPOSITORY_CREDENTIAL",
    "SECRET",
    "SYNC_RUN",
    "AlreadyExists",
    "Changed",
    "Conflict",
    "Election",
    "Expired",
    "KubeClient",
    "ListCompleted",
    "ListStarted",
    "Manifest",
    "NotFound",
    "Reflection",
    "Refused",
    "Removed",
    "Resource",
    "Seen",
    "ServerFailed",
    "Unauthenticated",
    "connect",
    "reflect",
]
