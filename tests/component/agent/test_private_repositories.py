"""Who may read a private repository, on a real API server and with an agent's own rights there."""

from __future__ import annotations

import base64
from datetime import datetime, timedelta
from typing import Any

import pytest

from services.agent.private_repositories.known_repositories import (
    FORMER_FIELD,
    TENANT_LIMIT,
    PrivateRepositoryRegistry,
    TenantLimitReached,
    owner_of,
)
from services.agent.private_repositories.registry_expiry import REPO_SERVERS, RegistryExpiry
from services.agent.private_repositories.registry_secret import FIELD, NAME, RECORD, secret_name
from services.agent.private_repositories.repository_identity import identity_of
from services.common.clock import Clock, SystemClock
from services.common.kubernetes import APP_PROJECT, APPLICATION, POD, SECRET, KubeClient, NotFound
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
    return start_agent({INSTANCE: namespace}, module=COMPOSING_AGENT)


def in_lane(lane: str, manifest: dict[str, Any], kind: str = "") -> dict[str, Any]:
    return row(INSTANCE, manifest, kind=kind) | {"lane": lane}


async def listed(kube: KubeClient, namespace: str, project: str) -> list[str]:
    repositories: list[str] = (await kube.get_object(APP_PROJECT, namespace, project))["spec"]["sourceRepos"]
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
    refused = Failed(theirs["digest"], permanent=True, message=REPOSITORY_NEEDS_LOGIN.text(), for_user=True)
    until(lambda: observations.has("theirs", refused))
    assert await listed(kube, namespace, THEIRS) == []
    with pytest.raises(NotFound):  # Argo CD may still be at work for them
        await kube.get_object(SECRET, namespace, "repo-cred-1")
    until(lambda: observations.has("repo-cred-1", Applied(ours["digest"])), within=240)
    assert await listed(kube, namespace, OURS) == [REPO]

    agent.stop()
    engine_log.write(ours | {"desired": "absent"})
    start_agent({INSTANCE: namespace}, module=COMPOSING_AGENT)
    later = in_lane(THEIRS, application("later", namespace))
    engine_log.write(later)
    until(
        lambda: observations.has(
            "later", Failed(later["digest"], permanent=True, message=refused.message, for_user=True)
        )
    )
    assert (await listed(kube, namespace, OURS), await listed(kube, namespace, THEIRS)) == (
        [],
        [],
    )
    with pytest.raises(NotFound):
        await kube.get_object(APPLICATION, namespace, "later")
    remembered = await kube.get_object(SECRET, namespace, secret_name(owner_of(OURS)))
    assert len(base64.b64decode(remembered["data"][FIELD])) == RECORD.size


async def test_repository_when_an_agent_of_before_remembered_it_then_it_stays_closed_to_others(
    start_agent: StartAgent, kube: KubeClient, namespace: str, engine_log: EngineLog, observations: Observations
) -> None:
    identity = identity_of(REPO)
    former = base64.b64encode(identity.repository + identity.spelling).decode()
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": NAME, "namespace": namespace}}
    await kube.create_object(SECRET, secret | {"data": {FORMER_FIELD: former}}, field_manager="former")
    start_agent({INSTANCE: namespace}, module=COMPOSING_AGENT)
    theirs = in_lane(THEIRS, application("theirs", namespace))
    engine_log.write(in_lane(THEIRS, app_project(THEIRS, namespace)), theirs)
    refused = Failed(theirs["digest"], permanent=True, message=REPOSITORY_NEEDS_LOGIN.text(), for_user=True)
    until(lambda: observations.has("theirs", refused))
    assert await listed(kube, namespace, THEIRS) == []
    assert (await kube.get_object(SECRET, namespace, NAME))["data"][FORMER_FIELD] != former


async def read_registry(kube: KubeClient, namespace: str) -> PrivateRepositoryRegistry:
    registry = PrivateRepositoryRegistry(kube, namespace)
    await registry.load_repositories(lambda _: None)
    return registry


async def test_hundred_tenants_when_one_takes_all_that_it_may_then_the_others_neither_wait_nor_write_for_it(
    kube: KubeClient, namespace: str
) -> None:
    registry = await read_registry(kube, namespace)
    for number in range(TENANT_LIMIT):
        registry.add_repository(identity_of(f"https://hostile.example/{number}"), "hostile")
    await registry.save_all()
    with pytest.raises(TenantLimitReached):
        registry.add_repository(identity_of(REPO), "hostile")
    before = await kube.get_object(SECRET, namespace, secret_name(owner_of("hostile")))
    for number in range(99):
        identity = identity_of(f"https://tenant.example/{number}")
        registry.add_repository(identity, f"tenant-{number}")
        await registry.save_repository(identity.repository)
    assert await kube.get_object(SECRET, namespace, before["metadata"]["name"]) == before
    successor = await read_registry(kube, namespace)
    assert len(successor) == TENANT_LIMIT + 99
    successor.add_repository(identity_of(REPO), "tenant-1")
    await successor.save_all()
    registry.add_repository(identity_of(f"{REPO}-2"), "tenant-1")
    await registry.save_all()  # a former owner of the instance, which meets the newer version
    assert len(await read_registry(kube, namespace)) == TENANT_LIMIT + 101


class Later(SystemClock):
    """A clock that is ahead."""

    ahead = timedelta()

    def now(self) -> datetime:
        return super().now() + self.ahead


async def test_repository_when_nobody_names_it_and_its_repo_server_is_new_then_its_secret_goes(
    kube: KubeClient, namespace: str
) -> None:
    registry, clock = await read_registry(kube, namespace), Later()
    registry.add_repository(identity_of(REPO), OURS)
    clock.ahead = -timedelta(days=1)
    given: Clock = clock
    expiry = RegistryExpiry(registry, kube, namespace, given, lambda _: False)
    await expiry.expire_entries()
    assert await kube.get_object(SECRET, namespace, secret_name(owner_of(OURS)))
    label, _, value = REPO_SERVERS.partition("=")
    metadata = {"name": "repo-server", "namespace": namespace, "labels": {label: value}}
    spec = {"containers": [{"name": "repo-server", "image": "none"}], "volumes": [{"name": "tmp", "emptyDir": {}}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    await kube.create_object(POD, pod, field_manager="test")
    clock.ahead = timedelta()
    await expiry.expire_entries()
    with pytest.raises(NotFound):
        await kube.get_object(SECRET, namespace, secret_name(owner_of(OURS)))
    assert len(registry) == 0
