"""What a plan is made from: messages as they were taken up, in the order in which they count."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from services.common.messages import Command, FleetOrder, Observation
from services.kinds.shared.resource import Cause
from services.planner.domain.fleet.rows import Move
from services.planner.rows.consumption import SweepPart


@dataclass(frozen=True, slots=True)
class Due:
    """A timer event: look at a CR again, because its deletion takes long or the quota may have room for it."""

    workspace: str
    namespace: str
    id: UUID


@dataclass(frozen=True, slots=True)
class FleetDue:
    """A timer event: look at the fleet: at moves that may begin, instances that are installed, and the rollout."""

    is_of_states: bool = True
    """Whether to count what is on all instances, too: by that one is drained, full, or has room again."""


@dataclass(frozen=True, slots=True)
class RemediesDue:
    """A timer event: look at engine instances that are ill, or have been."""


@dataclass(frozen=True, slots=True)
class ScalingDue:
    """A timer event: look whether pools have as many engine instances as their load needs."""


@dataclass(frozen=True, slots=True)
class HealthDue:
    """A timer event: an agent has told nothing of an engine instance for long."""

    engine_instance_id: str
    workspace: str = ""
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class MoveDue:
    """A timer event: the next step of a tenant's move may be taken."""

    move: Move

    @property
    def workspace(self) -> str:
        """The tenant's."""
        return self.move.workspace

    @property
    def namespace(self) -> str:
        """Likewise."""
        return self.move.namespace


@dataclass(frozen=True, slots=True)
class SweepDue:
    """A timer event: the next part of what a complete list lacked is to be removed."""

    number: int
    """Of the row that says so."""
    part: SweepPart

    @property
    def workspace(self) -> str:
        """Of the list, which is about many tenants."""
        return self.part.source

    @property
    def namespace(self) -> str:
        """Likewise: none."""
        return ""


SweepPlace = tuple[str, str, int]
"""Source, kind and partition: what a newer resync is about again."""


@dataclass(frozen=True, slots=True)
class SweepScope:
    """The resources that a resync marker is about."""

    source: str
    kind: str
    partition: int
    epoch: int

    @property
    def place(self) -> SweepPlace:
        """Of all markers that take each other's place."""
        return (self.source, self.kind, self.partition)


@dataclass(frozen=True, slots=True)
class Unseen:
    """Not a message: what a complete list did not show of a tenant, after it was found to be a plausible share."""

    workspace: str
    namespace: str
    scope: SweepScope
    ids: frozenset[UUID]
    at: datetime


@dataclass(frozen=True, slots=True)
class NamespaceReplaced:
    """Not a message: another namespace has the tenant's name now, and nothing of the tenant exists any more."""

    workspace: str
    namespace: str
    tenant: UUID
    since: int
    """When the other one was made: milliseconds since 1970."""
    at: datetime


@dataclass(frozen=True, slots=True)
class ClusterTopic:
    """A topic of an engine cluster, as the brokers describe it."""

    name: str
    partitions: int | None
    """0 if it does not exist; None if planners may not ask for it."""
    needed: int
    """How many partitions it has to have."""


@dataclass(frozen=True, slots=True)
class Event:
    """One message; ``partition`` is that of its topic, the same for all messages of a tenant."""

    message: (
        Command
        | Observation
        | Due
        | HealthDue
        | MoveDue
        | SweepDue
        | Unseen
        | NamespaceReplaced
        | FleetOrder
        | FleetDue
        | RemediesDue
        | ScalingDue
    )
    partition: int
    trace_id: str
    reporting_cluster: str | None = None
    """Of an observation: the engine cluster whose agents alone could write it; None if that is not known."""
    cluster_topics: tuple[ClusterTopic, ...] = ()
    """Of an order that adds an engine cluster: its topics. None of one whose id no topic can have in its name."""

    @property
    def is_of_fleet(self) -> bool:
        """Whether it is about the fleet itself, and no tenant's."""
        return isinstance(self.message, FleetOrder | FleetDue | RemediesDue | ScalingDue)

    @property
    def tenant_name(self) -> tuple[str, str]:
        """Workspace and namespace of the tenant that it is about; both empty if it is of the fleet."""
        if isinstance(self.message, FleetOrder | FleetDue | RemediesDue | ScalingDue):
            return ("", "")
        return (self.message.workspace, self.message.namespace)

    def cause(self, now: datetime) -> Cause:
        """When it happened, by the clock of the edge that saw it, and its trace; what is due happens ``now``."""
        match self.message:
            case Command(seen_at=at) | Observation(observed_at=at) | Unseen(at=at) | NamespaceReplaced(at=at):
                return Cause(at, self.trace_id)
            case FleetOrder(ordered_at=at):
                return Cause(at, self.trace_id)
            case SweepDue(part=part):
                return Cause(part.seen_at, self.trace_id)
            case Due() | HealthDue() | MoveDue() | FleetDue() | RemediesDue() | ScalingDue():
                return Cause(now, self.trace_id)
