"""Rows of the fleet as values: engine clusters, engine instances, and what became of orders about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal
from uuid import UUID

InstanceState = Literal["accepting", "full", "draining", "drained", "retired"]
Outcome = Literal["accepted", "refused", "unchanged"]

CLASSES = ("shared", "dedicated")
ROOM_AGAIN = 0.9
"""A full instance accepts tenants again below this share of its capacity: not at every Application that goes."""
RINGS = ("canary", "early", "general")


@dataclass(frozen=True, slots=True)
class EngineClusterRow:
    """A row of ``engine_clusters``."""

    id: str
    region: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class EngineInstanceRow:
    """A row of ``engine_instances``."""

    id: str
    namespace: str
    engine: str
    engine_cluster: str
    region: str
    engine_class: str
    dedicated_to: str
    ring: str
    capacity: int
    state: InstanceState
    created_at: datetime
    ordered_at: datetime
    """When the newest order that changed it was given."""

    @property
    def is_retired(self) -> bool:
        """Whether it has nothing any more, and never will: the row stays for its id alone."""
        return self.state == "retired"

    @property
    def is_leaving(self) -> bool:
        """Whether no new tenant is placed on it because it is to be retired."""
        return self.state in ("draining", "drained")


@dataclass(frozen=True, slots=True)
class FleetOrderRecord:
    """A row of ``fleet_orders``."""

    id: UUID
    kind: str
    subject: str
    arguments: str
    """JSON."""
    actor: str
    outcome: Outcome
    message: str
    ordered_at: datetime
    decided_at: datetime


@dataclass(frozen=True, slots=True)
class Holding:
    """What is on an instance."""

    tenants: int = 0
    """Those included that a rebuild will find there."""
    deployments: int = 0
    """GitOpsDeployments of which rows desire an object."""
    objects: bool = False
    """Whether rows desire or withdraw any object."""


NOTHING_HELD = Holding()


@dataclass(frozen=True, slots=True)
class Fleet:
    """What orders are decided on."""

    clusters: Mapping[str, EngineClusterRow]
    instances: Mapping[str, EngineInstanceRow]
    """Retired ones included."""
    holdings: Mapping[str, Holding]
    """By instance; none of one that is empty."""
    engines: frozenset[str]
    """Those that this build knows."""
    decided: frozenset[UUID] = frozenset()
    """Orders that were decided before: nothing becomes of them when they come again."""

    def holding(self, instance: str) -> Holding:
        """What is on it."""
        return self.holdings.get(instance, NOTHING_HELD)

    def with_cluster(self, row: EngineClusterRow) -> Fleet:
        """With this row in place of the one of its id."""
        return replace(self, clusters={**self.clusters, row.id: row})

    def with_instance(self, row: EngineInstanceRow) -> Fleet:
        """With this row in place of the one of its id, behind all others: rows are written in this order."""
        others = {known: each for known, each in self.instances.items() if known != row.id}
        return replace(self, instances={**others, row.id: row})
