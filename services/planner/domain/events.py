"""What a plan is made from: messages in the order in which they count, and timer events."""

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
    """A timer event: plan a CR again, because its deletion takes long or the quota may have room for it."""

    workspace: str
    namespace: str
    id: UUID


@dataclass(frozen=True, slots=True)
class FleetDue:
    """A timer event: plan the fleet: moves that may begin, instances that are installed, and the rollout."""

    is_of_states: bool = True
    """Whether to count the tenants of all instances. The counts decide if one is drained, full, or has room again."""


@dataclass(frozen=True, slots=True)
class RemediesDue:
    """A timer event: plan engine instances that are ill, or were."""


@dataclass(frozen=True, slots=True)
class ScalingDue:
    """A timer event: plan pools whose load needs more or fewer engine instances."""


@dataclass(frozen=True, slots=True)
class HealthDue:
    """A timer event: no agent has reported on an engine instance for a long time."""

    engine_instance_id: str
    workspace: str = ""
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class MoveDue:
    """A timer event: the next step of a tenant's move may be taken."""

    move: Move

    @property
    def workspace(self) -> str:
        """The tenant's workspace."""
        return self.move.workspace

    @property
    def namespace(self) -> str:
        """The tenant's namespace."""
        return self.move.namespace


@dataclass(frozen=True, slots=True)
class SweepDue:
    """A timer event: remove the next part of the resources that a complete list lacked."""

    number: int
    """The number of the row of the part."""
    part: SweepPart

    @property
    def workspace(self) -> str:
        """The list's workspace; a part is about many tenants."""
        return self.part.source

    @property
    def namespace(self) -> str:
        """Empty: a part is about many tenants."""
        return ""


SweepPlace = tuple[str, str, int]
"""Source, kind and partition. Lists of the same place replace each other."""


@dataclass(frozen=True, slots=True)
class SweepScope:
    """The resources that a resync marker is about."""

    source: str
    kind: str
    partition: int
    epoch: int

    @property
    def place(self) -> SweepPlace:
        """What markers that replace each other have in common."""
        return (self.source, self.kind, self.partition)


@dataclass(frozen=True, slots=True)
class Unseen:
    """Not a message: resources of a tenant that a complete list did not show. Their share was plausible."""

    workspace: str
    namespace: str
    scope: SweepScope
    ids: frozenset[UUID]
    at: datetime


@dataclass(frozen=True, slots=True)
class NamespaceReplaced:
    """Not a message: another namespace has the tenant's name now, so nothing of the tenant exists any more."""

    workspace: str
    namespace: str
    tenant: UUID
    since: int
    """When the other namespace was made: milliseconds since 1970."""
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
    """A message. ``partition`` is the number of its partition, the same for all messages of a tenant."""

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
        """Whether the event is about the fleet itself, and about no tenant."""
        return isinstance(self.message, FleetOrder | FleetDue | RemediesDue | ScalingDue)

    @property
    def tenant_name(self) -> tuple[str, str]:
        """Workspace and namespace of the tenant that the event is about; both empty if it is about the fleet."""
        if isinstance(self.message, FleetOrder | FleetDue | RemediesDue | ScalingDue):
            return ("", "")
        return (self.message.workspace, self.message.namespace)

    def cause(self, now: datetime) -> Cause:
        """When the event happened, by the clock of the edge that saw it, and its trace. Timer events happen ``now``."""
        match self.message:
            case Command(seen_at=at) | Observation(observed_at=at) | Unseen(at=at) | NamespaceReplaced(at=at):
                return Cause(at, self.trace_id)
            case FleetOrder(ordered_at=at):
                return Cause(at, self.trace_id)
            case SweepDue(part=part):
                return Cause(part.seen_at, self.trace_id)
            case Due() | HealthDue() | MoveDue() | FleetDue() | RemediesDue() | ScalingDue():
                return Cause(now, self.trace_id)
