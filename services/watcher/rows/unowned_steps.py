"""Decides what to change of one unowned object, from its row and the live object. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from services.common.json_values import dict_of
from services.common.kubernetes import Manifest
from services.common.messages import WorkspaceObject
from services.watcher.rows.unowned_manifest import UnownedManifest, unowned_manifest_of, unowned_resource_of


def new_object(row: WorkspaceObject) -> Manifest:
    """The object to create. It has no owner, and exists until somebody deletes it."""
    resource, manifest = unowned_resource_of(row).resource, unowned_manifest_of(row)
    metadata: Manifest = {
        "name": row.name,
        "namespace": row.namespace,
        "labels": _without_none(manifest.labels),
        "annotations": _without_none(manifest.annotations),
        "finalizers": [name for name, is_on in manifest.finalizers.items() if is_on],
    }
    typed = {"apiVersion": resource.api_version, "kind": resource.kind}
    return typed | {"metadata": metadata, "spec": _without_none(manifest.spec)}


def merge_patch(live: Manifest, manifest: UnownedManifest) -> Manifest | None:
    """The merge patch (RFC 7386) that makes ``live`` agree with ``manifest``; None if it does already.

    The patch names the resource version of ``live``, so it fails if the object has changed. That keeps the finalizers
    of others: the patch replaces the list whole.
    """
    meta = live["metadata"]
    parts = {
        "labels": _changes(dict_of(meta.get("labels")), manifest.labels),
        "annotations": _changes(dict_of(meta.get("annotations")), manifest.annotations),
        "finalizers": _finalizers(meta, manifest.finalizers),
    }
    metadata = {name: part for name, part in parts.items() if part is not None}
    spec = _changes(dict_of(live.get("spec")), manifest.spec)
    if not metadata and spec is None:
        return None
    bound = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
    return {"metadata": bound | metadata} | ({} if spec is None else {"spec": spec})


def _changes(live: Mapping[str, Any], wanted: Mapping[str, Any]) -> Manifest | None:
    return {name: value for name, value in wanted.items() if live.get(name) != value} or None


def _finalizers(meta: Manifest, wanted: Mapping[str, bool]) -> list[str] | None:
    """The whole list of finalizers, others' in their order. Nobody can add one to an object that is being deleted."""
    present = list(meta.get("finalizers") or ())
    kept = [name for name in present if wanted.get(name, True)]
    added = [name for name, is_on in wanted.items() if is_on and name not in present]
    now = kept + ([] if meta.get("deletionTimestamp") else added)
    return now if now != present else None


def _without_none(values: Mapping[str, Any]) -> Manifest:
    return {name: value for name, value in values.items() if value is not None}
