"""Events and specs for the planner's tests: short to write, complete in content."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from services.common.messages import (
    Applied,
    Command,
    Failed,
    Observation,
    Removed,
    ResourceChanged,
    ResourceGone,
    ResyncCompleted,
    StatusReported,
)
from services.common.messages.observation import ObservationEvent
from services.planner.events import Event

START = datetime(2026, 5, 4, 12, tzinfo=UTC)
WORKSPACE = "local"
NAMESPACE = "team-a"
API_VERSION = "managed-gitops.redhat.com/v1alpha1"


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


def traceparent(second: int) -> str:
    return f"00-{second:032x}-{second:016x}-01"


def spec(**changes: Any) -> dict[str, Any]:
    """A valid spec; a change to a part (a dict) is merged into that part."""
    content: dict[str, Any] = {
        "source": {"repoURL": "https://git.example.com/team-a/config.git", "path": "apps/web"},
        "type": "automated",
    }
    for name, change in changes.items():
        part = content.get(name, {})
        content[name] = part | change if isinstance(part, dict) and isinstance(change, dict) else change
    return content


def changed(  # noqa: PLR0913 - each test names the few that matter to it
    second: int,
    name: str = "web",
    *,
    uid: str = "uid-1",
    version: int | None = None,
    generation: int = 1,
    epoch: int = 1,
    deleting: bool = False,
    finalizers: tuple[str, ...] = (),
    namespace: str = NAMESPACE,
    api_version: str = API_VERSION,
    content: dict[str, Any] | str | None = None,
    omitted: str = "",
    partition: int = 0,
) -> Event:
    text = content if isinstance(content, str) else json.dumps(spec() if content is None else content)
    event = ResourceChanged(
        api_version=api_version,
        kind="GitOpsDeployment",
        name=name,
        uid=uid,
        resource_version=str(second if version is None else version),
        generation=generation,
        epoch=epoch,
        deleting=deleting,
        finalizers=finalizers,
        actor="kubectl",
        spec=text,
        spec_omitted=omitted,
    )
    return Event(Command(WORKSPACE, WORKSPACE, namespace, at(second), event), partition, traceparent(second))


def gone(second: int, name: str = "web", *, uid: str = "uid-1", namespace: str = NAMESPACE) -> Event:
    event = ResourceGone("GitOpsDeployment", name, uid, str(second))
    return Event(Command(WORKSPACE, WORKSPACE, namespace, at(second), event), 0, traceparent(second))


def resync(second: int, epoch: int, partition: int = 0) -> Event:
    event = ResyncCompleted("GitOpsDeployment", epoch)
    return Event(Command(WORKSPACE, "", "", at(second), event), partition, traceparent(second))


def observed(
    second: int,
    event: ObservationEvent,
    *,
    instance: str,
    kind: str = "Application",
    name: str = "gitopsdepl-uid-1",
    namespace: str = NAMESPACE,
) -> Event:
    message = Observation(WORKSPACE, namespace, instance, kind, name, at(second), event)
    return Event(message, 0, traceparent(second))


def status(version: int = 1, **parts: Any) -> StatusReported:
    return StatusReported(json.dumps(parts), str(version))


SYNCED = {"status": "Synced", "revision": "abc"}

__all__ = ["SYNCED", "Applied", "Failed", "Removed", "changed", "gone", "observed", "resync", "spec", "status"]
