"""The messages as values. A test compares them with the Avro schemas in ``schemas/avro/``."""

from services.common.messages.command import (
    Command,
    LookAgain,
    OrphansApproved,
    ResourceChanged,
    ResourceGone,
    ResyncCompleted,
)
from services.common.messages.compiled import ORDERS, ORPHAN_REMOVAL, EngineResource, RowKind, WorkspaceResource
from services.common.messages.dead_letter import DeadLetter
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
    "Applied",
    "Checked",
    "Command",
    "DeadLetter",
    "EngineResource",
    "Failed",
    "LookAgain",
    "Observation",
    "OrphansApproved",
    "OrphansKept",
    "Removed",
    "ResourceChanged",
    "ResourceGone",
    "ResyncCompleted",
    "RowKind",
    "StatusReported",
    "SyncMoved",
    "WorkspaceResource",
]
