"""What the operator lays down for all tenants: an argument of every plan."""

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
    """In one transaction; messages go on between two."""

    def allows(self, removed: int, known: int) -> bool:
        """Whether so many may be gone at once."""
        return removed <= max(self.minimum, self.share * known)


@dataclass(frozen=True, slots=True)
class RemedyPolicy:
    """What is done for engine instances that are not well, and how long it may take to help."""

    is_on: bool = True
    after: timedelta = timedelta(minutes=1)
    """How long an instance has to be ill before the first remedy."""
    cool_down: timedelta = timedelta(minutes=3)
    """How long a restart may take to help; other remedies have more or less, in proportion."""
    replace_after: timedelta = timedelta(minutes=10)
    """How long an instance that nobody is left on may take to become healthy, before another takes its place."""
    recovered_after: timedelta = timedelta(minutes=10)
    """How long an instance has to be healthy until it counts as well: its cordon is lifted."""


CONFINING_KINDS = frozenset({GroupKind("", "ResourceQuota"), GroupKind("", "LimitRange")})
"""What a platform puts into a tenant's namespace to confine it."""


@dataclass(frozen=True, slots=True)
class Policy:
    """See the module."""

    guard: SweepGuard = field(default_factory=SweepGuard)
    kinds: Registry = REGISTRY
    limits: Limits = field(default_factory=REGISTRY.limits)
    addresses: AddressPolicy = field(default_factory=AddressPolicy)
    local_workspaces: Mapping[str, frozenset[str]] = field(default_factory=lambda: {"local": frozenset({"default"})})
    """Engine clusters by the workspaces whose namespaces are in them: only their tenants have a namespace there."""
    refused_kinds: frozenset[GroupKind] = CONFINING_KINDS
    """What tenants with a namespace there may not deploy: an engine, with its rights, would replace the platform's."""

    move_patience: timedelta = timedelta(minutes=10)
    """How long a step of a tenant's move may take after which the tenant stays where it is."""
    moves_at_once: int = 5
    """Of each engine instance."""
    moves_yield_above: timedelta = timedelta(seconds=1)
    """How long changes of other tenants may take, until fewer tenants are moved at a time."""
    splits_tenants: bool = True
    """Whether environments of a tenant that is too large for one instance go to others."""
    promotes_snapshots: bool = False
    """Whether a new Snapshot is promoted by itself."""
    binding_patience: timedelta = timedelta(minutes=3)
    """How long the Application of a binding may be missing: the two may be created in any order."""
    health_patience: timedelta = timedelta(minutes=3)
    """How long an agent may tell nothing of an engine instance until nobody knows how that is."""
    provisioning_patience: timedelta = timedelta(minutes=15)
    """How long an engine instance that was added may take to be ready, its installation included."""
    scaling: Patience = field(default_factory=Patience)
    """How long pools wait until they shrink, and overloaded instances until they are relieved."""
    rollout_interval: timedelta = timedelta(seconds=5)
    """How often the rollout that is under way is looked at."""

    remedies: RemedyPolicy = field(default_factory=RemedyPolicy)

    def clusters_of(self, workspace: str) -> frozenset[str]:
        """Engine clusters that the workspace's namespaces are in; none for most."""
        return self.local_workspaces.get(workspace, frozenset())

    def protects(self, namespace: str) -> bool:
        """Whether a namespace of the engines' own cluster is the platform's, whoever asks."""
        return is_platform(namespace)
