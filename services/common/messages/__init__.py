"""The messages of the log, as values. A test holds them and the Avro schemas in ``schemas/avro/`` together."""

from services.common.messages.command import Command, ResourceChanged, ResourceGone, ResyncCompleted
from services.common.messages.compiled import EngineResource, RowKind, WorkspaceResource
from services.common.messages.dead_letter import DeadLetter
from services.common.messages.observation import (
    Applied,
    Checked,
    Failed,
    Observation,
    Removed,
    StatusReported,
    SyncMoved,
)

__all__ = [
    "Applied",
    "Checked",
    "Command",
    "DeadLetter",
    "EngineResource",
    "Failed",
    "Observation",
    "Removed",
    "ResourceChanged",
    "ResourceGone",
    "ResyncCompleted",
    "RowKind",
    "StatusReported",
    "SyncMoved",
    "WorkspaceResource",
]
