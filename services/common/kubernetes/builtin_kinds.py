"""Kinds of others, and their paths in the Kubernetes API."""

from __future__ import annotations

from typing import Any

from services.common import argocd_names
from services.common.api_resource import SECRET, ApiResource

__all__ = [
    "APPLICATION",
    "APP_PROJECT",
    "CONFIG_MAP",
    "CUSTOM_RESOURCE_DEFINITION",
    "DEPLOYMENT",
    "LEASE",
    "NAMESPACE",
    "POD",
    "SECRET",
    "STATEFUL_SET",
    "ApiResource",
    "Manifest",
    "namespace_and_name",
]

Manifest = dict[str, Any]
"""A Kubernetes object as JSON."""

CONFIG_MAP = ApiResource("", "v1", "ConfigMap", "configmaps")
POD = ApiResource("", "v1", "Pod", "pods")
DEPLOYMENT = ApiResource("apps", "v1", "Deployment", "deployments")
STATEFUL_SET = ApiResource("apps", "v1", "StatefulSet", "statefulsets")
APPLICATION = ApiResource(argocd_names.GROUP, argocd_names.VERSION, argocd_names.APPLICATION, "applications")
APP_PROJECT = ApiResource(argocd_names.GROUP, argocd_names.VERSION, argocd_names.APP_PROJECT, "appprojects")
LEASE = ApiResource("coordination.k8s.io", "v1", "Lease", "leases")
NAMESPACE = ApiResource("", "v1", "Namespace", "namespaces")
CUSTOM_RESOURCE_DEFINITION = ApiResource(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions"
)


def namespace_and_name(manifest: Manifest) -> tuple[str, str]:
    """The key of an object among those of its kind."""
    meta = manifest["metadata"]
    return meta.get("namespace", ""), meta["name"]
