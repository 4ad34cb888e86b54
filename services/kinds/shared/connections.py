"""What a resource wants an engine to hold, in words that every engine knows: each makes its own objects of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SealedSecret:
    """A sealed Secret, as an agent can open it."""

    name: str
    version: str
    """Its resourceVersion."""
    sealed: str
    binding: str = ""
    """What the resource may use it for, sealed; empty if no watcher has said."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster that the tenant's deployments may go to."""

    api_url: str
    skips_tls_verification: bool
    creates_account: bool
    """An agent makes a service account there, and removes it again, with the login in the Secret."""
    namespaces: tuple[str, ...]
    """Those that deployments may go to, sorted; none: all of them."""
    cluster_resources: bool
    """Deployments may have resources outside of namespaces."""
    secret: SealedSecret | None
    """None: the object is only good to be found and removed."""


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository that the tenant's deployments may use, and the login to it."""

    url: str
    secret: SealedSecret | None
    """As above."""


Connection = Cluster | Repository


@dataclass(frozen=True, slots=True)
class ConnectionInputs:
    """All that the wishes of a resource follow from."""

    spec: str
    """As it was accepted, JSON."""
    secret: SealedSecret | None = None
    """The one that it names; None: what is wanted is about to be removed."""
