"""The kinds of resource that the watcher follows. Adding one here is all that this service needs."""

from __future__ import annotations

from services.common.kube import GITOPS_DEPLOYMENT, Resource

KINDS: tuple[Resource, ...] = (GITOPS_DEPLOYMENT,)
BY_NAME = {resource.kind: resource for resource in KINDS}
