"""An API server is restored from a backup: what it lists is what there is, though its versions are older ones.

A workspace cluster's alone: engines have what was asked for since, so that of a resource that the backup lacks an
Application runs, and none of one that it has again. Or one that a workspace shares with its engines.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from devstack.components.services import SIMULATOR
from devstack.harness.hosted import HostedStack
from devstack.harness.operator import AGENTS, Action, Operator
from devstack.supervisor.health_checks import HOST
from services.common.kubernetes import APPLICATION, Manifest
from services.common.ownership import AGENT_FIELD_MANAGER
from tests.drills.alert_metrics import measured
from tests.e2e.tenant import Tenant, application_name, path

pytestmark = pytest.mark.long  # a database is restored in test_restored_database.py
RESTORED_SECONDS = 120
CONVERGED_SECONDS = 60
ENGINE_SIDE = (*AGENTS, SIMULATOR)
SAVED = ("kept", "changed", "deleted")
FOR_KUBERNETES = " --bump-revision 1000000000 --mark-compacted"
WRITES_SINCE = 200
"""Between backup and restore: for long the versions of the restored API server are below those seen until then."""


class Hasty(Operator):
    """Leaves out what etcd's documentation has for Kubernetes: so versions start lower, and no watch is told to end."""

    def run(self, line: str, accepted: Collection[int] = (0,), **variables: str) -> str:
        """As any operator otherwise."""
        return super().run(line.replace(FOR_KUBERNETES, ""), accepted, **variables)


def of_etcd(stack: HostedStack, snapshot: Path) -> dict[str, str]:
    """The variables of the runbook."""
    (ports,) = (process["ports"] for process in stack.processes() if process["name"] == "etcd")
    client, peer = (f"http://{HOST}:{ports[name]}" for name in ("client", "peer"))
    return {
        "ETCDCTL_ENDPOINTS": client,
        "ETCD_SNAPSHOT": str(snapshot),
        "ETCD_DATA": str(stack.state.root / "etcd"),
        "ETCD_MEMBER": f"--name local --initial-cluster local={peer} --initial-advertise-peer-urls {peer}",
    }


@pytest.fixture(params=[Operator, Hasty])
def operator(request: pytest.FixtureRequest, stack: HostedStack, tmp_path: Path) -> Operator:
    """Who restores etcd, one way or the other."""
    made: Operator = request.param(stack, tmp_path / "backups", **of_etcd(stack, tmp_path / "etcd.db"))
    return made


@dataclass(frozen=True)
class History:
    """What a user has done: ``kept``, ``changed`` and ``deleted`` are as they were saved, until they change."""

    tenant: Tenant
    created: Mapping[str, Manifest]

    async def paths(self) -> dict[str, str]:
        """Of the Applications that there are at this moment, by the name of their deployment."""
        return {name: live["spec"]["source"]["path"] for name, live in (await self.applications()).items()}

    async def applications(self) -> dict[str, Manifest]:
        """By the name of their deployment; as the API server lists them now."""
        names = {application_name(manifest): name for name, manifest in self.created.items()}
        return {
            names[item["metadata"]["name"]]: item
            async for page in self.tenant.kube.list_pages(APPLICATION)
            for item in page.items
            if item["metadata"]["name"] in names
        }

    async def put_back(self, applications: Mapping[str, Manifest]) -> None:
        """Have the API server hold these, as their engine applied them, and no others."""
        kube = self.tenant.kube
        for name, live in (await self.applications()).items():
            if name not in applications:
                place = live["metadata"]["namespace"], live["metadata"]["name"]
                await kube.patch_object(
                    APPLICATION, *place, {"metadata": {"finalizers": None}}, field_manager=AGENT_FIELD_MANAGER
                )
                await kube.delete_object(APPLICATION, *place)
        for live in applications.values():
            await kube.apply_object(APPLICATION, as_applied(live), field_manager=AGENT_FIELD_MANAGER)
        assert await self.paths() == {name: live["spec"]["source"]["path"] for name, live in applications.items()}


def as_applied(live: Manifest) -> Manifest:
    """What of an Application is its agent's."""
    meta = {key: live["metadata"].get(key) for key in ("namespace", "name", "labels", "annotations", "finalizers")}
    return {
        "apiVersion": live["apiVersion"],
        "kind": live["kind"],
        "metadata": {key: value for key, value in meta.items() if value},
        "spec": live["spec"],
    }


@pytest.fixture
async def history(tenant: Tenant, operator: Operator) -> History:
    """Three deployments are saved; since then one has changed, one has gone, and one has come."""
    created = {name: await tenant.create(name) for name in SAVED}
    for name in SAVED:
        await tenant.until_status("Synced", name, sync__status="Synced")
    await asyncio.to_thread(operator.run, 'etcdctl snapshot save "$ETCD_SNAPSHOT"')
    await tenant.patch("changed", path("elsewhere"))
    await tenant.delete("deleted")
    created["lost"] = await tenant.create("lost")
    await tenant.until_path(created["changed"], "elsewhere")
    await tenant.until_application_gone(created["deleted"])
    await tenant.until_status("Synced", "lost", sync__status="Synced")
    for number in range(WRITES_SINCE):
        await tenant.patch("kept", {"metadata": {"annotations": {"edited": str(number)}}})
    return History(tenant, created)


def count_swept(stack: HostedStack) -> float:
    """What the alert GitOpsResourcesSwept counts."""
    return measured(stack, "planner", "gitops_resources_swept_total", kind="GitOpsDeployment")


def count_restores(stack: HostedStack) -> float:
    """What the alert GitOpsApiServerRestored counts."""
    return measured(stack, "watcher", "gitops_api_server_restores_total", kind="GitOpsDeployment")


async def follow_runbook(stack: HostedStack, operator: Operator, tenant: Tenant, after: Sequence[Action] = ()) -> None:
    """With what is done ``after`` the API server runs again.

    The audit is asked once it tells what the restored list lacked, and so what it has, too.
    """
    swept, restores = count_swept(stack), count_restores(stack)

    def until_listed(command: str) -> None:
        if command.startswith("gitopsctl"):
            until_swept(operator, tenant, "lost")

    by_hand = {
        1: [operator.stop("kube-apiserver", "etcd"), operator.lose_disk("etcd")],
        2: [operator.start("etcd"), operator.start("kube-apiserver"), *after],
    }
    await asyncio.to_thread(operator.follow_runbook, "restored-workspace.md", by_hand, until_listed)
    require_told(operator, tenant)
    assert count_swept(stack) > swept
    assert (count_restores(stack) > restores) == isinstance(operator, Hasty)


def until_swept(operator: Operator, tenant: Tenant, name: str) -> None:
    """Wait until the audit tells that a complete list has lacked this deployment."""
    deadline, told = time.monotonic() + CONVERGED_SECONDS, list[dict[str, Any]]()
    command = f"gitopsctl audit --tenant local/{tenant.namespace} --resource GitOpsDeployment/{name} -o json"
    while ("delete", "resync") not in {(each["action"], each["manager"]) for each in told}:
        assert time.monotonic() < deadline, f"nobody tells that {name} was removed: {told}"
        told = json.loads(operator.run(command))


def require_told(operator: Operator, tenant: Tenant) -> None:
    """Nothing waits for an operator, and nothing went silently."""
    assert operator.told["gitopsctl resync status"] == "no resync is refused\n"
    lines = [set(line.split()) for line in operator.told["gitopsctl audit --since PT2H"].splitlines()]
    of_tenant = [words for words in lines if f"local/{tenant.namespace}" in words]
    for told in (
        {"GitOpsDeployment/lost", "delete", "resync"},
        {"GitOpsDeployment/changed", "update", "restored"},
        {"GitOpsDeployment/deleted", "create", "restored"},
    ):
        assert [words for words in of_tenant if told <= words], told
    assert not [words for words in of_tenant if {"GitOpsDeployment/kept", "restored"} <= words]


async def require_restored(tenant: Tenant, history: History) -> None:
    """Engines have what was saved, each as it was then, and nothing else."""
    await tenant.deployments.until(
        "the list shows what was saved",
        lambda objects: {name for namespace, name in objects if namespace == tenant.namespace} == {*SAVED},
        CONVERGED_SECONDS,
    )
    for name in SAVED:
        await tenant.until_path(history.created[name], f"apps/{name}")
    await tenant.until_application_gone(history.created["lost"], CONVERGED_SECONDS)
    for name in SAVED:
        await tenant.until_status("Synced", name, sync__status="Synced")
    assert await history.paths() == {name: f"apps/{name}" for name in SAVED}
    assert (await history.applications())["kept"]["metadata"].get("deletionTimestamp") is None


async def require_alive(tenant: Tenant, history: History) -> None:
    """What users change from now on has its effect."""
    for name in ("kept", "deleted"):
        await tenant.patch(name, path("again"))
        await tenant.until_path(history.created[name], "again")
    await tenant.until_path(await tenant.create("new"), "apps/new")
    for name in (*SAVED, "new"):
        await tenant.until_status("Synced", name, sync__status="Synced")


async def test_workspace_when_its_api_server_alone_is_restored_then_engines_lose_regain_and_revert_what_that_says(
    stack: HostedStack, operator: Operator, tenant: Tenant, history: History
) -> None:
    """The stack has one API server: its engine side stands still meanwhile, and finds what it left."""
    await asyncio.to_thread(operator.stop(*ENGINE_SIDE))
    engine_side = await history.applications()
    assert await history.paths() == {"kept": "apps/kept", "changed": "elsewhere", "lost": "apps/lost"}
    loop = asyncio.get_running_loop()

    def put_back() -> None:
        asyncio.run_coroutine_threadsafe(history.put_back(engine_side), loop).result(RESTORED_SECONDS)

    await follow_runbook(stack, operator, tenant, after=[put_back, operator.start(*ENGINE_SIDE)])
    await require_restored(tenant, history)
    await require_alive(tenant, history)
    assert await asyncio.to_thread(operator.run, "gitopsctl resync status") == "no resync is refused\n"
    assert (await history.paths()).keys() == {*SAVED}


async def test_api_server_of_a_workspace_and_its_engines_when_restored_then_all_notice_without_a_restart(
    stack: HostedStack, operator: Operator, tenant: Tenant, history: History
) -> None:
    ours = ("watcher", "planner", *AGENTS)
    before = {name: stack.pids()[name] for name in ours}
    await follow_runbook(stack, operator, tenant)
    await require_restored(tenant, history)
    await require_alive(tenant, history)
    assert {name: stack.pids()[name] for name in ours} == before
    assert await asyncio.to_thread(operator.run, "gitopsctl resync status") == "no resync is refused\n"
    assert (await history.paths()).keys() == {*SAVED}
