"""Decides what to do about one child object, from its row and the live object. Pure.

An object is ours if its controller is the owner that the row names, by uid. Any other object of the name is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from services.common.errors import AskedAgain, Permanent
from services.common.kubernetes import Manifest
from services.common.messages import WorkspaceObject
from services.watcher.rows.child_manifest import ChildManifest, resource_of

UNCHANGEABLE = ("type", "immutable")
"""Fields of a Secret that cannot be changed: an object that differs in one of them is replaced."""


def desired_object(row: WorkspaceObject, manifest: ChildManifest, content: Manifest) -> Manifest:
    """The object to apply; ``content`` has its fields besides the metadata.

    The owner reference does not block the owner's deletion: that would need a right to the owner's finalizers.
    """
    resource = resource_of(row)
    owner = {
        "apiVersion": row.owner_api_version,
        "kind": row.owner_kind,
        "name": row.owner_name,
        "uid": row.owner_uid,
        "controller": True,
    }
    metadata: Manifest = {"name": row.name, "namespace": row.namespace, "ownerReferences": [owner]}
    if manifest.labels:  # to apply an empty map again would be a change
        metadata["labels"] = dict(manifest.labels)
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata} | content


def bound_to(live: Manifest, desired: Manifest) -> Manifest:
    """``desired``, bound to the live object in exactly the version that was read.

    The uid causes a conflict if the object is gone. The version causes one if the object was changed or replaced.
    """
    version = {name: live["metadata"][name] for name in ("uid", "resourceVersion")}
    return desired | {"metadata": desired["metadata"] | version}


def controller_of(live: Manifest) -> Mapping[str, Any] | None:
    """The reference to the object's controller."""
    references = live["metadata"].get("ownerReferences") or ()
    return next((each for each in references if each.get("controller")), None)


def is_ours(row: WorkspaceObject, live: Manifest) -> bool:
    """Whether the object is controlled by the row's owner."""
    controller = controller_of(live)
    return controller is not None and controller["uid"] == row.owner_uid


def require_applicable(row: WorkspaceObject, live: Manifest) -> None:
    """Return if the object of this name may be changed.

    Raises AskedAgain while an object that is being deleted has the name: the planner follows it, and writes the row
    anew once it is gone or is ours. Raises Permanent if an object of somebody else has the name.
    """
    if live["metadata"].get("deletionTimestamp"):
        raise AskedAgain(f"{_name(row)} is being deleted, and made anew for {_owner(row)} once it is gone")
    if is_ours(row, live):
        return
    controller = controller_of(live)
    if controller is None:
        raise Permanent(f"{_name(row)} was not made for {_owner(row)}: delete it, or give it another name")
    if (controller["kind"], controller["name"]) == (row.owner_kind, row.owner_name):
        raise AskedAgain(f"{_name(row)} is of a former {_owner(row)}, and waits for the garbage collector")
    raise Permanent(
        f"{_name(row)} cannot be made for {_owner(row)}: it belongs to {controller['kind']} {controller['name']}"
    )


def has_to_be_replaced(live: Manifest, desired: Manifest) -> bool:
    """Whether the object can become as desired only if it is replaced."""
    return any((live.get(field) or None) != desired.get(field) for field in UNCHANGEABLE)


def uid_to_delete(row: WorkspaceObject, live: Manifest | None) -> str | None:
    """The uid of the object to delete; None if no object of ours is left to delete."""
    if live is None or live["metadata"].get("deletionTimestamp") or not is_ours(row, live):
        return None
    uid = str(live["metadata"]["uid"])
    return uid if row.uid in {"", uid} else None


def _name(row: WorkspaceObject) -> str:
    return f"{resource_of(row).kind} {row.namespace}/{row.name}"


def _owner(row: WorkspaceObject) -> str:
    return f"{row.owner_kind} {row.owner_name}"
