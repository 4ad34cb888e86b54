"""Reads and checks what a row of a child object says. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from services.common.errors import Poison
from services.common.kubernetes import ApiResource, Manifest
from services.common.messages import ChildKind, WorkspaceObject
from services.kinds.registry import REGISTRY
from services.watcher.child_kinds import CHILD_RESOURCES
from services.watcher.followed_kinds import CUSTOM_KINDS, FOREIGN_KINDS, by_name
from services.watcher.rows.unowned_manifest import require_known_change
from services.watcher.unowned_kinds import UNOWNED_RESOURCES

NAMED_BY_OTHERS = {ChildKind.SECRET_COPY.value: 0, ChildKind.MANAGED_ENVIRONMENT.value: 1}
"""Kinds of objects that other child objects name. They are applied first."""
OTHERS = len(NAMED_BY_OTHERS)
OWNERS = by_name((*CUSTOM_KINDS, *FOREIGN_KINDS))
"""Kinds of resources that want objects. Those of other services want to be removed themselves."""


@dataclass(frozen=True, slots=True)
class SecretSource:
    """The Secret that is copied, and the type of the copy."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class ChildManifest:
    """The fields of a child object that are ours."""

    labels: Mapping[str, str]
    content: Manifest | SecretSource
    """The whole spec; for a copied Secret where its content comes from."""


def resource_of(row: WorkspaceObject) -> ApiResource:
    """The kind of object that the row is about."""
    unowned = UNOWNED_RESOURCES.get(row.kind)
    return unowned.resource if unowned is not None else CHILD_RESOURCES[row.kind].resource


def owner_resource_of(row: WorkspaceObject) -> ApiResource:
    """The kind of the object's controller."""
    return OWNERS[row.owner_kind].resource


def wave_of(row: WorkspaceObject) -> int:
    """The row's position within its namespace: objects are created after those they name, and removed before."""
    wave = NAMED_BY_OTHERS.get(row.kind, OTHERS)
    return wave if row.desired == "present" else 2 * OTHERS + 1 - wave


def require_known_child(row: WorkspaceObject) -> WorkspaceObject:
    """Returns ``row`` if it can be applied. Raises Poison otherwise."""
    if row.kind not in CHILD_RESOURCES and row.kind not in UNOWNED_RESOURCES:
        raise Poison(f"this watcher applies no object of kind {row.kind!r}")
    owner = OWNERS.get(row.owner_kind)
    if owner is None or owner.resource.api_version != row.owner_api_version or not (row.owner_name and row.owner_uid):
        raise Poison(f"this watcher knows no owner {row.owner_api_version} {row.owner_kind} {row.owner_name!r}")
    if row.desired not in {"present", "absent"}:
        raise Poison(f"an object is present or absent, not {row.desired!r}")
    if row.kind in UNOWNED_RESOURCES:
        require_known_change(row)
    elif row.desired == "present":
        manifest_of(row)
    return row


def manifest_of(row: WorkspaceObject) -> ChildManifest:
    """The object that the row wants. Raises Poison."""
    try:
        manifest = orjson.loads(row.manifest)
        labels, annotations = _texts(manifest["labels"]), _texts(manifest["annotations"])
        spec = dict(manifest["spec"])
        content = _secret_source(spec) if row.kind == ChildKind.SECRET_COPY else spec
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise Poison(f"not the manifest of a {row.kind}: {error!r}") from error
    _require_listed(row.kind, labels, annotations, spec)
    if isinstance(content, SecretSource) and content.name == row.name:
        raise Poison(f"Secret {row.namespace}/{row.name} is to be a copy of itself")
    return ChildManifest(labels, content)


def _require_listed(kind: str, labels: Iterable[str], annotations: Iterable[str], spec: Mapping[str, Any]) -> None:
    """Raises Poison if the object would have anything outside the closed list."""
    known = CHILD_RESOURCES[kind]
    beyond = {
        "spec": [path for path in _paths(spec) if path not in known.spec],
        "labels": [key for key in labels if not known.is_label(key)],
        "annotations": [*annotations],
    }
    if found := [f"{part} {name}" for part, names in beyond.items() for name in sorted(names)]:
        raise Poison(f"this watcher gives a {kind} no {', '.join(found)}")


def _paths(spec: Mapping[str, Any]) -> Iterator[str]:
    """Paths of all fields, those of nested objects with dots. An empty object counts as a field."""
    for name, value in spec.items():
        nested = [*_paths(value)] if isinstance(value, Mapping) else ()
        yield from (f"{name}.{path}" for path in nested)
        if not nested:
            yield name


def _secret_source(spec: Mapping[str, Any]) -> SecretSource:
    """The source of a copied Secret. A copy always has a type that is made for us, so rows create no other Secrets."""
    source = SecretSource(spec["from"], spec["type"])
    if not isinstance(source.name, str) or source.type not in REGISTRY.secret_types:
        raise ValueError(f"copies have one of the types {', '.join(REGISTRY.secret_types)}")
    return source


def _texts(value: Any) -> dict[str, str]:
    if not all(isinstance(each, str) for pair in dict(value).items() for each in pair):
        raise ValueError("labels and annotations are texts")
    return dict(value)
