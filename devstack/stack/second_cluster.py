"""The second engine cluster of a stack that has two: its names, and where its files are.

Nothing is shared with the first: an etcd, an API server, an Argo CD (real, or the simulator), an agent and sealing keys
of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

NAME = "north"
PREFIX = f"{NAME}-"
"""Of the names of its processes, steps and ports."""
NAMESPACE = f"gitops-service-argocd-{NAME}"
"""Of its one engine instance, and that one's id."""
PRINCIPAL = f"agent-{NAME}"
"""Its agent's, at the brokers."""
KUBECONFIG_VARIABLE = f"{NAME.upper()}_KUBECONFIG"
"""In what an operator is told."""
MOST_ENGINE_CLUSTERS = 2

CONTROL_PLANE = tuple(f"{PREFIX}{each}" for each in ("etcd", "kube-apiserver", "kube-controller-manager"))
"""Its processes, in the order in which they start."""
SERVICES = ("agent", "argocd-simulator")
"""Those that come to its API server."""
ARGOCD_PORTS = tuple(
    f"{PREFIX}argocd-{part}"
    for part in ("redis-1", "repo-server-1", "repo-server-1-metrics", "application-controller-1")
)
"""Of its real Argo CD."""
PORTS = (f"{PREFIX}etcd-peer", *CONTROL_PLANE, *(f"{PREFIX}{service}" for service in SERVICES), *ARGOCD_PORTS)
"""All of them by name."""


@dataclass(frozen=True)
class SecondCluster:
    """Its files."""

    folder: Path

    @property
    def kubeconfig(self) -> Path:
        """Its administrator's."""
        return self.folder / "kubeconfig"

    @property
    def private_keys(self) -> Path:
        """What its agent opens Secrets with."""
        return self.folder / "sealing-private.json"

    def kubeconfig_of(self, service: str) -> Path:
        """Credentials of one of :data:`SERVICES`."""
        return self.folder / f"{service}.kubeconfig"


def token_name(service: str) -> str:
    """Of the secret that is the token of a service there."""
    return f"token-{PREFIX}{service}"


def secret_names() -> tuple[str, ...]:
    """What a stack has to make up for it."""
    return (f"{NAME}_admin_token", f"kafka-{PRINCIPAL}", token_name("argocd-1"), *map(token_name, SERVICES))
