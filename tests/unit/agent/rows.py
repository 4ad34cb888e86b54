"""Rows as the planner compiles them."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal

from services.common.messages import EngineResource
from tests.unit.agent.fakes import EPOCH, LABEL

Desired = Literal["present", "absent"]


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


def row(kind: str, name: str, desired: Desired, lane: str, wave: int, body: dict[str, Any]) -> EngineResource:
    manifest = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "argocd"} | body["metadata"],
        "spec": body["spec"],
    }
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
