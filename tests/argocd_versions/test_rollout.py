"""A version comes to a ring of real Argo CDs: tenants leave one that is worse; what one tenant breaks stops nothing."""

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
from tests.argocd.deployed import HEALTHY, until_sync_says
from tests.argocd.sources import NAME, Source, Sources, config_map, namespace
from tests.argocd.test_health import SLACK_SECONDS, frozen, until_health
from tests.argocd.test_moves import DEPLOYED_SECONDS, watched
from tests.argocd.test_outages import CONTROLLERS
from tests.e2e.operators import listed, states, typed, until_drained, until_seen
from tests.e2e.status_history import seen_by_user
from tests.e2e.tenant import Tenant, application_name, fresh_tenant

pytestmark = pytest.mark.long

FIRST, SECOND = ENGINE_NAMESPACES
NEW, VERSION = "second-of-3-2", "3.2.11"
TENANTS = 3
AT_FIRST = 2
"""So many of them move at the first stage."""
CHANGED = [("ConfigMap", NAME)]
"""What the second commit of a tenant changes."""


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

    def number_on(self, place: str) -> int:
        """The first tenant whose Application is in this engine namespace."""
        return next(
            number
            for number, each in enumerate(self.created)
            if (place, application_name(each)) in self.applications.objects
        )

    async def go_on(self) -> None:
        """Each commits something, and has it."""
        for source in self.sources:
            source.commit(config_map("second"))
        for tenant, source in zip(self.tenants, self.sources, strict=True):
            await tenant.until_status("goes on", sync__revision=source.repository.head(), **HEALTHY)

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
    assert crowd.places() == {FIRST: TENANTS - AT_FIRST, SECOND: AT_FIRST}
    async with AsyncExitStack() as watching:
        histories = [await watching.enter_async_context(watched(kube, each.namespace)) for each in crowd.tenants]
        async with AsyncExitStack() as seeing:
            seen = [await seeing.enter_async_context(seen_by_user(each)) for each in crowd.tenants]
            # It compares nothing any more. Its gate says so long before its heartbeat is lost, and it counts as down.
            async with frozen(stack, CONTROLLERS[ENGINE_NAMESPACES.index(SECOND)]):
                failed = await crowd.until(state="failed")
            assert failed["reason"].startswith(f"at 1 %: engine instance {NEW}: a p95 of ")
            assert " s since they were compared last, and the ring's was " in failed["reason"]
            assert crowd.places() == {FIRST: TENANTS}
            shown = await states(stack)
            assert (shown[FIRST], shown[NEW]) == ("accepting", "drained")
            assert [await each.changes() for each in seen] == [[]] * TENANTS
        assert [await each.changes() for each in histories] == [([], [])] * TENANTS
        await crowd.go_on()
        assert crowd.places() == {FIRST: TENANTS}
        assert [await each.changes() for each in histories] == [(CHANGED, [])] * TENANTS
    await until_health(stack, NEW, "Healthy", SLACK_SECONDS)


async def test_ring_when_one_tenant_breaks_its_own_then_all_are_on_the_new_version_and_no_workload_was_touched(
    stack: HostedStack, crowd: Crowd, kube: KubeClient
) -> None:
    async with AsyncExitStack() as watching:
        histories = [await watching.enter_async_context(watched(kube, each.namespace)) for each in crowd.tenants]
        await typed(stack, "rollout", "start", VERSION, "--soak", "20s", "--rings", "general")
        await crowd.until(step="soaking", stage=1)
        # The whole soak, which begins anew, sees what the tenant has done.
        await typed(stack, "rollout", "pause")
        paused = await crowd.until(state="paused")
        assert (paused["stage"], paused["moved"]) == (1, AT_FIRST)
        breaking = crowd.number_on(SECOND)
        others = [each for number, each in enumerate(crowd.tenants) if number != breaking]
        seen = [await watching.enter_async_context(seen_by_user(each)) for each in others]
        crowd.sources[breaking].commit(namespace("refused"))
        await until_sync_says(crowd.tenants[breaking], "resource :Namespace is not permitted in project")
        await typed(stack, "rollout", "resume")
        done = await crowd.until(state="done")
        assert (done["oldInstances"], done["newInstances"]) == ([FIRST], [NEW])
        assert crowd.places() == {SECOND: TENANTS}
        assert (await states(stack))[FIRST] == "retired"
        assert [await each.changes() for each in seen] == [[]] * len(others)
        assert [await each.changes() for each in histories] == [([], [])] * TENANTS
        crowd.sources[breaking].remove(namespace("refused"))
        await crowd.go_on()
        assert [await each.changes() for each in histories] == [(CHANGED, [])] * TENANTS
