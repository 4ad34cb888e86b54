"""What a kind's rules see of a resource: the spec, or some members of it, and the declared parts of the rest.

The watcher projects each resource, and sends it again when its projection differs; the planner stores the projection
with the row. So another controller's write to a declared member of the status is sent, and our own write, or a label
that is not declared, is not. A part above its limit is left out whole, with the reason: nobody may mistake a half for
the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import orjson

from services.common.errors import Permanent
from services.common.json_values import bounded, dict_of, dicts_of, digest, text_of, texts_of
from services.kinds.shared.resource import PlainResource
from services.kinds.shared.spec_text import SpecT, parsed

MAX_METADATA_BYTES = 32 * 1024
MAX_STATUS_BYTES = 256 * 1024
"""Limit of each part, as JSON. The API server limits the length of a label, but not their number."""


@dataclass(frozen=True)
class Projected:
    """The projection of one resource, as in commands and rows.

    A text is empty if its kind declares nothing of this part.
    """

    metadata: str = ""
    """JSON in the form of a manifest's metadata."""
    metadata_omitted: str = ""
    """Why ``metadata`` was left out, for the user; empty if it was not."""
    status: str = ""
    """JSON in the form of a manifest's status."""
    status_omitted: str = ""

    @cached_property
    def digest(self) -> str:
        """A digest that identifies the projection."""
        return digest("\0".join((self.metadata, self.metadata_omitted, self.status, self.status_omitted)))


NOTHING_PROJECTED = Projected()


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """The parts that a kind declares."""

    labels: Callable[[str], bool] | None = None
    """Whether the label with this key is declared."""
    annotations: frozenset[str] = frozenset()
    """Keys of annotations. None whose value may contain a secret, such as the last applied configuration."""
    finalizers: frozenset[str] = frozenset()
    """Our finalizers, which rules add and remove."""
    owner_references: bool = False
    status_members: frozenset[str] = frozenset()
    """Members that other controllers write. None of ours: each of our own writes would be sent."""
    spec_members: frozenset[str] | None = None
    """Members of the spec that its rules read; no others leave the cluster. None: all."""
    made_members: Mapping[str, Callable[[Mapping[str, Any]], Any]] = field(default_factory=dict)
    """Additional members by name, and how each is made of the spec: a summary that rules need."""

    @property
    def has_metadata(self) -> bool:
        """Whether any part of the metadata is declared."""
        return self.labels is not None or bool(self.annotations or self.finalizers) or self.owner_references

    def project_spec(self, spec: Any) -> Any:
        """The part of a spec that is sent. The spec may be anything that its CRD admits."""
        if self.spec_members is None:
            return spec
        whole = dict_of(spec)
        members = {name: value for name, value in whole.items() if name in self.spec_members}
        return members | {name: make(whole) for name, make in self.made_members.items()}

    def project(self, manifest: Mapping[str, Any]) -> Projected:
        """The projection of the metadata and the status of the resource in ``manifest``."""
        if not self.has_metadata and not self.status_members:
            return NOTHING_PROJECTED
        metadata = status = ("", "")
        if self.has_metadata:
            metadata = _bounded(self._metadata(manifest["metadata"]), MAX_METADATA_BYTES, "metadata")
        if self.status_members:
            shown = dict_of(manifest.get("status"))
            members = {name: value for name, value in shown.items() if name in self.status_members}
            status = _bounded(members, MAX_STATUS_BYTES, "status")
        return Projected(*metadata, *status)

    def _metadata(self, meta: Mapping[str, Any]) -> Mapping[str, Any]:
        parts: dict[str, Any] = {}
        if self.labels is not None:
            parts["labels"] = {key: value for key, value in dict_of(meta.get("labels")).items() if self.labels(key)}
        if self.annotations:
            annotations = dict_of(meta.get("annotations"))
            parts["annotations"] = {key: value for key, value in annotations.items() if key in self.annotations}
        if self.finalizers:
            parts["finalizers"] = sorted(self.finalizers.intersection(texts_of(meta.get("finalizers"))))
        if self.owner_references:
            parts["ownerReferences"] = dicts_of(meta.get("ownerReferences"))
        return parts


NOTHING = Projection()


@dataclass(frozen=True, slots=True)
class OwnerReference:
    """An owner of a resource, as the API server's garbage collector understands it."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool


NO_OWNER = OwnerReference("", "", "", "", controller=False)
"""The controller of a resource without one."""


@dataclass(frozen=True, slots=True)
class ProjectedMetadata:
    """The declared parts of a resource's metadata."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    owner_references: tuple[OwnerReference, ...]
    finalizers: frozenset[str] = frozenset()
    declared: frozenset[str] = frozenset()
    """Names of the declared parts. Others are unknown."""


def metadata_of(resource: PlainResource) -> ProjectedMetadata:
    """The declared metadata of ``resource``.

    Raises Permanent, with a message for the user, if it was left out.
    """
    if resource.metadata_omitted:
        raise Permanent(resource.metadata_omitted)
    meta = _object(resource.metadata)
    return ProjectedMetadata(
        labels=_texts(meta.get("labels")),
        annotations=_texts(meta.get("annotations")),
        owner_references=tuple(map(_owner_reference, dicts_of(meta.get("ownerReferences")))),
        finalizers=frozenset(texts_of(meta.get("finalizers"))),
        declared=frozenset(meta),
    )


def labels_of(metadata: str) -> Mapping[str, str]:
    """The declared labels in ``metadata``, JSON text; none if it was left out."""
    return _texts(_object(metadata).get("labels"))


def controller_of(metadata: str) -> OwnerReference | None:
    """The controller in ``metadata``, JSON text; None: unknown."""
    meta = _object(metadata)
    if "ownerReferences" not in meta:
        return None
    references = map(_owner_reference, dicts_of(meta["ownerReferences"]))
    return next((each for each in references if each.controller), NO_OWNER)


def status_of(model: type[SpecT], resource: PlainResource) -> SpecT:
    """The declared status of ``resource``. Raises Permanent if it was left out or does not match ``model``."""
    if resource.status_omitted:
        raise Permanent(resource.status_omitted)
    return parsed(model, resource.status or "{}", "status")


def _bounded(part: Mapping[str, Any], limit: int, subject: str) -> tuple[str, str]:
    """The part as JSON text. Equal parts have equal texts."""
    return bounded(part, limit, subject, orjson.OPT_SORT_KEYS)


def _owner_reference(value: Mapping[str, Any]) -> OwnerReference:
    return OwnerReference(
        api_version=text_of(value.get("apiVersion")),
        kind=text_of(value.get("kind")),
        name=text_of(value.get("name")),
        uid=text_of(value.get("uid")),
        controller=value.get("controller") is True,
    )


def _texts(value: Any) -> Mapping[str, str]:
    return {key: text for key, text in dict_of(value).items() if isinstance(text, str)}


def _object(text: str) -> dict[str, Any]:
    """The object in ``text``, which comes from outside."""
    try:
        return dict_of(orjson.loads(text)) if text else {}
    except orjson.JSONDecodeError:
        return {}
