"""Who may read a private repository, on a real API server and with an agent's own rights there."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from services.agent.private_repositories.stored_registry import NAME, SIZE
from services.common.kubernetes import APP_PROJECT, APPLICATION, SECRET, KubeClient, NotFound
from services.common.messages import Applied, Failed
from services.kinds.gitops_deployment.catalogue import REPOSITORY_NEEDS_LOGIN
from tests.component.agent.conftest import INSTANCE, StartAgent, until
from tests.component.agent.engine_log import (
    REPO,
    EngineLog,
    Observations,
    app_project,
    application,
    repository_secret,
    row,
)
from tests.component.agent.worker import COMPOSING_AGENT, Worker

OURS, THEIRS = "app-project-ours", "app-project-theirs"


@pytest.fixture
def agent(start_agent: StartAgent, namespace: str) -> Worker:
    return start_agent(f"{INSTANCE}={namespace}", module=COMPOSING_AGENT)


def in_lane(lane: str, manifest: dict[str, Any], kind: str = "") -> dict[str, Any]:
    return row(INSTANCE, manifest, kind=kind) | {"lane": lane}


async def listed(kube: KubeClient, namespace: str, project: str) -> list[str]:
    repositories: list[str] = (await kube.get(APP_PROJECT, namespace, project))["spec"]["sourceRepos"]
    return repositories


async def test_repository_when_a_login_opens_it_then_other_tenants_lose_it_and_a_restart_changes_nothing(
    start_agent: StartAgent,
    agent: Worker,
    kube: KubeClient,
    namespace: str,
    engine_log: EngineLog,
    observations: Observations,
) -> None:
    project = in_lane(THEIRS, app_project(THEIRS, namespace))
    theirs = in_lane(THEIRS, application("theirs", namespace))
    engine_log.write(in_lane(OURS, app_project(OURS, namespace)), project, theirs)
    until(lambda: observations.has("theirs", Applied(theirs["digest"])))
    ours = in_lane(OURS, repository_secret("repo-cred-1", namespace), "RepositorySecret")
    engine_log.write(ours)
    refused = Failed(theirs["digest"], permanent=True, message=REPOSITORY_NEEDS_LOGIN.text())
    until(lambda: observations.has("theirs", refused))
    assert await listed(kube, namespace, THEIRS) == []
    with pytest.raises(NotFound):  # Argo CD may still be at work for them
        await kube.get(SECRET, namespace, "repo-cred-1")
    until(lambda: observations.has("repo-cred-1", Applied(ours["digest"])), within=120)
    assert await listed(kube, namespace, OURS) == [REPO]

    agent.stop()
    engine_log.write(ours | {"desired": "absent"})
    start_agent(f"{INSTANCE}={namespace}", module=COMPOSING_AGENT)
    later = in_lane(THEIRS, application("later", namespace))
    engine_log.write(later)
    until(lambda: observations.has("later", Failed(later["digest"], permanent=True, message=refused.message)))
    assert (await listed(kube, namespace, OURS), await listed(kube, namespace, THEIRS)) == (
        [],
        [],
    )
    with pytest.raises(NotFound):
        await kube.get(APPLICATION, namespace, "later")
    remembered = base64.b64decode((await kube.get(SECRET, namespace, NAME))["data"]["repositories"])
    assert len(remembered) == 2 * SIZE
