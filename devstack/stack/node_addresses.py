"""Networks of the node. They are the same at every start: there is one node on a machine at a time."""

from __future__ import annotations

NAME = "local"
"""Of the node."""

NODE_BRIDGE = "gitops-node"
"""Has no ports; it holds the node's address."""
POD_BRIDGE = "gitops-pods"
"""Made by the CNI plug-in with the first pod."""

NODE = "10.245.0.1"
NODE_NETWORK = "10.245.0.0/24"
PODS = "10.244.0.0/24"
SERVICES = "10.96.0.0/16"
API_SERVER = "10.96.0.1"
"""Of Service ``kubernetes``: the first of the range."""
DNS = "10.96.0.10"

KAFKA, REGISTRY, POSTGRES, CONNECT, GIT = 9093, 8443, 5432, 8083, 3443
"""Where pods find what the stack runs outside the cluster: ports of the node's address, which nobody else has."""

INFRASTRUCTURE = "infrastructure"
"""Namespace of the Services by which pods find it."""


def name_in_cluster(service: str) -> str:
    """The complete name of a Service of that namespace."""
    return f"{service}.{INFRASTRUCTURE}.svc.cluster.local"
