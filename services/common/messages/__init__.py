"""The messages of the log, as values. Their Avro schemas are in ``schemas/avro/``; a test holds the two together."""

from services.common.messages.codec import AvroCodec, frame, unframe
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
from services.common.messages.registry import SchemaRegistry, local_schemas, value_subject

__all__ = [
    "Applied",
    "AvroCodec",
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
    "SchemaRegistry",
    "StatusReported",
    "SyncMoved",
    "WorkspaceResource",
    "frame",
    "local_schemas",
    "unframe",
    "value_subject",
]
