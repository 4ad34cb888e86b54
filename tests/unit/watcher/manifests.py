"""Custom resources as an API server shows them, and compiled rows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson

from services.common.kubernetes import Manifest
from services.common.messages import ChildKind, UnownedKind, WorkspaceObject, WorkspaceResource

NOW = datetime(2026, 5, 4, 12, 30, 15, tzinfo=UTC)
SPEC = {"type": "automated", "source": {"repoURL": "https://example.com/a.git", "path": "ü"}}


def resource(name: str = "web", *, spec: Any = SPEC, **meta: Any) -> Manifest:
    """A GitOpsDeployment; ``meta`` overrides parts of its metadata."""
    metadata = {
        "name": name,
        "namespace": "team-a",
        "uid": f"uid-{name}",
        "resourceVersion": "42",
        "generation": 1,
    } | meta
    return {"apiVersion": "managed-gitops.redhat.com/v1alpha1", "kind": "GitOpsDeployment", "metadata": metadata} | (
        {} if spec is None else {"spec": spec}
    )


def row(name: str = "web", **columns: Any) -> WorkspaceResource:
    """A compiled row."""
    values: dict[str, Any] = {
        "workspace": "local",
        "namespace": "team-a",
        "kind": "GitOpsDeployment",
        "name": name,
        "uid": f"uid-{name}",
        "generation": 1,
        "status": '{"health":{"status":"Healthy"}}',
        "release_finalizer": False,
        "digest": "d1",
        "trace_id": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "seen_at": NOW,
        "deleted": False,
    }
    return WorkspaceResource(**values | columns)


COPY_TYPE = "managed-gitops.redhat.com/managed-environment"
LABELS = {"appstudio.openshift.io/application": "shop"}
COPY_LABELS = {"appstudio.openshift.io/environment-secret": "prod"}


def child(name: str = "web-prod", **columns: Any) -> WorkspaceObject:
    """A row of a child object of the GitOpsDeployment ``resource("prod")``."""
    is_copy = columns.get("kind") == ChildKind.SECRET_COPY
    spec = {"from": "login", "type": COPY_TYPE} if is_copy else SPEC
    manifest = {"labels": COPY_LABELS if is_copy else LABELS, "annotations": {}, "spec": spec}
    values: dict[str, Any] = {
        "workspace": "local",
        "namespace": "team-a",
        "kind": ChildKind.DEPLOYMENT.value,
        "name": name,
        "desired": "present",
        "uid": "",
        "owner_api_version": "managed-gitops.redhat.com/v1alpha1",
        "owner_kind": "GitOpsDeployment",
        "owner_name": "prod",
        "owner_uid": "uid-prod",
        "manifest": orjson.dumps(manifest).decode(),
        "digest": "d1",
        "revision": 1,
        "trace_id": "",
        "seen_at": NOW,
        "deleted": False,
    }
    return WorkspaceObject(**values | columns)


def unowned(kind: UnownedKind = UnownedKind.CLAIM, name: str = "dev", **columns: Any) -> WorkspaceObject:
    """A row of an unowned object, for the GitOpsDeployment ``resource("prod")``."""
    parts = {part: columns.pop(part, {}) for part in ("spec", "labels", "annotations", "finalizers", "unless")}
    row = {"kind": kind.value, "uid": f"uid-{name}", "manifest": orjson.dumps(parts).decode()}
    return child(name, **row | columns)
