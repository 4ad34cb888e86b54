"""The Kubernetes API for watchers and agents: a thin asynchronous client, and a stream of lists and watches.

Configuration, authentication and TLS are those of the official ``kubernetes`` package. Requests go through aiohttp with
orjson, because the package's generated methods use several times the CPU of the request itself.
"""

from services.common.kubernetes.access import Access, ForbiddenGrace, require_access, startup_error
from services.common.kubernetes.api_errors import (
    AlreadyExists,
    Conflict,
    Expired,
    NamespaceTerminating,
    NotFound,
    Rejected,
    ServerFailed,
    Unauthenticated,
)
from services.common.kubernetes.builtin_kinds import (
    APP_PROJECT,
    APPLICATION,
    CONFIG_MAP,
    DEPLOYMENT,
    LEASE,
    NAMESPACE,
    POD,
    SECRET,
    STATEFUL_SET,
    ApiResource,
    Manifest,
    namespace_and_name,
)
from services.common.kubernetes.client import KubeClient, connect
from services.common.kubernetes.informer import Informer, ObjectStore
from services.common.kubernetes.lease import Election
from services.common.kubernetes.reflector import (
    MISSING_SECONDS,
    Changed,
    Deleted,
    ListCompleted,
    ListStarted,
    Reflection,
    Restored,
    Seen,
    reflect,
)

__all__ = [
    "APPLICATION",
    "APP_PROJECT",
    "CONFIG_MAP",
    "DEPLOYMENT",
    "LEASE",
    "MISSING_SECONDS",
    "NAMESPACE",
    "POD",
    "SECRET",
    "STATEFUL_SET",
    "Access",
    "AlreadyExists",
    "ApiResource",
    "Changed",
    "Conflict",
    "Deleted",
    "Election",
    "Expired",
    "ForbiddenGrace",
    "Informer",
    "KubeClient",
    "ListCompleted",
    "ListStarted",
    "Manifest",
    "NamespaceTerminating",
    "NotFound",
    "ObjectStore",
    "Reflection",
    "Rejected",
    "Restored",
    "Seen",
    "ServerFailed",
    "Unauthenticated",
    "connect",
    "namespace_and_name",
    "reflect",
    "require_access",
    "startup_error",
]
