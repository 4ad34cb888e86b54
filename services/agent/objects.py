"""Objects as the agent compares them: the desired one out of a row, the live one out of the API server. Pure."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from services.agent.kinds import ROW_KINDS, SECRET_KIND, ManagedKind
from services.agent.live_operation import NO_OPERATION, LiveOperation, live_operation
from services.agent.status import visible_status
from services.common.errors import Permanent
from services.common.kube import APPLICATION, Manifest
from services.common.messages import EngineResource
from services.common.messages.compiled import RowKind
from services.common.ownership import OURS

_FINGERPRINT_KEY = os.urandom(32)
"""Of this process: a fingerprint says nothing to whoever sees it elsewhere."""


@dataclass(frozen=True, slots=True, order=True)
class ObjectKey:
    """One object of an instance, or the sync of an Application."""

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
    owned: Manifest
    """Only the part that is ours, see :func:`owned_part`."""
    status: str
    """The part of the status that users see, as canonical JSON; empty if there is none."""
    operation: LiveOperation
    """Of an Application."""


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


def kind_of(row: EngineResource, namespace: str) -> ManagedKind:
    """The kind of an acceptable row. Raises Permanent if its kind or namespace is not one of this instance."""
    kind = _kind_of(row)
    if row.namespace != namespace:
        raise Permanent(f"namespace {row.namespace} is not that of {row.engine_instance_id} ({namespace})")
    return kind


def desired_object(row: EngineResource) -> Manifest:
    """The object to apply: identity from the row, the owned part from its manifest, our label. Nothing else.

    Raises Permanent if the manifest is no JSON object of that kind and name.
    """
    kind, manifest = _kind_of(row), manifest_of(row)
    meta, spec = mapping(manifest, "metadata"), mapping(manifest, "spec")
    return _identified(row, kind, meta) | {"spec": _owned_spec(kind, spec)}


def desired_secret(row: EngineResource, composed: Manifest) -> Manifest:
    """The Secret to apply: identity from the row, content from what was composed of it, our label."""
    content = {name: composed[name] for name in ("type", "data") if name in composed}
    metas = mapping(manifest_of(row), "metadata"), mapping(composed, "metadata")
    return _identified(row, SECRET_KIND, *metas) | content


def manifest_of(row: EngineResource) -> Manifest:
    """The row's manifest. Raises Permanent if it is no JSON object of the row's object."""
    try:
        manifest = orjson.loads(row.manifest)
    except orjson.JSONDecodeError as error:
        raise Permanent(f"the manifest is not JSON: {error}") from error
    if not isinstance(manifest, dict):
        raise Permanent("the manifest is not a JSON object")
    resource, meta = _kind_of(row).resource, mapping(manifest, "metadata")
    found = (manifest.get("apiVersion"), manifest.get("kind"), meta.get("namespace"), meta.get("name"))
    if found != (resource.api_version, resource.kind, row.namespace, row.name):
        raise Permanent(f"the manifest describes another object: {found}")
    return manifest


def mapping(manifest: Manifest, field: str) -> Manifest:
    """A field that must be a mapping, if it is there. Raises Permanent."""
    value = manifest.get(field) or {}
    if not isinstance(value, dict):
        raise Permanent(f"the manifest's {field} is not a mapping")
    return value


def source_url(application: Manifest) -> str:
    """The repository that an Application reads; empty if it names none."""
    return str(mapping(mapping(application, "spec"), "source").get("repoURL") or "")


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
        owned=owned_part(kind, manifest),
        status=visible_status(manifest.get("status") or {}) if kind.reports_status else "",
        operation=live_operation(manifest) if kind.reports_status else NO_OPERATION,
    )


def owned_part(kind: ManagedKind, manifest: Manifest) -> Manifest:
    """The part of an object that is compared; of a Secret it holds fingerprints in place of values."""
    if kind is not SECRET_KIND:
        return {"spec": _owned_spec(kind, manifest.get("spec") or {})}
    data = {name: fingerprint(value) for name, value in (manifest.get("data") or {}).items()}
    fixed = {name: manifest[name] for name in kind.unchangeable if manifest.get(name)}
    return fixed | {"data": data}


def fingerprint(value: Any) -> str:
    """Of a JSON value: equal for equal values within this process."""
    text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(text, key=_FINGERPRINT_KEY, digest_size=16).hexdigest()


def _kind_of(row: EngineResource) -> ManagedKind:
    kind = ROW_KINDS.get(row.kind)
    if kind is None:
        raise Permanent(f"kind {row.kind} is not one that an agent applies")
    return kind


def _identified(row: EngineResource, kind: ManagedKind, *metas: Manifest) -> Manifest:
    labels = {name: value for meta in metas for name, value in mapping(meta, "labels").items()}
    metadata = {"name": row.name, "namespace": row.namespace, "labels": {**labels, **OURS}}
    annotations = {name: value for meta in metas for name, value in mapping(meta, "annotations").items()}
    if annotations:
        metadata["annotations"] = annotations
    return {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind, "metadata": metadata}


def _owned_spec(kind: ManagedKind, spec: Manifest) -> Manifest:
    names = kind.owned_spec or tuple(spec)
    return {name: _without_nulls(spec[name]) for name in names if spec.get(name) is not None}


def _without_nulls(value: Any) -> Any:
    """The API server drops nulls; a manifest that holds one would differ for ever."""
    if isinstance(value, dict):
        return {name: _without_nulls(member) for name, member in value.items() if member is not None}
    return value
