"""Events and specs for the planner's tests: short to write, complete in content."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from services.common.messages import (
    Applied,
    Checked,
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
from services.common.times import rfc3339
from services.kinds.registry import REGISTRY
from services.planner.domain.events import Event
from services.watcher.commands.translation import Translator, spec_within

START = datetime(2026, 5, 4, 12, tzinfo=UTC)
WORKSPACE = "local"
NAMESPACE = "team-a"
API_VERSION = "managed-gitops.redhat.com/v1alpha1"
MAX_SPEC_BYTES = 262_144


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
    workspace: str = WORKSPACE,
    held_back_ms: int = 0,
    actor: str = "kubectl",
    metadata: dict[str, Any] | None = None,
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
        actor=actor,
        spec=text,
        spec_omitted=omitted,
        held_back_ms=held_back_ms,
        metadata="" if metadata is None else json.dumps(metadata),
    )
    return Event(Command(workspace, workspace, namespace, at(second), event), partition, traceparent(second))


def gone(second: int, name: str = "web", *, uid: str = "uid-1", namespace: str = NAMESPACE) -> Event:
    event = ResourceGone("GitOpsDeployment", name, uid, str(second))
    return Event(Command(WORKSPACE, WORKSPACE, namespace, at(second), event), 0, traceparent(second))


def in_namespace(namespace: tuple[str, int], *events: Event) -> list[Event]:
    """Commands as a watcher tells them that has read this namespace: its uid, and when it was created."""
    uid, created_at = namespace
    told: list[Any] = [each.message for each in events]
    told = [replace(message, namespace_uid=uid, namespace_created_at=created_at) for message in told]
    return [replace(event, message=message) for event, message in zip(events, told, strict=True)]


def resync(second: int, epoch: int, partition: int = 0, kind: str = "GitOpsDeployment", approved: str = "") -> Event:
    event = ResyncCompleted(kind, epoch, approved)
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


ENVIRONMENT = "GitOpsDeploymentManagedEnvironment"
CREDENTIAL = "GitOpsDeploymentRepositoryCredential"
SYNC_RUN = "GitOpsDeploymentSyncRun"
API_URL = "https://cluster.example.com:6443"
REPOSITORY = "https://git.example.com/team-a/private.git"


def resource(  # noqa: PLR0913 - each test names the few that matter to it
    second: int,
    kind: str,
    name: str,
    content: dict[str, Any],
    *,
    uid: str = "",
    version: int | None = None,
    generation: int = 1,
    epoch: int = 1,
    deleting: bool = False,
    finalizers: tuple[str, ...] = (),
    namespace: str = NAMESPACE,
    secret_type: str = "",
    secret_binding: str = "",
    omitted: str = "",
    target: tuple[str, int] = ("", 0),
    held_back_ms: int = 0,
    metadata: dict[str, Any] | None = None,
    metadata_omitted: str = "",
    status: dict[str, Any] | None = None,
    recalled: str = "",
    named_class: str = "",
    secret_version: str = "",
    created_at: int | None = None,
) -> Event:
    """A resource of any kind but GitOpsDeployment exists."""
    event = ResourceChanged(
        api_version="v1" if kind == "Secret" else API_VERSION,
        kind=kind,
        name=name,
        uid=uid or f"uid-{name}",
        resource_version=str(second if version is None else version),
        generation=generation,
        epoch=epoch,
        deleting=deleting,
        finalizers=finalizers,
        actor="kubectl",
        spec=json.dumps(content),
        spec_omitted=omitted,
        created_at=second * 1000 if created_at is None else created_at,
        secret_type=secret_type,
        secret_binding=secret_binding,
        target_uid=target[0],
        target_generation=target[1],
        held_back_ms=held_back_ms,
        metadata="" if metadata is None else json.dumps(metadata),
        metadata_omitted=metadata_omitted,
        status="" if status is None else json.dumps(status),
        recalled_status=recalled,
        named_class=named_class,
        secret_version=secret_version,
    )
    return Event(Command(WORKSPACE, WORKSPACE, namespace, at(second), event), 0, traceparent(second))


def as_sent(second: int, kind: str, name: str, content: dict[str, Any], *, epoch: int = 1) -> Event:
    """The same as a watcher sends it: of what the API server has only what the kind declares."""
    of_kind = REGISTRY[kind]
    meta = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", "resourceVersion": str(second)}
    manifest = {"metadata": meta | {"generation": 1, "creationTimestamp": rfc3339(at(second))}, "spec": content}
    projection = of_kind.projection
    translate = Translator(WORKSPACE, of_kind.resource, spec_within(MAX_SPEC_BYTES, projection), projection)
    return Event(translate.changed(manifest, epoch, at(second)), 0, traceparent(second))


def environment(second: int, name: str = "prod", secret_name: str = "kubeconfig", **changes: Any) -> Event:
    names = {"uid", "version", "generation", "epoch", "deleting", "finalizers", "namespace", "secret_type"}
    options = {key: changes.pop(key) for key in list(changes) if key in names}
    content = {"apiURL": API_URL, "credentialsSecret": secret_name, "allowInsecureSkipTLSVerify": False} | changes
    return resource(second, ENVIRONMENT, name, content, **options)


def credential(second: int, name: str = "login", secret_name: str = "login", **changes: Any) -> Event:
    return resource(second, CREDENTIAL, name, {"repository": REPOSITORY, "secret": secret_name}, **changes)


def sync_run(second: int, name: str = "now", deployment: str = "web", **changes: Any) -> Event:
    return resource(second, SYNC_RUN, name, {"gitopsDeploymentName": deployment}, **changes)


def secret(
    second: int, name: str = "kubeconfig", type_: str = "managed-environment", key: str = "k1", **changes: Any
) -> Event:
    """A sealed Secret; each sealing is another text."""
    full = f"managed-gitops.redhat.com/{type_}"
    content = {"type": full, "sealed": f"sealed-{name}-{second}", "keyId": key}
    return resource(second, "Secret", name, content, **{"uid": f"uid-secret-{name}", "generation": 0} | changes)


def resource_gone(second: int, kind: str, name: str, uid: str = "", namespace: str = NAMESPACE) -> Event:
    event = ResourceGone(kind, name, uid or f"uid-{name}", str(second))
    return Event(Command(WORKSPACE, WORKSPACE, namespace, at(second), event), 0, traceparent(second))


SYNCED = {"status": "Synced", "revision": "abc"}

__all__ = ["Applied", "Checked", "Failed", "Removed"]
