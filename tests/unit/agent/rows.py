"""Rows as the planner compiles them."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal

from services.common.messages import EngineResource
from tests.unit.agent.fakes import LABEL
from tests.unit.fake_clock import EPOCH

Desired = Literal["present", "absent"]

OBJECTS = {
    "ClusterSecret": ("v1", "Secret"),
    "RepositorySecret": ("v1", "Secret"),
    "SyncOperation": ("argoproj.io/v1alpha1", "Application"),
}
"""Rows whose objects are of another kind."""


def application_row(
    name: str = "app", desired: Desired = "present", lane: str = "project", **source: str
) -> EngineResource:
    spec = {
        "project": lane,
        "source": {"repoURL": "https://example.com/repo", "path": "manifests"} | source,
        "destination": {"name": "in-cluster", "namespace": "team-a"},
    }
    return row(
        "Application", name, desired, lane, 1, {"spec": spec, "metadata": {"labels": {"databaseID": "1"} | LABEL}}
    )


def project_row(name: str = "project", desired: Desired = "present", **spec: Any) -> EngineResource:
    body = {"spec": {"sourceRepos": ["https://example.com/repo"]} | spec, "metadata": {"labels": dict(LABEL)}}
    return row("AppProject", name, desired, name, 0, body)


def cluster_row(
    name: str = "managed-env-1", desired: Desired = "present", lane: str = "project", uid: str = "uid-1", **recipe: Any
) -> EngineResource:
    labels = {"argocd.argoproj.io/secret-type": "cluster"} | LABEL
    body = {"metadata": {"labels": labels}, "recipe": {"uid": uid, "project": lane} | recipe}
    return row("ClusterSecret", name, desired, lane, 0, body)


def repository_row(
    name: str = "repo-cred-1",
    repository: str = "https://example.com/repo.git",
    lane: str = "project",
    **more: Any,
) -> EngineResource:
    labels = {"argocd.argoproj.io/secret-type": "repository"} | LABEL
    recipe = {"uid": "uid-1", "repository": repository, "project": lane} | more
    return row("RepositorySecret", name, "present", lane, 0, {"metadata": {"labels": labels}, "recipe": recipe})


def sync_row(
    run: str = "run-1",
    sequence: int = 1,
    state: str = "Running",
    revision: str = "main",
    name: str = "app",
    **more: Any,
) -> EngineResource:
    operation = {"run": run, "sequence": sequence, "revision": revision, "state": state} | more
    return row("SyncOperation", name, "present", "project", 2, {"metadata": {}, "operation": operation})


def row(kind: str, name: str, desired: Desired, lane: str, wave: int, body: dict[str, Any]) -> EngineResource:
    api_version, object_kind = OBJECTS.get(kind, ("argoproj.io/v1alpha1", kind))
    manifest = {"apiVersion": api_version, "kind": object_kind} | body
    manifest["metadata"] = {"name": name, "namespace": "argocd"} | body["metadata"]
    text = json.dumps(manifest, sort_keys=True)
    return EngineResource(
        engine_instance_id="argocd",
        kind=kind,
        namespace="argocd",
        name=name,
        workspace="local",
        tenant_namespace="team-a",
        lane=lane,
        wave=wave,
        desired=desired,
        manifest=text,
        digest=hashlib.sha256(text.encode()).hexdigest(),
        trace_id="",
        seen_at=EPOCH,
        deleted=False,
    )
