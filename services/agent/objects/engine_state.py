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
    """The state of one instance."""

    is_inspected: bool = False
    """Before the first inspection nothing new is deployed."""
    refusal: str = ""
    """Why nothing new is deployed; empty if it is."""
    is_inaccessible: bool = False
    """The agent may not read the namespace: its rights, perhaps with the namespace, are gone."""
    version: str = ""
    """Version of its Argo CD; empty if unknown."""
    compares_within: timedelta | None = None
    """In which time Argo CD compares each Application anew; None: it does not by itself, or that is unknown."""
    unserved: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Optional kinds and fields that the cluster's CRDs would drop."""

    def note_verdict(self, refusal: str, version: str = "") -> None:
        """Record an inspection."""
        self.is_inspected, self.refusal, self.version = True, refusal, version

    def require_acceptance(self, entry: Entry) -> None:
        """Return if new objects may be deployed.

        Raises RefusedInput with the text of ``entry`` if they may not, Wait if that is unknown.
        """
        if not self.is_inspected:
            raise Wait("this Argo CD was not inspected yet")
        if self.refusal:
            raise RefusedInput(entry.text())

    def served_part(self, manifest: Manifest) -> Manifest:
        """``manifest`` without fields that would be dropped: it would differ from the live object for ever."""
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
