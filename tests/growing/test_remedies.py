"""An instance that a provisioner has installed is ill: its configuration is applied anew, or another takes its place.

Its Argo CD is a simulator that stands still, so that its heartbeat is late and then lost.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import Mirror
from services.common.kubernetes import CONFIG_MAP, KubeClient, Manifest, NotFound
from tests.component.agent.worker import Worker
from tests.e2e.operators import listed, typed, until_seen
from tests.e2e.status_history import BY_SIMULATOR, seen_by_user
from tests.e2e.tenant import Tenant, application_name, fresh_tenant, path
from tests.growing.conftest import EARLY, VERSION, simulator
from tests.growing.fleet import (
    instances,
    placed_in,
    retire_ring,
    until_accepting,
    until_removed,
    until_shown,
)

RING, CAPACITY = "early", "4"
CONFIG = "argocd-cm"
REMEDIES = ["Refresh", "RestartController", "RestartRepoServer", "FlushCache", "ReapplyConfiguration"]
REPLACED = ["Cordon", "Evacuate", "Replace", "Well"]

pytestmark = pytest.mark.usefixtures("provisioner")


@dataclass(frozen=True)
class Served:
    """An instance, its Argo CD, and a tenant on it."""

    stack: HostedStack
    kube: KubeClient
    instance: str
    """Its id, and its namespace."""
    argocd: Worker
    tenant: Tenant
    created: Manifest

    async def config(self) -> Manifest:
        """What Argo CD's main ConfigMap holds; nothing while it is made anew."""
        try:
            found = await self.kube.get_object(CONFIG_MAP, self.instance, CONFIG)
        except NotFound:
            return {}
        data: Manifest = found["data"]
        return data

    async def until_config(self, expected: Manifest) -> None:
        """Until it holds this, and nothing else."""
        await until_seen(self.config, lambda found: found == expected)

    async def remedies(self) -> list[str]:
        """What was done for the instance until now."""
        past = await listed(self.stack, "remedies", "--past")
        return [each["message"].split()[0].removesuffix(":") for each in past if each["instance"] == self.instance]

    async def until_well(self) -> None:
        """Until nothing more is done for it."""
        await until_seen(self.remedies, lambda done: done[-1:] == ["Well"])

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Meanwhile its Argo CD does nothing."""
        self.argocd.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.argocd.process.send_signal(signal.SIGCONT)


@pytest.fixture
async def served(
    stack: HostedStack, kube: KubeClient, deployments: Mirror, applications: Mirror, tmp_path: Path
) -> AsyncIterator[Served]:
    """The only instance of its ring. In the end the ring has none."""
    name = f"ill-{uuid4().hex[:8]}"
    with ExitStack() as ending:
        argocd = simulator(stack, tmp_path / "simulator.log", name)
        ending.callback(argocd.stop)
        await typed(stack, "add", name, "--ring", RING, "--capacity", CAPACITY, "--version", VERSION)
        await until_shown(stack, name, state="accepting")
        async with placed_in(stack, RING), fresh_tenant(kube, deployments, applications) as tenant:
            created = await tenant.create()
            await tenant.until_status("it is synced", sync__status="Synced", health__status="Healthy")
            yield Served(stack, kube, name, argocd, tenant, created)
        await retire_ring(stack, RING)


@asynccontextmanager
async def without_gap(tenant: Tenant) -> AsyncIterator[None]:
    """Meanwhile its user sees that the deployment is in sync and healthy, and nothing else."""
    async with seen_by_user(tenant) as seen:
        yield
        assert await seen.changes(BY_SIMULATOR) == []


@pytest.mark.long  # on a busy machine it is not well again before the next remedy is due
async def test_instance_when_its_configuration_was_changed_by_hand_then_that_is_put_back_and_its_tenant_stays(
    served: Served, applications: Mirror
) -> None:
    before = await served.config()
    # A key of no manifest: what the provisioner compares by itself leaves it.
    added = {"data": {"resource.inclusions": "[]"}}
    await served.kube.patch_object(CONFIG_MAP, served.instance, CONFIG, added, field_manager="somebody")
    async with without_gap(served.tenant):
        with served.standing_still():
            await served.until_config(before)
        await served.until_well()
    tried = await served.remedies()
    assert tried[: len(REMEDIES)] == REMEDIES
    assert "Evacuate" not in tried
    row = (await instances(served.stack))[served.instance]
    assert (row["state"], row["health"], row["cordoned"]) == ("accepting", "Healthy", False)
    assert (served.instance, application_name(served.created)) in applications.objects


@pytest.mark.long  # tenants leave an ill one in test_unreachable_engine.py, and one is installed in test_growing.py
async def test_instance_when_nothing_helps_then_another_is_installed_for_its_tenant_and_the_old_one_is_removed(
    served: Served, applications: Mirror
) -> None:
    async with without_gap(served.tenant):
        with served.standing_still():
            await until_removed(served.stack, served.kube, served.instance)
        await served.until_well()
    tried = await served.remedies()
    # A busy machine may have stood still as well: then one was tried, and it was well again, before it was ill.
    assert [each for each in tried if each not in REPLACED][-len(REMEDIES) :] == REMEDIES
    assert [each for each in tried if each in REPLACED][-len(REPLACED) :] == REPLACED
    other = await until_accepting(served.stack, RING, VERSION)
    assert other["id"] in EARLY
    assert str(other["capacity"]) == CAPACITY
    places = {place for place, name in applications.objects if name == application_name(served.created)}
    assert places == {other["namespace"]}
    await served.tenant.patch("web", path("apps/after"))
    await served.tenant.until_path(served.created, "apps/after")
    await served.tenant.until_status("it is synced", sync__status="Synced", health__status="Healthy")
