"""Translates objects of the API server to commands.

Pure: :mod:`follow_session` calls it for each event it passes on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from services.common.json_values import OMITTED, bounded, dict_of, text_of
from services.common.kubernetes import ApiResource, Manifest
from services.common.messages import Command, ResourceChanged, ResourceGone, ResyncCompleted
from services.common.messages.command import CommandEvent
from services.common.ownership import WATCHER_FIELD_MANAGER
from services.kinds.shared.projection import MAX_STATUS_BYTES, NOTHING, Projection

Content = Callable[[Manifest, str], tuple[str, str]]
"""From a resource and the uid of its namespace to its spec as JSON, and why that was left out (empty: it was not)."""
StateVersion = Hashable
"""All of an object that can change what the planner decides. It ignores our own writes of the status."""
TakeStateVersion = Callable[[Manifest], StateVersion]
LastSent = dict[str, StateVersion]
"""By uid, the state of each existing object that was sent since the last list began."""


@dataclass(frozen=True, slots=True)
class Translator:
    """Builds commands about one kind of resource in one workspace."""

    workspace: str
    kind: ApiResource
    content: Content
    projection: Projection = NOTHING
    recalls_status: bool = False

    def changed(self, manifest: Manifest, epoch: int, seen_at: datetime, namespace_uid: str = "") -> Command:
        """The command that the resource exists, as in ``manifest``."""
        meta = manifest["metadata"]
        spec, omitted = self.content(manifest, namespace_uid)
        projected = self.projection.project(manifest)
        event = ResourceChanged(
            api_version=self.kind.api_version,
            kind=self.kind.kind,
            name=meta["name"],
            uid=meta["uid"],
            resource_version=meta["resourceVersion"],
            generation=meta.get("generation", 0),
            epoch=epoch,
            deleting=is_deleting(meta),
            finalizers=finalizers(meta),
            actor=actor(meta),
            spec=spec,
            spec_omitted=omitted,
            created_at=created_at(meta),
            metadata=projected.metadata,
            metadata_omitted=projected.metadata_omitted,
            status=projected.status,
            status_omitted=projected.status_omitted,
            recalled_status=recalled_status(manifest) if self.recalls_status else "",
        )
        return self._command(meta.get("namespace", ""), event, seen_at)

    def gone(self, manifest: Manifest, seen_at: datetime) -> Command:
        """The command that the resource no longer exists; ``manifest`` is its last state."""
        meta = manifest["metadata"]
        event = ResourceGone(self.kind.kind, meta["name"], meta["uid"], meta["resourceVersion"])
        return self._command(meta.get("namespace", ""), event, seen_at)

    def resync_completed(self, epoch: int, seen_at: datetime) -> Command:
        """The command that all resources were sent since ``epoch`` began.

        It concerns every tenant, so it names none.
        """
        event = ResyncCompleted(self.kind.kind, epoch)
        return Command(source=self.workspace, workspace="", namespace="", seen_at=seen_at, event=event)

    def _command(self, namespace: str, event: CommandEvent, seen_at: datetime) -> Command:
        return Command(self.workspace, self.workspace, namespace, seen_at, event)


def state_version(manifest: Manifest, projection: Projection = NOTHING) -> StateVersion:
    """The version of an object whose generation stands for its spec, with what its kind declares of the rest."""
    meta = manifest["metadata"]
    projected = projection.project(manifest)
    return (meta.get("generation", 0), is_deleting(meta), finalizers(meta), projected.digest)


def is_deleting(meta: Manifest) -> bool:
    """Whether the object is being deleted, and waits for finalizers."""
    return bool(meta.get("deletionTimestamp"))


def finalizers(meta: Manifest) -> tuple[str, ...]:
    """The finalizers that a deletion waits for."""
    return tuple(meta.get("finalizers") or ())


def changed_at(meta: Manifest, projection: Projection = NOTHING) -> str:
    """When the newest change was made that may matter, as Kubernetes writes times; empty if it does not say.

    A write to the status matters if another controller made it, and if the kind declares members of the status.
    """
    writes = [
        entry for entry in meta.get("managedFields") or () if not _is_status(entry) or _matters(entry, projection)
    ]
    times = [meta.get("creationTimestamp"), meta.get("deletionTimestamp"), *(entry.get("time") for entry in writes)]
    return max(map(text_of, times))


def created_at(meta: Manifest) -> int:
    """Milliseconds since 1970, in whole seconds as Kubernetes records them; 0 if it does not say."""
    try:
        return int(datetime.fromisoformat(meta["creationTimestamp"]).timestamp()) * 1000
    except (KeyError, TypeError, ValueError):
        return 0


def spec_within(limit: int, projection: Projection = NOTHING) -> Content:
    """Makes a function that returns the declared part of a spec, if it has at most ``limit`` bytes."""
    return lambda manifest, _: bounded_spec(projection.project_spec(manifest.get("spec")), limit)


def bounded_spec(spec: Any, limit: int) -> tuple[str, str]:
    """The spec as JSON, and why it was left out: "" if it was not."""
    return bounded({} if spec is None else spec, limit, "spec")


def recalled_status(manifest: Manifest) -> str:
    """The status of a custom resource as JSON; "" if it has none, or too long a one."""
    text, omitted = bounded(dict_of(manifest.get("status")), MAX_STATUS_BYTES, "status")
    return "" if omitted or text == OMITTED else text


def actor(meta: Manifest) -> str:
    """Field manager of the newest change that was not to the status, "" if none is recorded.

    Times have whole seconds; of equal ones the later entry counts.
    """
    newest: Manifest = {}
    for entry in meta.get("managedFields") or ():
        if not _is_status(entry) and entry.get("time", "") >= newest.get("time", ""):
            newest = entry
    return str(newest.get("manager", ""))


def _is_status(entry: Manifest) -> bool:
    return entry.get("subresource") == "status"


def _matters(entry: Manifest, projection: Projection) -> bool:
    return bool(projection.status_members) and entry.get("manager") != WATCHER_FIELD_MANAGER
