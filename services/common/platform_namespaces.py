"""Namespaces of an engine's own cluster that are the platform's: nothing of a tenant's is deployed there.

``k8s/argocd/rights/boundaries.yaml`` tells the API server the same.
"""

from __future__ import annotations

NAMES = ("gitops-service", "openshift")
PREFIXES = ("kube-", "openshift-")


def is_platform(namespace: str) -> bool:
    """Whether it is the platform's on any cluster; which are an operator's own, a setting says."""
    return namespace in NAMES or namespace.startswith(PREFIXES)
