"""Decides what is to be changed of one unowned object, from its row and what the API server has. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from services.common.json_values import dict_of
from services.common.kubernetes import Manifest
from services.common.messages import WorkspaceObject
from services.watcher.rows.unowned_manifest import UnownedManifest, unowned_manifest_of, unowned_resource_of


def new_object(row: WorkspaceObject) -> Manifest:
    """The object as it is made: it has no owner, and goes when somebody deletes it."""
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
    """The patch (RFC 7386) after which ``live`` says what ``manifest`` does; None if it says so already.

    It names the version of ``live``, which no other object ever has: it fails if the object has changed since, so the
    list of finalizers, which is replaced whole, never loses one of somebody else's.
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
    """The whole list, others' in their order. On what is being deleted the API server lets nobody put another one."""
    present = list(meta.get("finalizers") or ())
    kept = [name for name in present if wanted.get(name, True)]
    added = [name for name, is_on in wanted.items() if is_on and name not in present]
    now = kept + ([] if meta.get("deletionTimestamp") else added)
    return now if now != present else None


def _without_none(values: Mapping[str, Any]) -> Manifest:
    return {name: value for name, value in values.items() if value is not None}
