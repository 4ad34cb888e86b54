"""What operators set for all tenants. Every plan takes it as an argument."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from services.common.addresses import AddressPolicy
from services.common.api_resource import GroupKind
from services.common.platform_namespaces import is_platform
from services.kinds.registry import REGISTRY, Registry
from services.kinds.shared.limits import Limits
from services.planner.domain.fleet.pools.pool_rows import Patience


@dataclass(frozen=True, slots=True)
class SweepGuard:
    """How much a resync may remove: at most ``share`` of what is known in its scope, but always ``minimum``."""

    share: float = 0.5
    minimum: int = 20
    at_once: int = 250
    """Resources that are removed in one transaction. Messages are planned between two of them."""

    def allows(self, removed: int, known: int) -> bool:
        """Whether a resync may remove so many."""
        return removed <= max(self.minimum, self.share * known)


@dataclass(frozen=True, slots=True)
class RemedyPolicy:
    """What planners do for engine instances that are ill, and how long it may take to help."""

    is_on: bool = True
    after: timedelta = timedelta(minutes=1)
    """How long an instance has to be ill before the first remedy."""
    cool_down: timedelta = timedelta(minutes=3)
    """How long a restart may take to help. The times of other remedies are in proportion to it."""
    replace_after: timedelta = timedelta(minutes=10)
    """How long an instance that its tenants have left may take to become healthy, before another one replaces it."""
    recovered_after: timedelta = timedelta(minutes=10)
    """How long an instance has to be healthy until it counts as well. Its cordon is lifted then."""


CONFINING_KINDS = frozenset({GroupKind("", "ResourceQuota"), GroupKind("", "LimitRange")})
"""Kinds of objects that a platform puts into a tenant's namespace to confine it."""


@dataclass(frozen=True, slots=True)
class Policy:
    """See the module."""

    guard: SweepGuard = field(default_factory=SweepGuard)
    kinds: Registry = REGISTRY
    limits: Limits = field(default_factory=REGISTRY.limits)
    addresses: AddressPolicy = field(default_factory=AddressPolicy)
    local_workspaces: Mapping[str, frozenset[str]] = field(default_factory=lambda: {"local": frozenset({"default"})})
    """For each engine cluster, the workspaces whose namespaces are in it. Only their tenants have a namespace there."""
    refused_kinds: frozenset[GroupKind] = CONFINING_KINDS
    """What tenants with a namespace in the engine's cluster may not deploy: an engine, with its rights, would replace
    the platform's objects."""

    move_patience: timedelta = timedelta(minutes=10)
    """How long a step of a tenant's move may take. After that the tenant stays where it is."""
    moves_at_once: int = 5
    """Moves that each engine instance takes part in at a time."""
    moves_yield_above: timedelta = timedelta(seconds=1)
    """How long changes of other tenants may take. If they take longer, fewer tenants are moved at a time."""
    splits_tenants: bool = True
    """Whether a tenant that is too large for one instance gets environments on others."""
    promotes_snapshots: bool = False
    """Whether new Snapshots are promoted automatically."""
    binding_patience: timedelta = timedelta(minutes=3)
    """How long the Application of a binding may be missing. The two may be created in any order."""
    health_patience: timedelta = timedelta(minutes=3)
    """How long an agent may report nothing about an engine instance until its health is unknown."""
    provisioning_patience: timedelta = timedelta(minutes=15)
    """How long an engine instance that was added may take to be ready, with its installation."""
    scaling: Patience = field(default_factory=Patience)
    """How long pools wait before they shrink, and overloaded instances before they are relieved."""
    rollout_interval: timedelta = timedelta(seconds=5)
    """How often the rollout is planned."""

    remedies: RemedyPolicy = field(default_factory=RemedyPolicy)

    def clusters_of(self, workspace: str) -> frozenset[str]:
        """Engine clusters that have the workspace's namespaces; most workspaces have none."""
        return self.local_workspaces.get(workspace, frozenset())

    def workspaces_in(self, engine_cluster: str) -> list[str]:
        """Workspaces whose namespaces are in an engine cluster."""
        return sorted(workspace for workspace, clusters in self.local_workspaces.items() if engine_cluster in clusters)

    def protects(self, namespace: str) -> bool:
        """Whether a namespace of the engines' own cluster is the platform's."""
        return is_platform(namespace)
