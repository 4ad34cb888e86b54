"""Rows of the fleet as values: engine clusters, engine instances, moves, and decided orders."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple
from uuid import UUID

from services.common.messages import UNREADY
from services.planner.rows.fleet import PlacementCandidate

ClusterState = Literal["active", "draining", "retired"]
InstanceState = Literal["provisioning", "accepting", "full", "draining", "drained", "failed", "retired"]
Outcome = Literal["accepted", "refused", "unchanged"]
MoveStep = Literal[
    "ordered",
    "reserved",
    "preparing",
    "pausing",
    "releasing",
    "adopting",
    "withdrawing",
    "done",
    "cancelling",
    "cancelled",
]
MovePath = Literal["whole", "forced", "fenced"]
"""How a move goes. ``whole``: its source ends what it does. ``forced``: that is down, and not waited for. ``fenced``:
that could not be reached, and gives its Applications up when it can be again. It goes on as ``forced`` if its source is
evacuated meanwhile, whoever has ordered it; ``whole`` again only if it has not begun until its source works."""
CANCELLABLE: tuple[MoveStep, ...] = ("ordered", "reserved", "preparing", "pausing")
"""Steps of a move from which it can go back: the source still has all that it had."""
ON_SOURCE: tuple[MoveStep, ...] = ("reserved", "preparing", "pausing", "releasing")
"""Steps of a move that has begun at which its source still has what is moved, or is giving it up."""
HANDED_OVER: tuple[MoveStep, ...] = ("adopting", "withdrawing", "done")
"""Steps of a move at which the target has what is moved."""
OVER: tuple[MoveStep, ...] = ("done", "cancelled")

CLASSES = ("shared", "dedicated")
ROOM_AGAIN = 0.9
"""A full instance accepts tenants again below this share of its capacity: not at every Application that goes."""


class Release(NamedTuple):
    """What an instance is of, a pool adds, or a rollout brings."""

    version: str
    """Of the engine; empty: nobody knows."""
    profile: str
    """Configuration; empty: the usual one."""

    @property
    def in_words(self) -> str:
        """For operators: the version, and the profile if it has one."""
        return f"{self.version} with profile {self.profile}" if self.profile else self.version


class Refused(Exception):
    """The rule that an order breaks, in words for operators."""


@dataclass(frozen=True, slots=True)
class EngineClusterRow:
    """A row of ``engine_clusters``."""

    id: str
    region: str
    created_at: datetime
    state: ClusterState
    """``draining``: it takes no instances, and its own take no tenants."""
    ordered_at: datetime
    """When the newest order that changed it was given."""

    @property
    def is_retired(self) -> bool:
        """Whether it has no instance any more, and never will: the row stays for its id alone."""
        return self.state == "retired"


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
    wanted_version: str | None = None
    """Of Argo CD, that a provisioner installs and keeps; None: somebody else looks after what the instance runs."""
    profile: str | None = None
    """Configuration that it is installed with; None: the usual one."""
    due_at: datetime | None = None
    """When it has failed, if it is still provisioning then."""
    state_message: str | None = None
    """Why it is in its state; None: that needs no words."""
    reapply_ordered_at: datetime | None = None
    """When its provisioner was last ordered to make anew what is older of its settings and workloads; None: never."""

    @property
    def is_unready(self) -> bool:
        """Whether it has never been ready for tenants: they are placed on another, and never moved to it."""
        return self.state in UNREADY

    @property
    def is_retired(self) -> bool:
        """Whether it has nothing any more, and never will: the row stays for its id alone."""
        return self.state == "retired"

    @property
    def is_in_service(self) -> bool:
        """Whether tenants may be on it, or what is left of them."""
        return not (self.is_unready or self.is_retired)

    @property
    def is_taking(self) -> bool:
        """Whether tenants come to it, as far as there is room."""
        return self.state in ("accepting", "full")

    @property
    def is_leaving(self) -> bool:
        """Whether no new tenant is placed on it because it is to be retired."""
        return self.state in ("draining", "drained")

    @property
    def is_drained(self) -> bool:
        """Whether it is leaving, and no tenant is left on it."""
        return self.state == "drained"

    @property
    def as_candidate(self) -> PlacementCandidate:
        """As placement sees it, whatever its health."""
        return PlacementCandidate(
            id=self.id,
            namespace=self.namespace,
            accepting=self.state == "accepting",
            engine=self.engine,
            dedicated_to=self.dedicated_to,
            capacity=self.capacity,
            leaving=self.is_leaving,
            engine_cluster=self.engine_cluster,
            region=self.region,
            ring=self.ring,
            unready=self.is_unready,
            drained=self.is_drained,
        )


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
class Move:
    """A row of ``moves``: a tenant that goes from one engine instance to another."""

    id: UUID
    """The order's; of an order that moves many tenants, made of that and the tenant's."""
    tenant_id: UUID
    workspace: str
    namespace: str
    partition: int
    """The tenant's."""
    source: str
    target: str
    step: MoveStep
    is_cancelled: bool
    """It is to go back, if it has not come further than :data:`CANCELLABLE`."""
    reported: str
    """JSON of what agents have reported that the step waits for."""
    message: str
    """What operators ought to know of it, such as why it was cancelled; empty: nothing."""
    actor: str
    ordered_at: datetime
    step_since: datetime
    due_at: datetime | None
    """When it has to be looked at again, though nothing happens."""
    path: MovePath = "whole"
    evacuated_for: str = ""
    """What was wrong with the source, a reason of its health, if that is evacuated; empty if it is not."""

    @property
    def is_over(self) -> bool:
        """Whether nothing follows from it any more."""
        return self.step in OVER

    @property
    def is_fencing(self) -> bool:
        """Whether all that it waits for is that its source can be reached again."""
        return self.path == "fenced" and self.step == "withdrawing"

    @property
    def is_cancellable(self) -> bool:
        """Whether it can go back."""
        return self.step in CANCELLABLE

    @property
    def destination(self) -> str:
        """The instance that has the tenant once it is over."""
        return self.source if self.is_cancelled or self.step == "cancelling" else self.target

    @property
    def holder(self) -> str:
        """The instance that has what is moved: the source until that has released it."""
        return self.target if self.step in HANDED_OVER else self.source

    @property
    def other(self) -> str:
        """The one of the two that is not the :attr:`holder`: the target until the source has released what is moved."""
        return self.source if self.step in HANDED_OVER else self.target
