"""Desired objects: what a row's manifest, or the Secret composed from it, describes. Pure."""

from __future__ import annotations

from typing import Any

import orjson

from services.agent.objects.managed_kinds import ROW_KINDS, SECRET_KIND, ManagedKind
from services.common.errors import Permanent
from services.common.kubernetes import Manifest
from services.common.messages import EngineResource
from services.common.messages.compiled import AT_ONCE, RELEASE
from services.common.ownership import OURS


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
    return _identified(row, kind, meta) | {"spec": owned_spec(kind, spec)}


def desired_secret(row: EngineResource, composed: Manifest) -> Manifest:
    """The Secret to apply: identity from the row, content from the composed Secret, our label."""
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


def is_released(row: EngineResource) -> bool:
    """Whether the object is released to another instance. Raises Permanent as :func:`manifest_of`."""
    return manifest_of(row).get(RELEASE) is True


def is_released_at_once(row: EngineResource) -> bool:
    """Whether it is released without waiting for anything. Raises Permanent as :func:`manifest_of`."""
    return manifest_of(row).get(AT_ONCE) is True


def mapping(manifest: Manifest, field: str) -> Manifest:
    """The value of a field that must be a mapping, if it exists. Raises Permanent."""
    value = manifest.get(field) or {}
    if not isinstance(value, dict):
        raise Permanent(f"the manifest's {field} is not a mapping")
    return value


def source_url(application: Manifest) -> str:
    """The repository that an Application reads; empty if it names none."""
    return str(mapping(mapping(application, "spec"), "source").get("repoURL") or "")


def owned_spec(kind: ManagedKind, spec: Manifest) -> Manifest:
    """The fields of ``spec`` that are ours, without nulls."""
    names = kind.owned_spec or tuple(spec)
    return {name: _without_nulls(spec[name]) for name in names if spec.get(name) is not None}


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


def _without_nulls(value: Any) -> Any:
    """``value`` without nulls. The API server drops nulls, so a manifest with one would differ for ever."""
    if isinstance(value, dict):
        return {name: _without_nulls(member) for name, member in value.items() if member is not None}
    return value
