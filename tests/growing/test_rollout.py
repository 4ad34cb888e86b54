"""A version or a profile comes to a ring of provisioned instances: nobody adds the new ones, nobody removes the old."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import pytest

from devstack.argocd_simulator.behaviour import COMPARISON_ERROR
from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import Mirror
from services.common.kubernetes import CONFIG_MAP, KubeClient, Manifest
from tests.e2e.operators import listed, of_instances, typed, until_seen
from tests.e2e.status_history import BY_SIMULATOR, seen_by_user
from tests.e2e.tenant import Tenant, application_name, fresh_tenant, path
from tests.growing.conftest import LARGE, OLD_VERSION, PROFILES, VERSION
from tests.growing.fleet import Row, instances, placed_in, retire_ring, until_accepting, until_removed

RING, TENANTS = "canary", 3
POOL = ("--ring", RING, "--min", "1", "--max", "1", "--spare", "0", "--capacity", "4", "--version", OLD_VERSION)
ROLLOUT = ("rollout", "start", OLD_VERSION, "--profile", LARGE, "--rings", RING)
"""Of the profile, to the ring's own version."""

pytestmark = pytest.mark.usefixtures("provisioner")


@pytest.fixture
async def old(stack: HostedStack) -> AsyncIterator[Row]:
    """The only instance of the pool, of the old version. In the end the ring has none."""
    await typed(stack, "pool", "set", *POOL)
    yield await until_accepting(stack, RING, OLD_VERSION)
    await typed(stack, "pool", "remove", "--ring", RING)
    await retire_ring(stack, RING)


@pytest.fixture
async def crowd(
    stack: HostedStack, old: Row, kube: KubeClient, deployments: Mirror, applications: Mirror
) -> AsyncIterator[list[Tenant]]:
    """Tenants of the ring, who have nothing yet."""
    async with placed_in(stack, RING), AsyncExitStack() as leaving:
        yield [await leaving.enter_async_context(fresh_tenant(kube, deployments, applications)) for _ in range(TENANTS)]


@dataclass(frozen=True)
class Deployed:
    """What the tenants of the ring have."""

    tenants: list[Tenant]
    created: list[Manifest]
    applications: Mirror

    def places(self) -> list[str]:
        """Namespaces of their Applications."""
        names = {application_name(each) for each in self.created}
        return sorted(place for place, name in self.applications.objects if name in names)

    def on(self, namespace: str) -> set[int]:
        """The numbers of the tenants whose Applications are there."""
        names = [application_name(each) for each in self.created]
        return {names.index(name) for place, name in self.applications.objects if place == namespace and name in names}

    @asynccontextmanager
    async def without_gap(self) -> AsyncIterator[None]:
        """Meanwhile users see that all is in sync and healthy, and no change; then what they change has its effect."""
        async with AsyncExitStack() as watching:
            seen = [await watching.enter_async_context(seen_by_user(tenant)) for tenant in self.tenants]
            yield
            assert [await each.changes(BY_SIMULATOR) for each in seen] == [[]] * TENANTS
        for tenant, created in zip(self.tenants, self.created, strict=True):
            await tenant.patch("web", path("apps/after"))
            await tenant.until_path(created, "apps/after")
            await tenant.until_status("it is synced", sync__status="Synced", health__status="Healthy")


async def status(stack: HostedStack) -> Row:
    """Of the newest rollout."""
    (found,) = await listed(stack, "rollout", "status")
    return found


async def until_status(stack: HostedStack, **wanted: object) -> Row:
    """The status of the rollout when it has these values."""
    return await until_seen(lambda: status(stack), lambda shown: wanted.items() <= shown.items())


async def until_rolled_out(stack: HostedStack) -> Row:
    """The status of the rollout when it is over."""
    return await until_seen(lambda: status(stack), lambda shown: shown["state"] in {"done", "failed", "aborted"})


@pytest.fixture
async def deployed(crowd: list[Tenant], applications: Mirror, old: Row) -> Deployed:
    """Each tenant has a deployment, all on the old instance."""
    found = Deployed(crowd, [await tenant.create() for tenant in crowd], applications)
    for tenant in crowd:
        await tenant.until_status("it is synced", sync__status="Synced", health__status="Healthy")
    assert found.places() == [old["namespace"]] * TENANTS
    return found


async def pool_of(stack: HostedStack) -> Row:
    (found,) = [each for each in await listed(stack, "pool", "list") if each["ring"] == RING]
    return found


async def test_version_when_it_rolls_out_then_its_instance_is_installed_tenants_move_to_it_and_the_old_one_is_removed(
    stack: HostedStack, old: Row, deployed: Deployed, kube: KubeClient
) -> None:
    async with deployed.without_gap():
        assert "accepted" in await typed(stack, "rollout", "start", VERSION, "--rings", RING, "--soak", "1s")
        rollout = await until_rolled_out(stack)
        assert rollout["state"] == "done", rollout
        new = await until_accepting(stack, RING, VERSION)
        assert (rollout["oldInstances"], rollout["newInstances"]) == ([old["id"]], [new["id"]])
        assert deployed.places() == [new["namespace"]] * TENANTS
        await until_removed(stack, kube, old["id"])
    pool = await pool_of(stack)
    assert (pool["version"], pool["instances"]) == (VERSION, 1)


@pytest.mark.long
async def test_profile_when_it_rolls_out_then_tenants_are_on_an_instance_that_is_configured_so_and_the_pool_is(
    stack: HostedStack, old: Row, deployed: Deployed, kube: KubeClient
) -> None:
    async with deployed.without_gap():
        assert "accepted" in await typed(stack, *ROLLOUT, "--soak", "1s")
        rollout = await until_rolled_out(stack)
        assert rollout["state"] == "done", rollout
        new = await until_accepting(stack, RING, OLD_VERSION)
        assert (new["profile"], rollout["oldInstances"]) == (LARGE, [old["id"]])
        assert deployed.places() == [new["namespace"]] * TENANTS
    for patch in PROFILES[LARGE]:
        if patch["kind"] == CONFIG_MAP.kind:
            there = await kube.get_object(CONFIG_MAP, new["namespace"], patch["metadata"]["name"])
            assert there["data"].items() >= patch["data"].items()
    pool = await pool_of(stack)
    assert (pool["version"], pool["profile"]) == (OLD_VERSION, LARGE)


@pytest.mark.long
async def test_profile_when_its_gate_fails_then_tenants_go_back_and_the_pool_is_as_it_was(
    stack: HostedStack, old: Row, deployed: Deployed
) -> None:
    assert "accepted" in await typed(stack, *ROLLOUT, "--soak", "10m")
    (new,) = (await until_status(stack, step="soaking", stage=1))["newInstances"]
    moved = deployed.on((await instances(stack))[new]["namespace"])
    others = [tenant for number, tenant in enumerate(deployed.tenants) if number not in moved]
    async with AsyncExitStack() as watching:
        seen = [await watching.enter_async_context(seen_by_user(tenant)) for tenant in others]
        for number in moved:
            await deployed.tenants[number].patch("web", path(COMPARISON_ERROR))
        failed = await until_rolled_out(stack)
        assert (failed["state"], failed["stage"], failed["oldInstances"]) == ("failed", 1, [old["id"]])
        assert failed["reason"].startswith(f"at 1 %: engine instance {new}: ")
        assert "of 2.0 tenants fail, and of 0.0% of the ring's before" in failed["reason"]
        assert deployed.places() == [old["namespace"]] * TENANTS
        assert [await each.changes(BY_SIMULATOR) for each in seen] == [[]] * len(others)
    known, pool = await instances(stack), await pool_of(stack)
    assert (known[old["id"]]["state"], known[new]["state"]) == ("accepting", "drained")
    assert (pool["version"], pool["profile"]) == (OLD_VERSION, "")


async def test_rollout_when_paused_resumed_and_aborted_then_it_obeys_and_refuses_what_would_be_in_its_way(
    stack: HostedStack, old: Row, deployed: Deployed
) -> None:
    async with deployed.without_gap():
        await typed(stack, *ROLLOUT, "--soak", "10m")
        (new,) = (await until_status(stack, step="soaking", stage=1))["newInstances"]
        await typed(stack, "rollout", "pause")
        assert (await status(stack))["state"] == "paused"
        assert (await typed(stack, "rollout", "pause")).endswith("unchanged, it is paused\n")
        place = (await instances(stack))[new]["namespace"]
        assert deployed.places() == sorted([old["namespace"]] * (TENANTS - 2) + [place] * 2)
        second = await asyncio.to_thread(of_instances, stack, "rollout", "start", VERSION, "--rings", RING)
        assert (second.exit_code, "is under way, and there is one at a time" in second.stderr) == (1, True)
        given_up = await asyncio.to_thread(of_instances, stack, "retire", old["id"])
        assert (given_up.exit_code, f"ring {RING} is being rolled out" in given_up.stderr) == (1, True)
        await typed(stack, "rollout", "resume")
        assert (await status(stack))["state"] == "running"
        await typed(stack, "rollout", "abort")
        aborted = await until_rolled_out(stack)
        assert aborted["state"] == "aborted"
        assert deployed.places() == [old["namespace"]] * TENANTS
    known = await instances(stack)
    assert (known[old["id"]]["state"], known[new]["state"]) == ("accepting", "drained")
