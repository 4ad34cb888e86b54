"""What was found of an instance's Argo CD that decides what may be applied there.

Written by ``engine_inspection``, read by the appliers, on one event loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from services.common.errors import RefusedInput, Wait
from services.common.kubernetes import Manifest
from services.kinds.shared.catalogue import Entry


@dataclass(slots=True)
class EngineState:
    """Of one instance."""

    is_inspected: bool = False
    """Until it is, nothing new is deployed either."""
    refusal: str = ""
    """Why nothing new is deployed; empty if it is."""
    is_inaccessible: bool = False
    """The agent may not look at it: its rights, or its namespace with them, are gone."""
    version: str = ""
    """Of its Argo CD; empty if that is not to be seen."""
    compares_within: timedelta | None = None
    """In which time it compares each Application anew by itself; None: it does not, or nobody knows."""
    unserved: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Kinds and fields that we can do without, and the cluster's CRDs would drop."""

    def note_verdict(self, refusal: str, version: str = "") -> None:
        """It was inspected."""
        self.is_inspected, self.refusal, self.version = True, refusal, version

    def require_acceptance(self, entry: Entry) -> None:
        """Raises RefusedInput that says what ``entry`` does if nothing new is deployed, Wait if that is not known."""
        if not self.is_inspected:
            raise Wait("this Argo CD was not inspected yet")
        if self.refusal:
            raise RefusedInput(entry.text())

    def served_part(self, manifest: Manifest) -> Manifest:
        """``manifest`` without what would be dropped: it would differ from the live object for ever."""
        for kind, path in self.unserved:
            if manifest["kind"] == kind:
                manifest = _without(manifest, path)
        return manifest


def _without(manifest: Manifest, path: tuple[str, ...]) -> Manifest:
    first, *rest = path
    inner = manifest.get(first)
    if not rest:
        return {name: value for name, value in manifest.items() if name != first}
    return manifest | {first: _without(inner, tuple(rest))} if isinstance(inner, dict) else manifest
