"""Rows of pools as values: rings of engine clusters in which instances are added and given up by the planner itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from services.common.messages import AddEngineInstance
from services.planner.rows import DEFAULT_ENGINE

NAMESPACES = "gitops-service-argocd-"
"""How the names of those begin in which instances are installed that the planner adds."""
HIGHEST_NUMBER = 9999
"""Of such an instance, that there has to be room for in its name."""

PoolKey = tuple[str, str]
"""Engine cluster and ring."""


@dataclass(frozen=True, slots=True)
class EnginePool:
    """A row of ``engine_pools``."""

    engine_cluster: str
    ring: str
    minimum: int
    """Instances."""
    maximum: int
    spare: int
    """Instances beyond those that the load needs."""
    capacity: int
    """Applications, of each instance that is added."""
    version: str
    """Of Argo CD, likewise."""
    profile: str
    """Likewise; empty: the usual one."""
    ordered_at: datetime
    """When the newest order that changed it was given."""
    shrinks_at: datetime | None = None
    """When an instance is given up, if fewer are enough until then."""
    leaving: str | None = None
    """The instance that is being given up."""
    message: str = ""
    """Why it does not have what it needs; empty: it has."""

    @property
    def key(self) -> PoolKey:
        """Which it is."""
        return (self.engine_cluster, self.ring)

    @property
    def id(self) -> str:
        """As operators know it."""
        return "/".join(self.key)


@dataclass(frozen=True, slots=True)
class Overload:
    """A row of ``engine_overloads``: an instance that carries more of its capacity than it should."""

    engine_instance_id: str
    relieved_at: datetime
    """When tenants move away, if it is overloaded until then."""


@dataclass(frozen=True, slots=True)
class Burdens:
    """What scaling remembers of instances and tenants."""

    overloads: Mapping[str, Overload] = field(default_factory=dict)
    """By instance."""
    moved_of_late: frozenset[UUID] = frozenset()
    """Tenants that were moved within a day: they stay where they are."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a state has to last until something follows from it."""

    shrink: timedelta = timedelta(hours=25)
    """More than a day: what the peak of each day needs is kept."""
    overload: timedelta = timedelta(minutes=10)


def next_name(engine_cluster: str, ring: str, known: Iterable[str]) -> str:
    """Of an instance that the planner adds: after the highest number of those that are ``known``."""
    prefix = _prefix(engine_cluster, ring)
    numbers = (each.removeprefix(prefix) for each in known if each.startswith(prefix))
    return f"{prefix}{max((int(each) for each in numbers if each.isdecimal()), default=0) + 1}"


def _prefix(engine_cluster: str, ring: str) -> str:
    return f"{engine_cluster}-{ring}-"


def longest_namespace(engine_cluster: str, ring: str) -> str:
    """Where the last of the instances would be installed that the planner adds to a ring."""
    return namespace_of(f"{_prefix(engine_cluster, ring)}{HIGHEST_NUMBER}")


def namespace_of(instance: str) -> str:
    """Where an instance is installed that the planner adds."""
    return f"{NAMESPACES}{instance}"


def order_for(pool: EnginePool, name: str) -> AddEngineInstance:
    """The order of an instance of a pool."""
    return AddEngineInstance(
        id=name,
        engine_cluster=pool.engine_cluster,
        namespace=namespace_of(name),
        engine=DEFAULT_ENGINE,
        engine_class="shared",
        dedicated_to="",
        ring=pool.ring,
        capacity=pool.capacity,
        wanted_version=pool.version,
        profile=pool.profile,
    )


def instance_in(namespace: str) -> str:
    """The name of the instance that would be installed there."""
    return namespace.removeprefix(NAMESPACES)
