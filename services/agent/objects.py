"""Objects as the agent compares them: the desired one out of a row, the live one out of the API server. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from services.agent.kinds import KINDS, MANAGED_BY, MANAGER, ManagedKind
from services.agent.status import visible_status
from services.common.errors import Permanent
from services.common.kube import Manifest
from services.common.messages import EngineResource


@dataclass(frozen=True, slots=True, order=True)
class ObjectKey:
    """One object of an instance."""

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class LiveObject:
    """What is kept of an object that exists: the parts that decisions need, not the whole."""

    uid: str
    version: int
    labels: dict[str, str]
    annotations: dict[str, str]
    finalizers: tuple[str, ...]
    deletion_started: datetime | None
    spec: Manifest
    """Only the owned part."""
    status: str
    """The part of the status that users see, as canonical JSON; empty if there is none."""


def key_of(row: EngineResource) -> ObjectKey:
    """The object that ``row`` is about."""
    return ObjectKey(row.kind, row.namespace, row.name)


def kind_of(row: EngineResource, namespace: str) -> ManagedKind:
    """The kind of an acceptable row. Raises Permanent if its kind or namespace is not one of this instance."""
    kind = KINDS.get(row.kind)
    if kind is None:
        raise Permanent(f"kind {row.kind} is not one that an agent applies")
    if row.namespace != namespace:
        raise Permanent(f"namespace {row.namespace} is not that of {row.engine_instance_id} ({namespace})")
    return kind


def desired_object(kind: ManagedKind, row: EngineResource) -> Manifest:
    """The object to apply: identity from the row, the owned part from its manifest, our label. Nothing else.

    Raises Permanent if the manifest is no JSON object of that kind and name.
    """
    manifest = _parsed(row)
    meta, spec = _mapping(manifest, "metadata"), _mapping(manifest, "spec")
    found = (manifest.get("apiVersion"), manifest.get("kind"), meta.get("namespace"), meta.get("name"))
    if found != (kind.resource.api_version, row.kind, row.namespace, row.name):
        raise Permanent(f"the manifest describes another object: {found}")
    metadata = {
        "name": row.name,
        "namespace": row.namespace,
        "labels": {**_mapping(meta, "labels"), MANAGED_BY: MANAGER},
    }
    if annotations := _mapping(meta, "annotations"):
        metadata["annotations"] = annotations
    return {
        "apiVersion": kind.resource.api_version,
        "kind": row.kind,
        "metadata": metadata,
        "spec": _owned(kind, spec),
    }


def live_object(kind: ManagedKind, manifest: Manifest) -> LiveObject:
    """What is kept of ``manifest``."""
    meta = manifest["metadata"]
    started = meta.get("deletionTimestamp")
    return LiveObject(
        uid=meta["uid"],
        version=int(meta["resourceVersion"]),
        labels=meta.get("labels") or {},
        annotations=meta.get("annotations") or {},
        finalizers=tuple(meta.get("finalizers") or ()),
        deletion_started=datetime.fromisoformat(started) if started else None,
        spec=_owned(kind, manifest.get("spec") or {}),
        status=visible_status(manifest.get("status") or {}) if kind.reports_status else "",
    )


def _owned(kind: ManagedKind, spec: Manifest) -> Manifest:
    names = kind.owned_spec or tuple(spec)
    return {name: _without_nulls(spec[name]) for name in names if spec.get(name) is not None}


def _without_nulls(value: Any) -> Any:
    """The API server drops nulls; a manifest that holds one would differ for ever."""
    if isinstance(value, dict):
        return {name: _without_nulls(member) for name, member in value.items() if member is not None}
    return value


def _parsed(row: EngineResource) -> Manifest:
    try:
        manifest = orjson.loads(row.manifest)
    except orjson.JSONDecodeError as error:
        raise Permanent(f"the manifest is not JSON: {error}") from error
    if not isinstance(manifest, dict):
        raise Permanent("the manifest is not a JSON object")
    return manifest


def _mapping(manifest: Manifest, field: str) -> Manifest:
    value = manifest.get(field) or {}
    if not isinstance(value, dict):
        raise Permanent(f"the manifest's {field} is not a mapping")
    return value
