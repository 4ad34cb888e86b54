"""The clusters and repositories that a resource needs, in a form for any engine.

Each engine makes its own objects of it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SealedSecret:
    """A sealed Secret that an agent can open."""

    name: str
    version: str
    """The Secret's resourceVersion."""
    sealed: str
    binding: str = ""
    """What the resource may use it for, sealed; empty if no watcher has sent it."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster that the tenant's deployments may use."""

    api_url: str
    skips_tls_verification: bool
    creates_account: bool
    """Whether an agent creates a service account there with the Secret's login, and removes it again."""
    namespaces: tuple[str, ...]
    """Namespaces that deployments may use, sorted; none: all."""
    cluster_resources: bool
    """Whether deployments may have resources outside of namespaces."""
    secret: SealedSecret | None
    """None: the object only serves to find and remove what exists."""


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository that the tenant's deployments may use, and its login."""

    url: str
    secret: SealedSecret | None
    """None: the object only serves to find and remove what exists."""


Connection = Cluster | Repository


@dataclass(frozen=True, slots=True)
class ConnectionInputs:
    """Everything that a resource's connections depend on."""

    spec: str
    """The accepted spec, JSON."""
    secret: SealedSecret | None = None
    """The Secret that it names; None: the connection is about to be removed."""
