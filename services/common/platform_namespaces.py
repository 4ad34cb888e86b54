"""Namespaces of an engine's own cluster that belong to the platform: no tenant's resources are deployed there.

``k8s/argocd/rights/boundaries.yaml`` enforces the same in the API server.
"""

from __future__ import annotations

NAMES = ("gitops-service", "openshift")
PREFIXES = ("kube-", "openshift-")


def is_platform(namespace: str) -> bool:
    """Whether the namespace is the platform's on any cluster. A setting adds an operator's own."""
    return namespace in NAMES or namespace.startswith(PREFIXES)
