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
    wanted_version: str = ""
    """Of Argo CD, that a provisioner installs first; empty: it is there already, and somebody else looks after it."""
    profile: str = ""
    """Configuration that it is installed with; empty: the usual one."""


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
    is_lost: bool = False
    """Nobody will ever reach it again: what is still to be removed there is not waited for."""


@dataclass(frozen=True, slots=True)
class TenantOrder:
    """What orders about one tenant have in common."""

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
class MoveTenant(TenantOrder):
    """A tenant goes to another instance, and its users notice nothing."""

    target: str


@dataclass(frozen=True, slots=True)
class CancelMove(TenantOrder):
    """A tenant that is being moved stays where it was, if its source has not given it up yet."""


@dataclass(frozen=True, slots=True)
class RebalanceFleet:
    """Tenants move until no instance carries much more or less than its share, and none is on one to be retired."""

    @property
    def id(self) -> str:
        """What the order is about."""
        return "fleet"


@dataclass(frozen=True, slots=True)
class RebalanceInstances:
    """Likewise, but no tenant moves that is on another instance than these.

    It is no field of :class:`RebalanceFleet`: a planner of an older release would not see that, and even out all.
    """

    sources: tuple[str, ...]

    @property
    def id(self) -> str:
        """What the order is about."""
        return "fleet"


@dataclass(frozen=True, slots=True)
class DrainEngineCluster:
    """No new tenant is placed on any instance of the cluster, and no instance is added to it."""

    id: str


@dataclass(frozen=True, slots=True)
class UndrainEngineCluster:
    """The cluster takes instances again, and those that it was drained with take tenants again."""

    id: str


@dataclass(frozen=True, slots=True)
class RetireEngineCluster:
    """The cluster is given up: all of its instances are retired."""

    id: str
    """Never given out again."""


@dataclass(frozen=True, slots=True)
class DedicateEngineInstance:
    """The instance is for tenants of one workspace alone, or for those of any."""

    id: str
    workspace: str
    """Empty: any."""


@dataclass(frozen=True, slots=True)
class AssignWorkspace:
    """Tenants of the workspace are placed on instances of this region and ring alone."""

    workspace: str
    region: str
    """Empty: any."""
    ring: str
    """Empty: any. With both empty the workspace is assigned to nothing."""

    @property
    def id(self) -> str:
        """What the order is about."""
        return self.workspace


@dataclass(frozen=True, slots=True)
class PinTenant(TenantOrder):
    """A tenant stays on its instance; one that there is not yet is placed on it."""

    target: str
    """The instance; empty: the one that the tenant is on."""


@dataclass(frozen=True, slots=True)
class UnpinTenant(TenantOrder):
    """A tenant may be moved again."""


@dataclass(frozen=True, slots=True)
class PoolOrder:
    """What orders about the pool of a ring in a cluster have in common."""

    engine_cluster: str
    ring: str

    @property
    def id(self) -> str:
        """What the order is about."""
        return f"{self.engine_cluster}/{self.ring}"


@dataclass(frozen=True, slots=True)
class SetEnginePool(PoolOrder):
    """Instances of a ring in a cluster are added and given up by the planner itself, as their load asks for."""

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
    """Configuration, likewise; empty: the usual one."""


@dataclass(frozen=True, slots=True)
class RemoveEnginePool(PoolOrder):
    """Instances of a ring in a cluster are added and given up by operators alone."""


@dataclass(frozen=True, slots=True)
class RolloutOrder:
    """What orders about the rollout have in common: there is one at a time."""

    @property
    def id(self) -> str:
        """What the order is about."""
        return "rollout"


@dataclass(frozen=True, slots=True)
class StartRollout(RolloutOrder):
    """A version comes to the fleet, ring by ring: tenants move to new instances of it."""

    version: str
    """Of the engine."""
    profile: str
    """Configuration of the new instances; empty: the usual one."""
    rings: tuple[str, ...]
    """Which; none: all that have instances."""
    soak_seconds: int
    """How long each stage is looked at before the next."""
    is_security: bool
    """Soaks are shorter."""


@dataclass(frozen=True, slots=True)
class PauseRollout(RolloutOrder):
    """No further tenant moves by the rollout, and no gate is asked, until it is resumed."""


@dataclass(frozen=True, slots=True)
class ResumeRollout(RolloutOrder):
    """A rollout that was paused goes on."""


@dataclass(frozen=True, slots=True)
class AbortRollout(RolloutOrder):
    """The tenants of the ring that the rollout is at go back, and it ends."""


Order = (
    AddEngineCluster
    | AddEngineInstance
    | DrainEngineInstance
    | UndrainEngineInstance
    | RetireEngineInstance
    | MoveTenant
    | CancelMove
    | RebalanceFleet
    | RebalanceInstances
    | DrainEngineCluster
    | UndrainEngineCluster
    | RetireEngineCluster
    | DedicateEngineInstance
    | AssignWorkspace
    | PinTenant
    | UnpinTenant
    | SetEnginePool
    | RemoveEnginePool
    | StartRollout
    | PauseRollout
    | ResumeRollout
    | AbortRollout
)


@dataclass(frozen=True, slots=True)
class FleetOrder:
    """What one operator orders."""

    id: UUID
    """Under which its outcome is found."""
    actor: str
    ordered_at: datetime
    order: Order
