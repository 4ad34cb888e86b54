"""Watcher, planner and agent agree on what a Secret may be used for: real keys, real rules, a real server."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from services.common.messages import Command, EngineResource
from services.kinds.managed_environment.model import ENVIRONMENT_SECRET, MANAGED_ENVIRONMENT
from services.kinds.registry import REGISTRY
from services.kinds.repository_credential.model import CREDENTIAL_SECRET, REPOSITORY_CREDENTIAL
from services.planner.domain.events import Event
from services.planner.domain.policy import Policy
from tests.unit.agent.credentials.given import LOCAL, SETTINGS, Given, answers, kubeconfig, stranger
from tests.unit.planner.given import NAMESPACE, resource
from tests.unit.planner.tenant import rows
from tests.unit.planner.world import World
from tests.unit.watcher.commands.sealers import sealer_of

UID = "uid-of-the-namespace"


def in_namespace(event: Event) -> Event:
    command = event.message
    assert isinstance(command, Command)
    return replace(event, message=replace(command, namespace_uid=UID))


def watched(given: Given, kind: str, spec: dict[str, Any], type_: str, content: dict[str, str]) -> tuple[Event, Event]:
    """The commands of a Secret and of a resource that names it, as a watcher makes them."""
    sealer = sealer_of(given.keys.sealing, 1 << 20)
    meta = {"name": "named", "namespace": NAMESPACE, "uid": "uid-named", "resourceVersion": "7"}
    data = {name: base64.b64encode(value.encode()).decode() for name, value in content.items()}
    manifest = {"metadata": meta, "type": type_, "data": data}
    text, _ = sealer.sealed_content(manifest, UID)
    secret = resource(1, "Secret", "named", json.loads(text), uid="uid-named", generation=0, version=7)
    reference = REGISTRY[kind].reference
    assert reference is not None
    assert reference.secret_use is not None
    use = reference.secret_use(json.dumps(spec))
    assert use is not None
    binding = sealer.sealed_binding(manifest, use, UID)
    named = resource(2, kind, "it", spec, secret_type=type_, secret_binding=binding)
    return in_namespace(secret), in_namespace(named)


def compiled(*commands: Event) -> EngineResource:
    """The row that an agent receives."""
    world = World(policy=Policy(addresses=LOCAL))
    world.take(*commands)
    (row,) = [*rows(world, "RepositorySecret"), *rows(world, "ClusterSecret")]
    names = {field.name for field in fields(EngineResource)}
    columns = {name: value for name, value in asdict(row).items() if name in names}
    return EngineResource(**columns, deleted=False)


async def test_login_when_it_came_the_whole_way_then_it_is_sent_to_its_repository_and_to_no_other(
    given: Given, tmp_path: Path
) -> None:
    trusting = replace(given, settings=replace(SETTINGS, git_authorities=tmp_path / "pki" / "ca.crt"))
    async with stranger(tmp_path / "pki", answers({})) as server:
        spec = {"repository": f"{server.url}/Team/app.git", "secret": "named"}
        content = {"username": "ann", "password": "word"}
        row = compiled(*watched(trusting, REPOSITORY_CREDENTIAL.kind, spec, CREDENTIAL_SECRET, content))
        await trusting.checker().compose_secret(row, None)
        asked = ["Authorization" in request.headers for request in server.requests]
        forged = trusting.with_recipe(row, repository=f"{server.url}/other.git")
        result = await trusting.checker().compose_secret(forged, None)
    assert asked
    assert all(asked)
    assert result.reason == "SecretUseRefused"
    assert len(server.requests) == len(asked)


async def test_kubeconfig_when_it_came_the_whole_way_then_its_server_is_asked_only_as_its_environment_says(
    given: Given, tmp_path: Path
) -> None:
    async with stranger(tmp_path / "pki", answers({"items": []})) as server:
        spec = {
            "apiURL": server.url,
            "credentialsSecret": "named",
            "allowInsecureSkipTLSVerify": False,
            "namespaces": ["b", "a", "a"],
        }
        content = {"kubeconfig": kubeconfig(server.url, authority=server.authority)}
        row = compiled(*watched(given, MANAGED_ENVIRONMENT.kind, spec, ENVIRONMENT_SECRET, content))
        await given.checker().compose_secret(row, None)
        asked = len(server.requests)
        result = await given.checker().compose_secret(given.with_recipe(row, insecure=True), None)
    assert asked > 0
    assert result.reason == "SecretUseRefused"
    assert len(server.requests) == asked
