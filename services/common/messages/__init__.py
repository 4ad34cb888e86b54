"""The messages as values. A test compares them with the Avro schemas in ``schemas/avro/``."""

from services.common.messages.command import (
    Command,
    LookAgain,
    OrphansApproved,
    ResourceChanged,
    ResourceGone,
    ResyncCompleted,
)
from services.common.messages.compiled import (
    ORDERS,
    ORPHAN_REMOVAL,
    EngineResource,
    FleetInstance,
    RowKind,
    WorkspaceResource,
)
from services.common.messages.dead_letter import DeadLetter
from services.common.messages.fleet_order import (
    AddEngineCluster,
    AddEngineInstance,
    CancelMove,
    DrainEngineInstance,
    FleetOrder,
    MoveTenant,
    Order,
    RetireEngineInstance,
    UndrainEngineInstance,
)
from services.common.messages.observation import (
    Applied,
    Checked,
    Failed,
    Observation,
    OrphansKept,
    Removed,
    StatusReported,
    SyncMoved,
)

__all__ = [
    "ORDERS",
    "ORPHAN_REMOVAL",
    "AddEngineCluster",
    "AddEngineInstance",
    "Applied",
    "CancelMove",
    "Checked",
    "Command",
    "DeadLetter",
    "DrainEngineInstance",
    "EngineResource",
    "Failed",
    "FleetInstance",
    "FleetOrder",
    "LookAgain",
    "MoveTenant",
    "Observation",
    "Order",
    "OrphansApproved",
    "OrphansKept",
    "Removed",
    "ResourceChanged",
    "ResourceGone",
    "ResyncCompleted",
    "RetireEngineInstance",
    "RowKind",
    "StatusReported",
    "SyncMoved",
    "UndrainEngineInstance",
    "WorkspaceResource",
]
