"""What tenants' resources point to: the cluster of environments, repositories, and what opens them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import yaml

KUBECONFIG = "kubeconfig"
"""Name of the Secret of a tenant's environments, and of the targets that its users make."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What users' resources point to."""

    prefix: str
    """Of tenants' namespaces."""
    cluster: str
    """URL of the API server that environments are of."""
    authority: str
    """Its certificate, base64 of PEM."""
    tokens: tuple[str, ...]
    """That it knows."""
    repositories: tuple[str, ...]
    """URLs, with ``{namespace}`` for the tenant's."""
    private: tuple[str, ...]
    """URLs of repositories that credentials are for, with ``{username}`` for the tenant's where they are of ssh."""
    login: tuple[str, str]
    """That they accept: how the user names of tenants begin, and their password."""
    key_of: Callable[[str], str]
    """The private key that they accept over ssh, by user name."""

    def namespace(self, tenant: int) -> str:
        """Of a tenant."""
        return f"{self.prefix}-{tenant:03d}"

    def login_of(self, tenant: int) -> tuple[str, str]:
        """User name and password: each tenant has a name of its own, so whose login is where can be told."""
        username, password = self.login
        return f"{username}-{self.namespace(tenant)}", password

    def class_name(self, name: str) -> str:
        """Of a DeploymentTargetClass, which belongs to no namespace: each run has its own."""
        return f"{self.prefix}-{name}"

    def kubeconfig(self, token: str) -> str:
        """What opens the cluster with this token."""
        cluster = {"server": self.cluster, "certificate-authority-data": self.authority}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        return yaml.safe_dump(content)
