"""Where each kind lives in the Kubernetes API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from services.common import argocd_names
from services.common.api import names

Manifest = dict[str, Any]
"""A Kubernetes object as JSON."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of object: its group, version, kind and the plural that names it in paths."""

    group: str
    version: str
    kind: str
    plural: str

    @property
    def api_version(self) -> str:
        """``group/version`` as manifests carry it; the core group has no prefix."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """Path of one object, or of the collection if ``name`` is None; every part is percent-encoded."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        parts = ["namespaces", namespace] if namespace else []
        parts += [self.plural, *(part for part in (name, subresource) if part)]
        return "/".join([root, *(quote(part, safe="") for part in parts)])


def _of_the_api(kind: names.KindNames) -> Resource:
    return Resource(names.GROUP, names.VERSION, kind.kind, kind.plural)


GITOPS_DEPLOYMENT = _of_the_api(names.GITOPS_DEPLOYMENT)
MANAGED_ENVIRONMENT = _of_the_api(names.MANAGED_ENVIRONMENT)
REPOSITORY_CREDENTIAL = _of_the_api(names.REPOSITORY_CREDENTIAL)
SYNC_RUN = _of_the_api(names.SYNC_RUN)
CUSTOM_RESOURCES = (GITOPS_DEPLOYMENT, MANAGED_ENVIRONMENT, REPOSITORY_CREDENTIAL, SYNC_RUN)
SECRET = Resource("", "v1", names.SECRET, "secrets")
CONFIG_MAP = Resource("", "v1", "ConfigMap", "configmaps")
APPLICATION = Resource(argocd_names.GROUP, argocd_names.VERSION, argocd_names.APPLICATION, "applications")
APP_PROJECT = Resource(argocd_names.GROUP, argocd_names.VERSION, argocd_names.APP_PROJECT, "appprojects")
LEASE = Resource("coordination.k8s.io", "v1", "Lease", "leases")
NAMESPACE = Resource("", "v1", "Namespace", "namespaces")
CUSTOM_RESOURCE_DEFINITION = Resource(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions"
)
