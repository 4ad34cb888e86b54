"""Promotions through every real component: what a user writes, what becomes of it, and who else has a part in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from devstack.appstudio.build_service import BuildService
from devstack.appstudio.gitops_repositories import PretendedRepositories
from devstack.harness.mirror import Mirror, mirrored
from services.common.kubernetes import ApiResource, KubeClient, Manifest
from services.kinds.application.kind import APPLICATION
from services.kinds.component.model import COMPONENT
from services.kinds.environment.model import ENVIRONMENT
from services.kinds.promotion_run.model import PROMOTION_RUN
from services.kinds.snapshot.model import SNAPSHOT
from services.kinds.snapshot_environment_binding.model import BINDING
from tests.e2e.tenant import USER, Tenant, condition

COMPONENTS = ("api", "web")


class Shop:
    """An application of two components, and environments one after the other."""

    def __init__(self, tenant: Tenant, runs: Mirror, bindings: Mirror) -> None:
        self.tenant, self.runs, self.bindings = tenant, runs, bindings

    async def create(self, kind: ApiResource, name: str, spec: dict[str, Any]) -> Manifest:
        meta = {"name": name, "namespace": self.tenant.namespace}
        manifest = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "spec": spec}
        return await self.tenant.kube.create_object(kind, manifest, field_manager=USER)

    async def open(self) -> None:
        """Everything that a promotion needs."""
        await self.create(APPLICATION, "shop", {"displayName": "Shop"})
        for name in COMPONENTS:
            await self.create(COMPONENT, name, {"application": "shop", "componentName": name})
        await self.environment("dev", "Manual")
        await self.environment("staging", "AppStudioAutomated", "dev")
        await self.environment("prod", "Manual", "staging")
        for name in ("one", "two"):
            await self.snapshot(name)

    async def environment(self, name: str, strategy: str, parent: str = "") -> None:
        spec = {"displayName": name, "deploymentStrategy": strategy}
        await self.create(ENVIRONMENT, name, spec | ({"parentEnvironment": parent} if parent else {}))

    async def snapshot(self, name: str) -> None:
        images = [{"name": each, "containerImage": f"registry.example.com/{each}@sha256:{name}"} for each in COMPONENTS]
        artifacts = {"unstableFields": {"made": {"by": "a test"}}}
        await self.create(SNAPSHOT, name, {"application": "shop", "components": images, "artifacts": artifacts})

    async def promote(self, name: str, snapshot: str, **promotion: Any) -> None:
        await self.create(PROMOTION_RUN, name, {"application": "shop", "snapshot": snapshot} | promotion)

    def status(self, run: str) -> dict[str, Any]:
        found: dict[str, Any] = self.runs.objects.get((self.tenant.namespace, run), {}).get("status", {})
        return found

    def steps(self, run: str) -> list[tuple[str, str]]:
        return [(each["environmentName"], each["status"]) for each in self.status(run).get("environmentStatus", ())]

    async def until_complete(self, run: str) -> str:
        await self.runs.until(
            f"{run} is complete; it is {self.status(run)}", lambda _: self.status(run).get("state") == "Complete", 120
        )
        result: str = self.status(run)["completionResult"]
        return result

    async def until_error(self, run: str, message: str) -> None:
        await self.runs.until(
            f"{run} says {message}; it says {self.status(run)}",
            lambda _: message in condition(self.status(run), "ErrorOccurred").get("message", ""),
        )

    def bound(self) -> dict[str, str]:
        """The snapshot of each environment."""
        ours = (item for (where, _), item in self.bindings.objects.items() if where == self.tenant.namespace)
        return {item["spec"]["environment"]: item["spec"]["snapshot"] for item in ours}


@pytest.fixture
async def shop(kube: KubeClient, tenant: Tenant) -> AsyncIterator[Shop]:
    """One that is open, with a build service."""
    where = tenant.namespace
    async with mirrored(kube, PROMOTION_RUN, where) as runs, mirrored(kube, BINDING, where) as bindings:
        made = Shop(tenant, runs, bindings)
        await made.open()
        building = asyncio.create_task(BuildService(kube, where, PretendedRepositories()).run())
        yield made
        for _, name in list(bindings.objects):
            await kube.delete_object(BINDING, where, name)
        building.cancel()
        await asyncio.gather(building, return_exceptions=True)


async def test_snapshot_when_promoted_automatically_and_by_hand_then_each_environment_has_it_and_keeps_it(
    shop: Shop, kube: KubeClient
) -> None:
    namespace = shop.tenant.namespace
    await shop.promote("first", "one", automatedPromotion={"initialEnvironment": "dev"})
    await shop.promote("second", "two", manualPromotion={"targetEnvironment": "dev"})
    assert await shop.until_complete("first") == "Success"
    assert shop.steps("first") == [("dev", "Success"), ("staging", "Success")]
    assert await shop.until_complete("second") == "Success"
    await shop.bindings.until("dev alone has snapshot two", lambda _: shop.bound() == {"dev": "two", "staging": "one"})
    for item in shop.bindings.objects.values():
        assert "ownerReferences" not in item["metadata"], "what was promoted outlives the run"
        assert {each["name"] for each in item["status"]["components"]} == set(COMPONENTS), "the build service's part"
        assert {each["syncStatus"] for each in item["status"]["gitopsDeployments"]} == {"Synced"}
    for name in ("first", "second"):
        await kube.delete_object(PROMOTION_RUN, namespace, name)
    await shop.runs.until("the runs are gone", lambda objects: not objects)
    assert shop.bound() == {"dev": "two", "staging": "one"}


async def test_run_when_its_snapshot_is_not_there_then_it_says_so_and_goes_on_once_it_is(shop: Shop) -> None:
    await shop.promote("early", "three", manualPromotion={"targetEnvironment": "prod"})
    await shop.until_error("early", "Snapshot: three referred in Binding: shop-prod-generated-binding does not exist.")
    assert shop.bound() == {}
    await shop.snapshot("three")
    assert await shop.until_complete("early") == "Success"
    assert shop.bound() == {"prod": "three"}
