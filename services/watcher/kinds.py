"""The kinds of resource that the watcher follows: all of the API, and the Secrets that are made for them."""

from __future__ import annotations

from dataclasses import dataclass

from services.common.api.names import NAMES, SECRET_TYPES
from services.common.json_values import dict_of, text_of
from services.common.kube import CUSTOM_RESOURCES, SECRET, Manifest, Resource


@dataclass(frozen=True, slots=True)
class Kind:
    """How one kind is followed."""

    resource: Resource
    parts: tuple[str, ...] = ("",)
    """Field selectors of what is followed."""
    metadata_only: bool = False
    """Whether no more than the metadata is followed, and each resource is read when something is said of it."""
    reference: str = ""
    """The part of the spec that names another resource of the same namespace."""
    refers_to: Resource | None = None
    """Of which kind that is."""

    @property
    def name(self) -> str:
        """As manifests, commands and metrics say it."""
        return self.resource.kind

    def reference_of(self, manifest: Manifest) -> str:
        """Name of what a resource refers to, "" if nothing. The spec may be anything a user wrote."""
        return text_of(dict_of(manifest.get("spec")).get(self.reference)) if self.reference else ""


_RESOURCES = {resource.kind: resource for resource in (*CUSTOM_RESOURCES, SECRET)}
CUSTOM_KINDS = tuple(
    Kind(_RESOURCES[names.kind], reference=names.reference, refers_to=_RESOURCES.get(names.refers_to))
    for names in NAMES
)
TYPE_IS = "type="
SECRETS = Kind(SECRET, parts=tuple(f"{TYPE_IS}{secret_type}" for secret_type in SECRET_TYPES), metadata_only=True)
KINDS = (*CUSTOM_KINDS, SECRETS)

BY_NAME = {kind.name: kind.resource for kind in CUSTOM_KINDS}
"""Those that have a status for us to write."""
