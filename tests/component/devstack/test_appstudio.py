"""What the simulators of AppStudio's other services do to resources of a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from devstack.appstudio.build_service import BuildService
from devstack.appstudio.gitops_repositories import KustomizedRepositories, PretendedRepositories, Wanted
from devstack.appstudio.serving import played
from devstack.appstudio.space_requests import SpaceRequestController, made_for
from devstack.git.repository import BRANCH, Repository
from devstack.git.site import PUBLIC, GitSite
from services.common.kubernetes import (
    NAMESPACE,
    SECRET,
    ApiResource,
    Changed,
    Deleted,
    KubeClient,
    ListCompleted,
    Seen,
    reflect,
)
from services.kinds.snapshot.model import SNAPSHOT
from services.kinds.snapshot_environment_binding.model import BINDING
from services.kinds.space_request.model import SPACE_REQUEST

SECONDS = 60.0
USER = "tests"
API_URL = "https://cluster.example.com:6443"


async def create(kube: KubeClient, namespace: str, kind: ApiResource, name: str, spec: dict[str, Any]) -> None:
    meta = {"name": name, "namespace": namespace}
    manifest = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "spec": spec}
    await kube.create_object(kind, manifest, field_manager=USER)


async def until(
    kube: KubeClient, namespace: str, kind: ApiResource, found: Callable[[dict[str, Any]], Any]
) -> dict[str, Any]:
    """The status of the one resource of the kind once it is so."""
    async with asyncio.timeout(SECONDS), aclosing(reflect(kube, kind, namespace)) as events:
        async for event in events:
            if isinstance(event, Seen | Changed) and found(event.object.get("status", {})):
                return event.object["status"]  # type: ignore[no-any-return]
    raise AssertionError("the watch ended")


async def until_gone(kube: KubeClient, namespace: str, kind: ApiResource) -> None:
    async with asyncio.timeout(SECONDS), aclosing(reflect(kube, kind, namespace)) as events:
        async for event in events:
            if isinstance(event, Deleted) or event == ListCompleted(0):
                return


async def create_snapshot(kube: KubeClient, namespace: str, name: str) -> None:
    components = [{"name": each, "containerImage": f"registry.example.com/{each}:{name}"} for each in ("web", "api")]
    await create(kube, namespace, SNAPSHOT, name, {"application": "shop", "components": components})


@pytest.fixture
async def binding(kube: KubeClient, namespace: str) -> str:
    """Of two components, with a snapshot that is there."""
    await create_snapshot(kube, namespace, "first")
    spec = {"application": "shop", "environment": "dev", "snapshot": "first"}
    await create(kube, namespace, BINDING, "shop-dev", spec | {"components": [{"name": "web"}, {"name": "api"}]})
    return "shop-dev"


def commits(status: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["gitopsRepository"]["commitID"] for each in status.get("components", ())}


@pytest.mark.usefixtures("binding")
async def test_build_service_when_a_binding_gets_another_snapshot_then_it_names_another_commit_of_each_component(
    kube: KubeClient, namespace: str
) -> None:
    await create_snapshot(kube, namespace, "second")
    async with played(BuildService(kube, namespace, PretendedRepositories())):
        first = commits(await until(kube, namespace, BINDING, commits))
        patch = {"spec": {"snapshot": "second"}}
        await kube.patch_object(BINDING, namespace, "shop-dev", patch, field_manager=USER)
        second = commits(await until(kube, namespace, BINDING, lambda status: commits(status) != first))
    assert first.keys() == second.keys() == {"web", "api"}
    assert set(first.values()).isdisjoint(second.values())


@pytest.mark.usefixtures("binding")
async def test_build_service_when_it_names_nothing_anew_then_it_writes_another_snapshot_and_names_new_components_alone(
    kube: KubeClient, namespace: str, tmp_path: Path
) -> None:
    await create_snapshot(kube, namespace, "second")
    site = GitSite(tmp_path, https_port=1, ssh_port=2, password="p")
    (site.repositories / PUBLIC).mkdir(parents=True)
    repository = Repository(site.repositories / PUBLIC / f"{namespace}-shop.git")
    async with played(BuildService(kube, namespace, KustomizedRepositories(site))):
        first = commits(await until(kube, namespace, BINDING, commits))
        assert repository.head() == first["api"]
        patch = {"spec": {"snapshot": "second", "components": [{"name": each} for each in ("web", "api", "docs")]}}
        await kube.patch_object(BINDING, namespace, "shop-dev", patch, field_manager=USER)
        second = commits(await until(kube, namespace, BINDING, lambda status: "docs" in commits(status)))
    assert second == first | {"docs": repository.head()}
    assert "api:second" in repository.show(BRANCH, "components/api/overlays/dev/deployment-patch.yaml")


@pytest.mark.usefixtures("binding")
async def test_build_service_when_told_to_be_silent_or_to_fail_then_its_part_of_the_status_says_so(
    kube: KubeClient, namespace: str
) -> None:
    async with played(BuildService(kube, namespace, PretendedRepositories(), silent_about={"api"})):
        assert commits(await until(kube, namespace, BINDING, commits)).keys() == {"web"}
    async with played(BuildService(kube, namespace, PretendedRepositories(), failing=True)):
        status = await until(
            kube, namespace, BINDING, lambda status: status["gitopsRepoConditions"][-1]["status"] == "False"
        )
    assert commits(status).keys() == {"web"}, "what it said before stays"


class Interrupted(PretendedRepositories):
    """While it writes the first binding somebody labels that, so that what is said of it is of a version before."""

    def __init__(self, kube: KubeClient, namespace: str) -> None:
        self.environments: list[str] = []
        self._loop = asyncio.get_running_loop()
        self._kube, self._namespace = kube, namespace

    def write_components(self, wanted: Sequence[Wanted]) -> list[dict[str, Any]]:
        self.environments.append(wanted[0].environment)
        if len(self.environments) == 1:
            label = {"metadata": {"labels": {"seen": "yes"}}}
            writing = self._kube.patch_object(BINDING, self._namespace, "shop-dev", label, field_manager=USER)
            asyncio.run_coroutine_threadsafe(writing, self._loop).result(SECONDS)
        return super().write_components(wanted)


@pytest.mark.usefixtures("binding")
async def test_build_service_when_a_binding_is_changed_while_it_is_written_then_its_commits_are_named_before_any_other(
    kube: KubeClient, namespace: str
) -> None:
    spec = {"application": "shop", "environment": "staging", "snapshot": "first"}
    await create(kube, namespace, BINDING, "shop-staging", spec | {"components": [{"name": "web"}]})
    repositories, named = Interrupted(kube, namespace), list[str]()
    async with (
        asyncio.timeout(SECONDS),
        played(BuildService(kube, namespace, repositories)),
        aclosing(reflect(kube, BINDING, namespace)) as events,
    ):
        while len(named) < 2:
            event = await anext(events)
            if isinstance(event, Seen | Changed) and commits(event.object.get("status", {})):
                named += {event.object["metadata"]["name"]}.difference(named)
    assert repositories.environments[:3] == ["dev", "dev", "staging"]
    assert named == ["shop-dev", "shop-staging"]


def test_repository_when_a_component_is_written_then_its_overlay_has_the_image_and_the_same_again_is_no_commit(
    tmp_path: Path,
) -> None:
    site = GitSite(tmp_path, https_port=1, ssh_port=2, password="p")
    (site.repositories / PUBLIC).mkdir(parents=True)
    repositories = KustomizedRepositories(site)
    wanted = Wanted("team", "shop", "dev", "web", "first", "registry.example.com/web:1", {"replicas": 3})
    api = replace(wanted, component="api", image="registry.example.com/api:1")
    first, other = repositories.write_components([wanted, api])
    assert repositories.write_components([wanted, api]) == [first, other], (
        "each has its own, though both are in one branch"
    )
    assert first["commitID"] != other["commitID"]
    (second,) = repositories.write_components([replace(wanted, snapshot="second", image="registry.example.com/web:2")])
    assert second["commitID"] != first["commitID"]
    repository = Repository(site.repositories / PUBLIC / "team-shop.git")
    for found, image in ((first, "web:1"), (second, "web:2")):
        written = {
            name: yaml.safe_load(repository.show(found["commitID"], f"{found['path']}/{name}.yaml"))
            for name in ("kustomization", "deployment-patch")
        }
        assert written["kustomization"]["resources"] == ["../../base"]
        (container,) = written["deployment-patch"]["spec"]["template"]["spec"]["containers"]
        assert container["image"] == f"registry.example.com/{image}"
        assert written["deployment-patch"]["spec"]["replicas"] == 3


@pytest.fixture
async def request_(kube: KubeClient, namespace: str) -> str:
    await create(kube, namespace, SPACE_REQUEST, "claim-1", {"tierName": "appstudio-env"})
    return "claim-1"


def ready(status: dict[str, Any]) -> tuple[str, str]:
    (condition,) = status.get("conditions") or [{}]
    return (condition.get("status", ""), condition.get("reason", ""))


async def test_space_request_when_served_then_it_is_ready_with_one_namespace_and_what_was_made_goes_with_it(
    kube: KubeClient, namespace: str, request_: str
) -> None:
    async with played(SpaceRequestController(kube, namespace, API_URL, "kubeconfig")):
        status = await until(kube, namespace, SPACE_REQUEST, lambda status: ready(status) == ("True", "Provisioned"))
        (access,) = status["namespaceAccess"]
        assert status["targetClusterURL"] == API_URL
        await kube.get_object(SECRET, namespace, access["secretRef"])
        await kube.delete_object(SPACE_REQUEST, namespace, request_)
        await until_gone(kube, namespace, SPACE_REQUEST)
    made = await kube.get_object(NAMESPACE, None, made_for(namespace, request_))
    assert (made["metadata"]["name"], made["status"]["phase"]) == (access["name"], "Terminating")


async def test_space_request_when_its_controller_hangs_or_refuses_to_terminate_then_it_says_so_until_it_does(
    kube: KubeClient, namespace: str, request_: str
) -> None:
    controller = SpaceRequestController(kube, namespace, API_URL, "kubeconfig", hangs=True, refuses_to_terminate=True)
    async with played(controller):
        await until(kube, namespace, SPACE_REQUEST, lambda status: ready(status) == ("False", "Provisioning"))
        await kube.delete_object(SPACE_REQUEST, namespace, request_)
        await until(kube, namespace, SPACE_REQUEST, lambda status: ready(status) == ("False", "UnableToTerminate"))
    async with played(replace(controller, refuses_to_terminate=False)):
        await until_gone(kube, namespace, SPACE_REQUEST)
