"""Tells changes that users made from the echo of our own status writes. Asked by :mod:`feed` before it sends."""

from __future__ import annotations

from services.common.kube import Manifest
from services.watcher.commands import finalizers, is_deleting

Fingerprint = tuple[int, bool, tuple[str, ...]]


def fingerprint(manifest: Manifest) -> Fingerprint:
    """All of an object that can change what the planner decides; the generation stands for the spec."""
    meta = manifest["metadata"]
    return (meta.get("generation", 0), is_deleting(meta), finalizers(meta))


class Echoes:
    """What was last sent, by uid. Holds nothing of objects that are gone."""

    def __init__(self) -> None:
        self._sent: dict[str, Fingerprint] = {}

    def __len__(self) -> int:
        return len(self._sent)

    def is_echo(self, manifest: Manifest) -> bool:
        """Whether the planner has been told all that matters of this state."""
        return self._sent.get(manifest["metadata"]["uid"]) == fingerprint(manifest)

    def sent(self, manifest: Manifest) -> None:
        """The publisher took a command about this state."""
        self._sent[manifest["metadata"]["uid"]] = fingerprint(manifest)

    def forget(self, manifest: Manifest) -> None:
        """The object is gone."""
        self._sent.pop(manifest["metadata"]["uid"], None)

    def clear(self) -> None:
        """A new list begins; it will tell what exists."""
        self._sent.clear()
