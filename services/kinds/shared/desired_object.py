"""An object in a tenant's namespace as a resource wants it: the content of a row of ``workspace_objects``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from services.common.json_values import canonical, digest
from services.common.messages import MAX_MANIFEST, ChildKind, UnownedKind


@dataclass(frozen=True)
class DesiredObject(ABC):
    """Identity and manifest of the object. Subclasses define the manifest's content."""

    kind: ChildKind | UnownedKind
    name: str

    @property
    @abstractmethod
    def content(self) -> Mapping[str, Mapping[str, Any]]:
        """The parts of its manifest."""

    @cached_property
    def manifest(self) -> str:
        """The content as canonical JSON."""
        return canonical({part: {**values} for part, values in self.content.items()})

    @cached_property
    def digest(self) -> str:
        """Digest of the manifest."""
        return digest(self.manifest)

    @property
    def key(self) -> tuple[str, str]:
        """Kind and name."""
        return (self.kind.value, self.name)

    @property
    def is_oversized(self) -> bool:
        """Whether it must not be written: Kafka Connect or the API server would stop at it, for all tenants."""
        return len(self.manifest.encode()) > MAX_MANIFEST
