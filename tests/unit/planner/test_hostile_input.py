"""What nobody's kubectl would send, but a watcher that was taken over, or an API server without our CRDs, may."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from services.common.messages import Command, ResourceChanged
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from services.kinds.repository_credential.model import REPOSITORY_CREDENTIAL
from services.kinds.shared.api_group import FINALIZER
from services.kinds.sync_run.model import SYNC_RUN
from services.planner.domain.events import Event
from tests.unit.planner.given import Removed, changed, observed, resource
from tests.unit.planner.world import World

DEPTHS = (300, 1_100, 200_000)
"""Beyond what is written as JSON, what is read as JSON, and what Python's stack holds."""

KINDS = (GITOPS_DEPLOYMENT.kind, MANAGED_ENVIRONMENT.kind, REPOSITORY_CREDENTIAL.kind, SYNC_RUN.kind)
GOOD: dict[str, Any] = {
    "type": "automated",
    "source": {"repoURL": "https://git.example.com/a.git", "path": "apps"},
    "apiURL": "https://cluster.example.com",
    "credentialsSecret": "kubeconfig",
    "repository": "https://git.example.com/a.git",
    "secret": "login",
    "gitopsDeploymentName": "web",
}
"""Enough for every kind."""


def of_kind(kind: str, spec: str) -> Event:
    """A resource with ``spec``, word for word."""
    event = changed(1) if kind == GITOPS_DEPLOYMENT.kind else resource(1, kind, "web", {})
    assert isinstance(event.message, Command)
    assert isinstance(event.message.event, ResourceChanged)
    return replace(event, message=replace(event.message, event=replace(event.message.event, spec=spec)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("depth", DEPTHS)
def test_spec_when_it_is_a_json_bomb_then_it_says_so_and_has_no_effect_and_others_in_the_batch_do(
    world: World, kind: str, depth: int
) -> None:
    bombs = [
        "[" * depth + "]" * depth,
        json.dumps(GOOD)[:-1] + ', "more": ' + '{"a":' * depth + "1" + "}" * (depth + 1),
    ]
    for bomb in bombs:
        world.take(of_kind(kind, bomb), changed(1, namespace="team-b", uid="other"))
        (status,) = [row.status for key, row in world.workspace.items() if key[1:3] == ("team-a", kind)]
        assert "Invalid JSON: recursion limit exceeded" in status
        assert len(status) < 2_000
        assert {row.name for row in world.engine.values() if row.kind == "Application"} == {"gitopsdepl-other"}


def test_finalizer_when_it_is_there_again_after_its_release_then_it_is_released_again(world: World) -> None:
    """The API server adds none to what is being deleted; a command may say it all the same."""
    key = ("local", "team-a", GITOPS_DEPLOYMENT.kind, "web")
    world.take(changed(1))
    world.take(changed(2, deleting=True, finalizers=(FINALIZER,)))
    application = world.application()
    assert application is not None
    world.take(observed(3, Removed(forced=True), instance=application.engine_instance_id))
    assert world.workspace[key].release_finalizer
    world.take(changed(4, deleting=True, finalizers=(FINALIZER, "example.com/other")))
    assert world.workspace[key].release_finalizer
    assert world.application() is None
