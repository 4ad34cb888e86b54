"""A repository that needs a login: whether another tenant has one for it makes no difference to what is shown.

What nobody here has a login for is refused by its git server, in Argo CD's words. What another tenant has a login for
an agent refuses.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from services.common.messages import Failed
from services.common.messages.observation import ObservationEvent
from services.kinds.gitops_deployment.catalogue import REPOSITORY_NEEDS_LOGIN
from services.planner.engines.argocd.repository_access import needs_login
from tests.unit.planner.given import SYNC_RUN, Applied, changed, observed, spec, status, sync_run
from tests.unit.planner.tenant import MANUAL, conditions, moved, operation, row, says
from tests.unit.planner.world import World

NEEDS_LOGIN = REPOSITORY_NEEDS_LOGIN.message
FAILED = "Failed to load target state: failed to generate manifest for source 1 of 1: rpc error: desc = "
FETCH = f"{FAILED}failed to initialize repository resources: rpc error: desc = Failed to fetch default: "
SAID = {
    "https": f"{FAILED}failed to list refs: authentication required: Unauthorized",
    "https, forbidden": f"{FAILED}failed to list refs: authorization failed: no",
    "https, hidden": f"{FAILED}failed to list refs: repository not found: Not Found",
    "https, commit": f"{FETCH}`git fetch origin --tags --force --prune` failed exit status 128: fatal: could not read "
    "Username for 'https://git.example.com': terminal prompts disabled",
    "https, commit, hidden": f"{FETCH}`git fetch origin abc --force` failed exit status 128: remote: Repository not "
    "found.\nfatal: repository 'https://git.example.com/a/' not found",
    "ssh": f'{FAILED}failed to list refs: error creating SSH agent: "SSH agent requested but SSH_AUTH_SOCK '
    'not-specified"',
    "ssh, commit": f"{FETCH}`git fetch origin --tags --force --prune` failed exit status 128: Host key verification "
    "failed.\r\nfatal: Could not read from remote repository.",
    "ssh, commit, known host": f"{FETCH}`git fetch origin --tags --force --prune` failed exit status 128: "
    "git@git.example.com: Permission denied (publickey).\r\nfatal: Could not read from remote repository.",
}
UNREADABLE: dict[str, Any] = {
    "sync": {"status": "Unknown", "comparedTo": {"source": spec()["source"]}},
    "health": {"status": "Healthy"},
    "reconciledAt": "2026-05-04T12:00:05Z",
}
DEPLOYED: dict[str, Any] = {
    "sync": {"status": "Synced", "revision": "abc", "comparedTo": UNREADABLE["sync"]["comparedTo"]},
    "health": {"status": "Healthy"},
    "resources": [{"kind": "ConfigMap", "name": "settings", "status": "Synced"}],
    "operationState": {"phase": "Succeeded", "message": "successfully synced"},
}


def instance(world: World) -> str:
    return row(world, "Application").engine_instance_id


def shown(world: World) -> Any:
    (found,) = [known for known in world.workspace.values() if known.kind == "GitOpsDeployment"]
    return json.loads(found.status)


def deployment(*, was_deployed: bool) -> World:
    world = World()
    world.take(changed(1, content=MANUAL))
    if was_deployed:
        world.take(observed(2, Applied(row(world, "Application").digest), instance=instance(world)))
        world.take(observed(2, status(1, **DEPLOYED), instance=instance(world)))
    return world


def hear(world: World, second: int, event: ObservationEvent) -> None:
    world.take(observed(second, event, instance=instance(world)))


def engine_refuses(world: World, said: str) -> None:
    """Nobody here has a login."""
    hear(world, 5, Applied(row(world, "Application").digest))
    found = [{"type": "ComparisonError", "message": said}]
    failed = {"phase": "Error", "message": f"ComparisonError: {said}"}
    hear(world, 5, status(7, **UNREADABLE, conditions=found, operationState=failed))


def agent_refuses(world: World) -> None:
    """Another tenant has one."""
    digest = row(world, "Application").digest
    hear(world, 5, Failed(digest, permanent=True, message=NEEDS_LOGIN, for_user=True))


@pytest.mark.parametrize("said", SAID.values(), ids=SAID.keys())
@pytest.mark.parametrize("was_deployed", [False, True], ids=["new", "deployed"])
def test_status_when_a_repository_needs_a_login_then_it_does_not_tell_whether_another_tenant_has_one(
    said: str, was_deployed: bool
) -> None:
    unknown, anothers = deployment(was_deployed=was_deployed), deployment(was_deployed=was_deployed)
    engine_refuses(unknown, said)
    agent_refuses(anothers)
    assert shown(unknown) == shown(anothers)
    told = {"ComparisonError": ("True", "ComparisonError", NEEDS_LOGIN)}
    assert conditions(unknown, "GitOpsDeployment", "web") == told
    assert shown(unknown)["sync"] == {"status": "Unknown"}


def test_status_when_another_tenant_gets_a_login_later_then_it_stays_as_it_was() -> None:
    world = deployment(was_deployed=True)
    engine_refuses(world, SAID["https"])
    before = shown(world)
    refusal = "application repo https://git.example.com/a is not permitted in project 'p'"
    narrowed = [{"type": "InvalidSpecError", "message": refusal}]
    hear(world, 8, status(9, sync={"status": "Unknown"}, health={"status": "Unknown"}, conditions=narrowed))
    assert shown(world) == before
    agent_refuses(world)
    assert shown(world) == before


def test_status_when_the_repository_opens_again_then_it_shows_what_the_engine_says() -> None:
    world = deployment(was_deployed=True)
    agent_refuses(world)
    assert shown(world)["resources"] == DEPLOYED["resources"]
    hear(world, 8, Applied(row(world, "Application").digest))
    hear(world, 9, status(9, **DEPLOYED | {"resources": []}))
    assert shown(world)["sync"] == {"status": "Synced", "revision": "abc"}
    assert "resources" not in shown(world)
    assert conditions(world, "GitOpsDeployment", "web")["ComparisonError"][0] == "False"


def test_status_when_another_source_is_wanted_then_it_stays_until_the_engine_has_compared_that_one() -> None:
    unknown, anothers = deployment(was_deployed=True), deployment(was_deployed=True)
    engine_refuses(unknown, SAID["https"])
    agent_refuses(anothers)
    closed = shown(unknown)
    source = {"repoURL": "https://git.example.com/b", "path": "apps"}
    for world in (unknown, anothers):
        world.take(changed(8, generation=2, content=spec(source=source, type="manual")))
        assert shown(world) == closed
        hear(world, 9, Applied(row(world, "Application").digest))
        assert shown(world) == closed
        compared = DEPLOYED | {"sync": {"status": "OutOfSync", "comparedTo": {"source": source}}}
        hear(world, 10, status(11, **compared))
        assert shown(world)["sync"] == {"status": "OutOfSync"}
    assert shown(unknown) == shown(anothers)


@pytest.mark.parametrize(
    "said",
    [
        f"{FAILED}failed to list refs: dial tcp: connection refused",
        f"{FAILED}unable to resolve 'main' to a commit SHA",
        f"{FAILED}apps/authentication required.yaml: not YAML",
    ],
)
def test_status_when_a_comparison_fails_otherwise_then_the_engines_words_are_shown(said: str) -> None:
    world = deployment(was_deployed=False)
    engine_refuses(world, said)
    assert conditions(world, "GitOpsDeployment", "web")["ComparisonError"] == ("True", "ComparisonError", said)


@pytest.mark.parametrize("said", SAID.values(), ids=SAID.keys())
def test_run_when_its_repository_needs_a_login_then_it_does_not_tell_whether_another_tenant_has_one(said: str) -> None:
    unknown, anothers = deployment(was_deployed=True), deployment(was_deployed=True)
    for world in (unknown, anothers):
        world.take(sync_run(4))
    engine_refuses(unknown, said)
    agent_refuses(anothers)
    says(unknown, 6, moved("now", "Running", started="2026-05-04T12:00:05Z"), "SyncOperation")
    assert operation(unknown, "now") == operation(anothers, "now") == {"phase": "Running"}
    ended = moved("now", "Error", started="2026-05-04T12:00:05Z", finished="2026-05-04T12:00:06Z")
    says(unknown, 7, replace(ended, message=f"ComparisonError: {said}"), "SyncOperation")
    digest = row(anothers, "SyncOperation").digest
    says(anothers, 7, Failed(digest, permanent=True, message=NEEDS_LOGIN, for_user=True), "SyncOperation")
    assert operation(unknown, "now") == operation(anothers, "now") == {"phase": "Error", "message": NEEDS_LOGIN}
    assert conditions(unknown, SYNC_RUN, "now") == conditions(anothers, SYNC_RUN, "now")


@pytest.mark.parametrize("repeated", ["git fetch ", "failed to list refs: ", "git fetch repository '"])
def test_message_when_a_chart_makes_it_long_then_reading_it_ends(repeated: str) -> None:
    """A pattern that tries again from each repetition would take hours."""
    assert not needs_login(repeated * 100_000)
    assert needs_login(f"git fetch origin: Repository not found {repeated * 100_000}")
