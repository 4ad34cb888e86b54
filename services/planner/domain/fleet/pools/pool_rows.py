"""Rows of pools as values: rings of engine clusters in which planners add and give up instances by themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from uuid import UUID

from services.common.messages import AddEngineInstance
from services.planner.domain.fleet.rows import Release
from services.planner.rows.fleet import DEFAULT_ENGINE

NAMESPACES = "gitops-service-argocd-"
"""Prefix of the namespaces of instances that planners add; the instance's id follows."""
HIGHEST_NUMBER = 9999
"""The highest number of an instance that planners add to a ring: names have room for it."""

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
    """Of Argo CD, of each instance that is added."""
    profile: str
    """Configuration of each instance that is added; empty: the usual one."""
    ordered_at: datetime
    """When the newest order that changed it was given."""
    shrinks_at: datetime | None = None
    """When an instance is given up, if fewer are enough until then; None: as many are needed."""
    leaving: str | None = None
    """Id of the instance that is being given up; None: none is."""
    message: str = ""
    """Why the pool has fewer instances than it needs; empty: it has enough."""

    @property
    def key(self) -> PoolKey:
        """Primary key of its row: there is one pool for a ring of an engine cluster."""
        return (self.engine_cluster, self.ring)

    @property
    def release(self) -> Release:
        """The release of each instance that is added."""
        return Release(self.version, self.profile)

    def with_release(self, release: Release) -> EnginePool:
        """The pool with this as the release of what it adds."""
        return replace(self, version=release.version, profile=release.profile)

    def is_shrinking(self, now: datetime) -> bool:
        """Whether an instance of the pool is being given up, or may be by ``now``."""
        return self.leaving is not None or (self.shrinks_at is not None and self.shrinks_at <= now)

    @property
    def id(self) -> str:
        """Its name for operators: ``CLUSTER/RING``."""
        return "/".join(self.key)


@dataclass(frozen=True, slots=True)
class Overload:
    """A row of ``engine_overloads``: an instance that carries more of its capacity than it should."""

    engine_instance_id: str
    relieved_at: datetime
    """When tenants leave it, if it is still overloaded then."""


@dataclass(frozen=True, slots=True)
class Burdens:
    """What scaling knows from earlier looks."""

    overloads: Mapping[str, Overload] = field(default_factory=dict)
    """By instance."""
    moved_of_late: frozenset[UUID] = frozenset()
    """Tenants that were moved within a day: they stay where they are."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a state has to last before scaling acts on it."""

    shrink: timedelta = timedelta(hours=25)
    """More than a day, so that instances that the peak of each day needs stay."""
    overload: timedelta = timedelta(minutes=10)


def next_name(engine_cluster: str, ring: str, taken: Iterable[str]) -> str:
    """Id for another instance, ``CLUSTER-RING-NUMBER``: the number after the highest ``taken`` one."""
    prefix = _prefix(engine_cluster, ring)
    numbers = (each.removeprefix(prefix) for each in taken if each.startswith(prefix))
    return f"{prefix}{max((int(each) for each in numbers if each.isdecimal()), default=0) + 1}"


def _prefix(engine_cluster: str, ring: str) -> str:
    return f"{engine_cluster}-{ring}-"


def longest_namespace(engine_cluster: str, ring: str) -> str:
    """The longest namespace of an instance that planners add to a ring: with :data:`HIGHEST_NUMBER`."""
    return namespace_of(f"{_prefix(engine_cluster, ring)}{HIGHEST_NUMBER}")


def namespace_of(instance: str) -> str:
    """The namespace of an instance that planners add, by its id."""
    return f"{NAMESPACES}{instance}"


def order_for(pool: EnginePool, name: str) -> AddEngineInstance:
    """The order that adds an instance to a pool, under this id."""
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
    """The inverse of :func:`namespace_of`; a namespace that it cannot have returned is returned as it is."""
    return namespace.removeprefix(NAMESPACES)
