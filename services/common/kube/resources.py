"""Where each kind lives in the Kubernetes API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

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


_GITOPS = ("managed-gitops.redhat.com", "v1alpha1")

GITOPS_DEPLOYMENT = Resource(*_GITOPS, "GitOpsDeployment", "gitopsdeployments")
MANAGED_ENVIRONMENT = Resource(*_GITOPS, "GitOpsDeploymentManagedEnvironment", "gitopsdeploymentmanagedenvironments")
REPOSITORY_CREDENTIAL = Resource(
    *_GITOPS, "GitOpsDeploymentRepositoryCredential", "gitopsdeploymentrepositorycredentials"
)
SYNC_RUN = Resource(*_GITOPS, "GitOpsDeploymentSyncRun", "gitopsdeploymentsyncruns")
SECRET = Resource("", "v1", "Secret", "secrets")
APPLICATION = Resource("argoproj.io", "v1alpha1", "Application", "applications")
APP_PROJECT = Resource("argoproj.io", "v1alpha1", "AppProject", "appprojects")
LEASE = Resource("coordination.k8s.io", "v1", "Lease", "leases")
NAMESPACE = Resource("", "v1", "Namespace", "namespaces")
CUSTOM_RESOURCE_DEFINITION = Resource(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions"
)
