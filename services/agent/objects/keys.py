"""Keys of objects: which object of an instance a row is about. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from services.agent.objects.kinds import ROW_KINDS
from services.common.kubernetes import APPLICATION
from services.common.messages import EngineResource
from services.common.messages.compiled import RowKind


@dataclass(frozen=True, slots=True, order=True)
class ObjectKey:
    """One object of an instance, or the sync of an Application."""

    kind: str
    namespace: str
    name: str


def key_of(row: EngineResource) -> ObjectKey:
    """The object that ``row`` is about; a row of an unknown kind is about none that exists."""
    kind = ROW_KINDS.get(row.kind)
    if kind is None:
        return ObjectKey(f"unknown {row.kind}", row.namespace, row.name)
    object_kind = RowKind.SYNC_OPERATION if row.kind == RowKind.SYNC_OPERATION else kind.resource.kind
    return ObjectKey(object_kind, row.namespace, row.name)


def application_of(key: ObjectKey) -> ObjectKey:
    """The Application that a sync is of."""
    return ObjectKey(APPLICATION.kind, key.namespace, key.name)


def sync_of(key: ObjectKey) -> ObjectKey:
    """The sync of an Application, desired or not."""
    return ObjectKey(RowKind.SYNC_OPERATION, key.namespace, key.name)
