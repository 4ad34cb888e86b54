"""A version comes to a ring of real Argo CDs: tenants go back when a gate fails, and all move when none does."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from devstack.components.stack import ENGINE_NAMESPACES
from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import Mirror
from services.common.kubernetes import KubeClient, Manifest
from tests.argocd.deployed import HEALTHY
from tests.argocd.sources import Source, Sources, config_map
from tests.argocd.test_moves import DEPLOYED_SECONDS, watched
from tests.e2e.operators import listed, states, typed, until_drained, until_seen
from tests.e2e.status_history import seen_by_user
from tests.e2e.tenant import Tenant, application_name, fresh_tenant

pytestmark = pytest.mark.long

FIRST, SECOND = ENGINE_NAMESPACES
NEW, VERSION = "second-of-3-2", "3.2.11"
TENANTS = 3
BROKEN = "apiVersion: v1\nkind: ConfigMap\nmetadata: {\n"
"""What does not look like a manifest Argo CD passes over."""


@dataclass
class Crowd:
    """Tenants on the instance of 3.1, each with what it deploys."""

    stack: HostedStack
    tenants: list[Tenant]
    sources: list[Source]
    created: list[Manifest]
    applications: Mirror

    def places(self) -> Counter[str]:
        """How many of their Applications are in which engine namespace."""
        names = {application_name(each) for each in self.created}
        return Counter(place for place, name in self.applications.objects if name in names)

    def on(self, namespace: str) -> int:
        """The number of a tenant whose Application is there alone."""
        return next(
            number
            for number, each in enumerate(self.created)
            if {place for place, name in self.applications.objects if name == application_name(each)} == {namespace}
        )

    async def until(self, **wanted: object) -> dict[str, Any]:
        """The status of the rollout when it has these values."""
        (found,) = await until_seen(
            lambda: listed(self.stack, "rollout", "status"), lambda shown: wanted.items() <= shown[0].items()
        )
        return found


async def add_new_instance(stack: HostedStack) -> None:
    """Argo CD 3.2 accepts tenants, as an instance of that version."""
    if NEW in await states(stack):
        await typed(stack, "undrain", NEW)
        return
    await typed(stack, "add", NEW, "--namespace", SECOND, "--version", VERSION)
    await until_seen(lambda: states(stack), lambda found: found[NEW] == "accepting")


@pytest.fixture(scope="package")
async def old_fleet(stack: HostedStack) -> None:
    """The instance of 3.1 alone. Nobody sees what version an Argo CD runs that is a process: an operator says it."""
    await typed(stack, "drain", SECOND)
    await until_drained(stack, SECOND)
    await typed(stack, "retire", SECOND)


@pytest.fixture
async def crowd(
    stack: HostedStack, old_fleet: None, kube: KubeClient, deployments: Mirror, applications: Mirror, source: Sources
) -> AsyncIterator[Crowd]:
    """All healthy, and the new instance there."""
    async with AsyncExitStack() as leaving:
        if (await states(stack)).get(NEW) == "accepting":
            await typed(stack, "drain", NEW)
        tenants = [
            await leaving.enter_async_context(fresh_tenant(kube, deployments, applications)) for _ in range(TENANTS)
        ]
        sources = [source(config_map("first")) for _ in tenants]
        created = [await each.create(source=of.spec()) for each, of in zip(tenants, sources, strict=True)]
        for tenant in tenants:
            await tenant.until_status("deployed", timeout_seconds=DEPLOYED_SECONDS, **HEALTHY)
        await add_new_instance(stack)
        yield Crowd(stack, tenants, sources, created, applications)


async def test_ring_when_its_new_instance_does_worse_then_its_tenants_go_back_and_the_old_one_serves_them(
    stack: HostedStack, crowd: Crowd, kube: KubeClient
) -> None:
    assert "accepted, ring general" in await typed(stack, "rollout", "start", VERSION, "--soak", "10m")
    await crowd.until(step="soaking", stage=1)
    assert crowd.places() == {FIRST: TENANTS - 1, SECOND: 1}
    moved = crowd.on(SECOND)
    async with AsyncExitStack() as watching:
        others = [each for number, each in enumerate(crowd.tenants) if number != moved]
        histories = [await watching.enter_async_context(watched(kube, each.namespace)) for each in crowd.tenants]
        seen = [await watching.enter_async_context(seen_by_user(each)) for each in others]
        crowd.sources[moved].write("broken.yaml", BROKEN)
        failed = await crowd.until(state="failed")
        assert failed["reason"].startswith(f"at 1 %: engine instance {NEW}: ")
        assert crowd.places() == {FIRST: TENANTS}
        shown = await states(stack)
        assert (shown[FIRST], shown[NEW]) == ("accepting", "drained")
        crowd.sources[moved].repository.commit({"app/broken.yaml": None})
        await crowd.tenants[moved].until_status("mended", timeout_seconds=DEPLOYED_SECONDS, **HEALTHY)
        assert [await each.changes() for each in seen] == [[]] * len(others)
        assert [(each.changed, each.deleted) for each in histories] == [([], [])] * TENANTS


async def test_ring_when_all_is_well_then_its_tenants_are_on_the_new_version_and_no_workload_was_touched(
    stack: HostedStack, crowd: Crowd, kube: KubeClient
) -> None:
    async with AsyncExitStack() as watching:
        histories = [await watching.enter_async_context(watched(kube, each.namespace)) for each in crowd.tenants]
        seen = [await watching.enter_async_context(seen_by_user(each)) for each in crowd.tenants]
        await typed(stack, "rollout", "start", VERSION, "--soak", "5s", "--rings", "general")
        done = await crowd.until(state="done")
        assert (done["oldInstances"], done["newInstances"]) == ([FIRST], [NEW])
        assert crowd.places() == {SECOND: TENANTS}
        assert (await states(stack))[FIRST] == "retired"
        assert [await each.changes() for each in seen] == [[]] * TENANTS
        assert [(each.changed, each.deleted) for each in histories] == [([], [])] * TENANTS
        for source in crowd.sources:
            source.commit(config_map("second"))
        for tenant, source in zip(crowd.tenants, crowd.sources, strict=True):
            await tenant.until_status("goes on", sync__revision=source.repository.head(), **HEALTHY)
    assert [each.changed for each in histories] == [[("ConfigMap", "settings")]] * TENANTS
