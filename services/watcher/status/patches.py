"""The JSON patches (RFC 6902) that are all this service ever writes. Pure; :mod:`status_writer` sends them.

Each begins with a test of the uid: a resource that was deleted and created anew is another one.
"""

from __future__ import annotations

import orjson

from services.common.kubernetes import Manifest
from services.kinds.shared.names import FINALIZER

Patch = list[Manifest]


def replace_status(uid: str, status: str) -> Patch:
    """Replace the whole status by ``status``, JSON text, which goes into the request as it is."""
    return [_same(uid), {"op": "add", "path": "/status", "value": orjson.Fragment(status)}]


def release(manifest: Manifest) -> Patch:
    """Take our finalizer from ``manifest``'s list, provided the list is still what ``manifest`` says."""
    present = manifest["metadata"]["finalizers"]
    remaining = [finalizer for finalizer in present if finalizer != FINALIZER]
    path = "/metadata/finalizers"
    return [
        _same(manifest["metadata"]["uid"]),
        {"op": "test", "path": path, "value": present},
        {"op": "replace", "path": path, "value": remaining},
    ]


def has_finalizer(manifest: Manifest) -> bool:
    """Whether our finalizer is on the object."""
    return FINALIZER in (manifest["metadata"].get("finalizers") or ())


def _same(uid: str) -> Manifest:
    return {"op": "test", "path": "/metadata/uid", "value": uid}
