"""Orders of operators that change the fleet of engine instances. Read by the planner, which decides on each."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True)
class AddEngineCluster:
    """There is an engine cluster: a cluster that engine instances run in."""

    id: str
    region: str
    """Empty: the installation has no regions."""


@dataclass(frozen=True, slots=True)
class AddEngineInstance:
    """There is an engine instance: tenants may be placed on it."""

    id: str
    """Never given out again."""
    engine_cluster: str
    namespace: str
    engine: str
    """What it runs."""
    engine_class: str
    """``shared`` or ``dedicated``."""
    dedicated_to: str
    """The workspace whose tenants alone are placed on it; empty if it is shared."""
    ring: str
    """When it gets a new version: ``canary``, ``early`` or ``general``."""
    capacity: int
    """Applications."""


@dataclass(frozen=True, slots=True)
class DrainEngineInstance:
    """No new tenant is placed on the instance."""

    id: str


@dataclass(frozen=True, slots=True)
class UndrainEngineInstance:
    """New tenants are placed on the instance again."""

    id: str


@dataclass(frozen=True, slots=True)
class RetireEngineInstance:
    """The instance holds nothing any more, and agents leave it."""

    id: str


@dataclass(frozen=True, slots=True)
class MoveTenant:
    """A tenant goes to another instance, and its users notice nothing."""

    workspace: str
    namespace: str
    target: str

    @property
    def tenant(self) -> tuple[str, str]:
        """Its name."""
        return (self.workspace, self.namespace)

    @property
    def id(self) -> str:
        """What the order is about."""
        return "/".join(self.tenant)


@dataclass(frozen=True, slots=True)
class CancelMove:
    """A tenant that is being moved stays where it was, if its source has not given it up yet."""

    workspace: str
    namespace: str

    @property
    def tenant(self) -> tuple[str, str]:
        """Its name."""
        return (self.workspace, self.namespace)

    @property
    def id(self) -> str:
        """What the order is about."""
        return "/".join(self.tenant)


@dataclass(frozen=True, slots=True)
class RebalanceFleet:
    """Tenants move until no instance carries much more or less than its share, and none is on one to be retired."""

    @property
    def id(self) -> str:
        """What the order is about."""
        return "fleet"


Order = (
    AddEngineCluster
    | AddEngineInstance
    | DrainEngineInstance
    | UndrainEngineInstance
    | RetireEngineInstance
    | MoveTenant
    | CancelMove
    | RebalanceFleet
)


@dataclass(frozen=True, slots=True)
class FleetOrder:
    """What one operator orders."""

    id: UUID
    """Under which its outcome is found."""
    actor: str
    ordered_at: datetime
    order: Order
