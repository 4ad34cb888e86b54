"""Reads a row of an unowned object, and checks it against the closed list. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from services.common.errors import Poison
from services.common.kubernetes import ApiResource
from services.common.messages import WorkspaceObject
from services.watcher.unowned_kinds import UNOWNED_RESOURCES, UnownedResource


@dataclass(frozen=True, slots=True)
class UnownedManifest:
    """The fields that a row names. All others are left as they are."""

    spec: Mapping[str, Any]
    """Of an existing object texts, or None: the field is removed. Of an object that is created the whole spec."""
    labels: Mapping[str, str | None]
    annotations: Mapping[str, str | None]
    """None: the annotation is removed."""
    finalizers: Mapping[str, bool]
    """Whether each finalizer should be on the object."""


def unowned_resource_of(row: WorkspaceObject) -> UnownedResource:
    """What may be done with objects of the row's kind."""
    return UNOWNED_RESOURCES[row.kind]


def require_known_change(row: WorkspaceObject) -> None:
    """Return if the row can be carried out. Raises Poison."""
    if row.desired == "absent":
        keepers_of(row)
        verb = "delete" if row.uid else ""
    else:
        unowned_manifest_of(row)
        verb = "patch" if row.uid else "create"
    if verb not in {"", "patch", *unowned_resource_of(row).verbs}:
        raise Poison(f"this watcher does not {verb} a {row.kind} that is not a child of a resource")


def keepers_of(row: WorkspaceObject) -> Mapping[ApiResource, list[str]]:
    """By kind, names of the objects any of which keeps this one from deletion. Raises Poison."""
    known = {each.kind: each for each in unowned_resource_of(row).kept_by}
    try:
        named = dict(orjson.loads(row.manifest).get("unless", {}))
    except (orjson.JSONDecodeError, AttributeError, TypeError, ValueError) as error:
        raise Poison(f"not the manifest of a {row.kind}: {error!r}") from error
    names = {kind: each if isinstance(each, list) else [each] for kind, each in named.items()}
    if not all(kind in known and each and all(map(_is_name, each)) for kind, each in names.items()):
        raise Poison(f"a {row.kind} is kept by names of some of {sorted(known)}, or by nothing; not by {named}")
    return {known[kind]: each for kind, each in names.items()}


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def unowned_manifest_of(row: WorkspaceObject) -> UnownedManifest:
    """The changes to the object. Raises Poison if they exceed the closed list."""
    known = unowned_resource_of(row)
    try:
        manifest = orjson.loads(row.manifest)
        parts = {name: dict(manifest[name]) for name in ("spec", "labels", "annotations", "finalizers")}
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise Poison(f"not the manifest of a {row.kind}: {error!r}") from error
    if row.uid:
        _require_listed("spec", parts["spec"], known.spec)
        _require_texts(parts["spec"])
    for name, listed in (("labels", known.labels), ("annotations", known.annotations)):
        _require_listed(name, parts[name], listed)
        _require_texts(parts[name])
    _require_listed("finalizers", parts["finalizers"], known.finalizers)
    if not all(isinstance(each, bool) for each in parts["finalizers"].values()):
        raise Poison("of a finalizer a row says whether it is on")
    return UnownedManifest(**parts)


def _require_listed(part: str, named: Collection[str], listed: Collection[str]) -> None:
    if beyond := sorted(set(named) - set(listed)):
        raise Poison(f"this watcher does not change {part} {', '.join(beyond)} of such an object")


def _require_texts(values: Mapping[str, Any]) -> None:
    if not all(value is None or isinstance(value, str) for value in values.values()):
        raise Poison("fields, labels and annotations are texts, or None")
