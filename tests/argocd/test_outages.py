"""Argo CD away for a while: what was asked for meanwhile comes about when it is back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from devstack.harness.hosted import HostedStack
from services.common.errors import Unavailable
from services.common.kubernetes import KubeClient, Manifest
from services.kinds.shared.api_group import FINALIZER
from tests.argocd.deployed import HEALTHY, JOB, Deployed
from tests.argocd.sources import Source, Sources, config_map, endless_hook
from tests.e2e.api import Api
from tests.e2e.tenant import USER, Tenant, application_name, condition, find

CONTROLLERS = ("argocd-application-controller-1", "argocd-application-controller-2")
REPO_SERVERS = ("argocd-repo-server-1", "argocd-repo-server-2")
A_MINUTE = 60.0


@asynccontextmanager
async def without(stack: HostedStack, *processes: str) -> AsyncIterator[None]:
    """While the block runs these processes do not."""
    async with AsyncExitStack() as away:
        for name in processes:
            await asyncio.to_thread(stack.kill, name)
            away.push_async_callback(asyncio.to_thread, stack.start, name)
        yield


async def test_controller_when_restarted_in_the_middle_of_a_sync_then_the_run_is_finished(
    stack: HostedStack, tenant: Tenant, api: Api, source: Sources, deployed: Deployed
) -> None:
    """A controller that has just started may look at an operation before it has read the AppProjects.

    Argo CD then ends the operation with an error, and says why; the run says so too, and the next one succeeds. It is
    not ordered again without being asked for: it had begun, and its hooks would run a second time.
    """
    created = await tenant.create(type="manual", source=source(config_map("first"), endless_hook()).spec())
    await api.sync_run("long")
    await tenant.until_operation(created, "Running", "waiting for completion of hook")
    async with without(stack, *CONTROLLERS):
        await complete(deployed.kube, tenant.namespace)
    operation = await api.until_ended("long")
    if operation["phase"] == "Error":
        assert "which does not exist" in operation["message"]
        await api.sync_run("again")
        await tenant.until_operation(created, "Running", "waiting for completion of hook")
        await complete(deployed.kube, tenant.namespace)
        operation = await api.until_ended("again")
    assert (operation["phase"], operation["message"]) == ("Succeeded", "successfully synced (all tasks run)")
    assert deployed.value(tenant.namespace) == "first"


@dataclass(frozen=True)
class Wishes:
    """What a tenant asks for while nobody is there to do it."""

    tenant: Tenant
    api: Api
    moved: Source
    created: dict[str, Manifest]
    """Deployments that were there before, by name."""

    @classmethod
    async def prepare(cls, tenant: Tenant, api: Api, source: Sources) -> Wishes:
        """Have what will be asked to change."""
        moved, gone, manual = (source(config_map("before", name)) for name in ("moved", "gone", "manual"))
        created = {
            "moved": await tenant.create("moved", source=moved.spec()),
            "gone": await tenant.create("gone", source=gone.spec(), finalizers=(FINALIZER,)),
            "manual": await tenant.create("manual", type="manual", source=manual.spec()),
        }
        for name in ("moved", "gone"):
            await tenant.until_status("deployed", name, **HEALTHY)
        await tenant.until_status("compared", "manual", sync__status="OutOfSync")
        return cls(tenant, api, moved, created)

    async def express(self, new: Source) -> None:
        """Ask for one of each: something new, a change, a deletion, a sync."""
        self.created["new"] = await self.tenant.create("new", source=new.spec())
        self.moved.repository.commit({"other/moved.yaml": "{}"})
        await self.tenant.patch("moved", {"spec": {"source": {"path": "other"}}})
        await self.tenant.delete("gone")
        await self.api.sync_run("meanwhile", "manual")

    async def until_with_argocd(self) -> None:
        """Wait until all of it lies before Argo CD."""
        handed_over: dict[str, Callable[[Manifest], bool]] = {
            "new": lambda application: True,
            "moved": lambda application: bool(application["spec"]["source"]["path"] == "other"),
            "gone": lambda application: "deletionTimestamp" in application["metadata"],
            "manual": lambda application: "operation" in application,
        }
        for name, is_there in handed_over.items():
            await self.tenant.applications.until(
                f"{name} is handed over",
                lambda _, name=name, is_there=is_there: is_there(self.application(name)),
            )

    def application(self, name: str) -> Manifest:
        """The Application of a deployment."""
        return find(self.tenant.applications.objects, application_name(self.created[name])) or {"metadata": {}}

    def claims(self) -> list[str]:
        """What the user's resources say that is not so while nobody has done anything."""
        told = {
            "new is deployed": self.tenant.status("new").get("sync"),
            "moved has moved": self.tenant.status("moved").get("reconciledState", {}).get("source", {}).get("path")
            != "app",
            "gone is gone": ("gone" not in self.names()) or None,
            "the run has ended": self.api.operation("meanwhile").get("finishedAt"),
        }
        return [claim for claim, is_told in told.items() if is_told]

    def names(self) -> set[str]:
        """The tenant's deployments."""
        return {name for namespace, name in self.tenant.deployments.objects if namespace == self.tenant.namespace}


async def test_argocd_when_it_was_down_for_a_minute_then_everything_asked_for_meanwhile_comes_about(
    stack: HostedStack, tenant: Tenant, api: Api, source: Sources, deployed: Deployed
) -> None:
    wishes = await Wishes.prepare(tenant, api, source)
    async with without(stack, *CONTROLLERS, *REPO_SERVERS):
        await wishes.express(source(config_map("new", "new")))
        await wishes.until_with_argocd()
        with pytest.raises(Unavailable):  # that is: for a minute nothing is said that is not so
            await tenant.deployments.until("something untrue", lambda _: bool(wishes.claims()), A_MINUTE)
        assert not wishes.claims()
        assert condition(tenant.status("gone"), "Deleting")["status"] == "True"
    await deployed.until(tenant.namespace, "new", "new")
    await deployed.until(tenant.namespace, None, "moved")
    await deployed.until(tenant.namespace, None, "gone")
    await tenant.until_application_gone(wishes.created["gone"])
    await api.until_phase("meanwhile", "Succeeded")
    assert deployed.value(tenant.namespace, "manual") == "before"
    await tenant.until_status("deployed", "new", **HEALTHY)


async def test_repo_server_when_it_is_down_then_the_status_says_so_until_it_is_back(
    stack: HostedStack, tenant: Tenant, source: Sources, deployed: Deployed
) -> None:
    async with without(stack, *REPO_SERVERS):
        await tenant.create(source=source().spec())
        error = await tenant.until_condition("ComparisonError", "True", timeout_seconds=90)
        assert "connection refused" in error["message"]
        assert deployed.value(tenant.namespace) is None
    await tenant.until_status("deployed", **HEALTHY)
    assert condition(tenant.status(), "ComparisonError")["status"] == "False"


async def complete(kube: KubeClient, namespace: str) -> None:
    """Do for the hook what a cluster with nodes would do."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    conditions = [
        {"type": type_, "status": "True", "lastTransitionTime": now} for type_ in ("SuccessCriteriaMet", "Complete")
    ]
    status = {"startTime": now, "completionTime": now, "succeeded": 1, "conditions": conditions}
    name = endless_hook()["metadata"]["name"]
    await kube.patch_object(JOB, namespace, name, {"status": status}, field_manager=USER, subresource="status")
