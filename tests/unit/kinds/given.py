"""Rows for the tests of the rules: short to write, complete in content."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

from services.common.api_resource import SECRET
from services.kinds.gitops_deployment.rows import Deployment
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from services.kinds.registry import REGISTRY
from services.kinds.repository_credential.model import REPOSITORY_CREDENTIAL
from services.kinds.shared.child_objects import ChildDeployment
from services.kinds.shared.kind import StatusInputs
from services.kinds.shared.resource import Check, PlainResource
from services.kinds.sync_run.model import SYNC_RUN

START = datetime(2026, 5, 4, 12, tzinfo=UTC)
ENVIRONMENT_TYPE = "managed-gitops.redhat.com/managed-environment"
CREDENTIAL_TYPE = "managed-gitops.redhat.com/repository-credential"
DIGEST = "d1"


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


def id_of(name: str) -> UUID:
    return uuid5(NAMESPACE_URL, name)


def resource(kind: str, name: str, spec: Any, **changes: Any) -> PlainResource:
    text = spec if isinstance(spec, str) else json.dumps(spec)
    row = PlainResource(
        id=id_of(f"{kind}/{name}"),
        tenant_id=id_of("tenant"),
        kind=kind,
        source="local",
        name=name,
        uid=f"uid-{name}",
        resource_version="1",
        generation=1,
        epoch=1,
        present=True,
        deleting=False,
        finalizer=False,
        spec=text,
        omitted="",
        refers_to=REGISTRY[kind].referenced_by(text),
        secret_type="",
        secret_binding="",
        created_at=0,
        target_uid="",
        target_generation=0,
        accepted="",
        refusal="",
        over_quota=False,
        held_back_ms=0,
        seen_at=START,
        trace_id="",
    )
    return replace(row, **changes)


def environment(spec: dict[str, Any] | None = None, **changes: Any) -> PlainResource:
    content = {
        "apiURL": "https://api.example.com:6443",
        "credentialsSecret": "creds",
        "allowInsecureSkipTLSVerify": False,
    }
    return resource(MANAGED_ENVIRONMENT.kind, "prod", content | (spec or {}), **changes)


def credential(spec: dict[str, Any] | None = None, **changes: Any) -> PlainResource:
    content = {"repository": "https://git.example.com/team/app.git", "secret": "login"}
    return resource(REPOSITORY_CREDENTIAL.kind, "git", content | (spec or {}), **changes)


def secret(name: str, type_: str, **changes: Any) -> PlainResource:
    content = {"type": type_, "sealed": "eyJ.sealed", "keyId": "k1"}
    return resource(SECRET.kind, name, content, **({"resource_version": "77"} | changes))


def sync(name: str, spec: dict[str, Any] | None = None, **changes: Any) -> PlainResource:
    return resource(SYNC_RUN.kind, name, {"gitopsDeploymentName": "web"} | (spec or {}), **changes)


def check(reason: str, message: str = "", digest: str = DIGEST, *, worked: str = "") -> Check:
    return Check(id_of("checked"), digest, reason, message, worked)


def deployment(type_: str = "manual", revision: str | None = None, **changes: Any) -> Deployment:
    source = {"repoURL": "https://git.example.com/a", "path": "apps"} | (
        {"targetRevision": revision} if revision else {}
    )
    row = Deployment(
        id=id_of("deployment"),
        tenant_id=id_of("tenant"),
        source="local",
        name="web",
        uid="uid-web",
        resource_version="1",
        generation=1,
        epoch=1,
        present=True,
        deleting=False,
        finalizer=False,
        spec=json.dumps({"source": source, "type": type_}),
        pending_spec=None,
        environment=None,
        repository="https://git.example.com/a",
        digest=DIGEST,
        error="",
        pending_reason="",
        over_quota=False,
        held_back_ms=0,
        sync_sequence=0,
        seen_at=START,
        trace_id="",
    )
    return replace(row, **changes)


def inputs(
    row: PlainResource,
    own: object = None,
    *,
    result: Check | None = None,
    digest: str | None = None,
    previous: str = "{}",
    second: float = 0,
    deployments: tuple[ChildDeployment, ...] = (),
) -> StatusInputs:
    """What a status follows from; ``own`` is the row that only this kind has."""
    limits = REGISTRY.limits()
    return StatusInputs(row, own, result, digest, previous, at(second), limits, deployments=deployments)


def conditions(status: str) -> dict[str, tuple[str, str, str]]:
    """Status, reason and message by type, in their order."""
    listed = json.loads(status).get("conditions", [])
    return {known["type"]: (known["status"], known["reason"], known["message"]) for known in listed}
