"""What of a resource a kind's rules see: the spec, or some members of it, and what it declares of the rest.

The watcher projects each resource and sends it again when its projection differs; the planner keeps the projection
with the row. So a write of another controller to a member of the status that is declared here is news, and a write of
our own, or a label that nobody asked for, is not. A part beyond its limit is left out whole, with the reason: nobody
may take half of it for all.
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
"""Of each, as JSON. The API server bounds the length of a label, and the number of nothing."""


@dataclass(frozen=True)
class Projected:
    """The projection of one resource, as commands and rows have it. Empty texts: its kind declares nothing of this."""

    metadata: str = ""
    """JSON in the form of a manifest's metadata."""
    metadata_omitted: str = ""
    """Why ``metadata`` was left out, for the user; empty if it was not."""
    status: str = ""
    """JSON in the form of a manifest's status."""
    status_omitted: str = ""

    @cached_property
    def digest(self) -> str:
        """Tells projections apart."""
        return digest("\0".join((self.metadata, self.metadata_omitted, self.status, self.status_omitted)))


NOTHING_PROJECTED = Projected()


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """The parts that a kind declares."""

    labels: Callable[[str], bool] | None = None
    """Whether the label with this key is one of them."""
    annotations: frozenset[str] = frozenset()
    """Keys. None whose value may hold a secret, such as the last applied configuration."""
    finalizers: frozenset[str] = frozenset()
    """Ours, which rules put on and take off."""
    owner_references: bool = False
    status_members: frozenset[str] = frozenset()
    """Members that other controllers write. None of ours: each write of our own would be news."""
    spec_members: frozenset[str] | None = None
    """Members of the spec that its rules read; no other leaves the cluster. None: all of it."""
    made_members: Mapping[str, Callable[[Mapping[str, Any]], Any]] = field(default_factory=dict)
    """Members that are sent with those, by name, and how each is made of the spec: what rules need of it, in brief."""

    @property
    def has_metadata(self) -> bool:
        """Whether any part of the metadata is declared."""
        return self.labels is not None or bool(self.annotations or self.finalizers) or self.owner_references

    def project_spec(self, spec: Any) -> Any:
        """What is sent of the spec of a resource, which may be anything that its CRD admits."""
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
    """An owner of a resource, as the API server's garbage collector takes it."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool


NO_OWNER = OwnerReference("", "", "", "", controller=False)
"""Of a resource that nobody controls."""


@dataclass(frozen=True, slots=True)
class ProjectedMetadata:
    """The declared parts of a resource's metadata."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    owner_references: tuple[OwnerReference, ...]
    finalizers: frozenset[str] = frozenset()
    declared: frozenset[str] = frozenset()
    """Names of the parts that its kind declares; of all others nothing is known."""


def metadata_of(resource: PlainResource) -> ProjectedMetadata:
    """What is declared of the metadata of ``resource``. Raises Permanent, with a message for the user, if left out."""
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
    """The declared labels in ``metadata``, JSON text; of what was left out none."""
    return _texts(_object(metadata).get("labels"))


def controller_of(metadata: str) -> OwnerReference | None:
    """The controller that ``metadata``, JSON text, names; None: it does not say whether there is one."""
    meta = _object(metadata)
    if "ownerReferences" not in meta:
        return None
    references = map(_owner_reference, dicts_of(meta["ownerReferences"]))
    return next((each for each in references if each.controller), NO_OWNER)


def status_of(model: type[SpecT], resource: PlainResource) -> SpecT:
    """What is declared of the status of ``resource``. Raises Permanent if it was left out or does not fit ``model``."""
    if resource.status_omitted:
        raise Permanent(resource.status_omitted)
    return parsed(model, resource.status or "{}", "status")


def _bounded(part: Mapping[str, Any], limit: int, subject: str) -> tuple[str, str]:
    """The same part has the same text."""
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
    """It crossed a wire."""
    try:
        return dict_of(orjson.loads(text)) if text else {}
    except orjson.JSONDecodeError:
        return {}
