"""A tenant that its instance has no room for: one of its environments goes to another instance, and comes back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import Mirror
from services.common.kubernetes import Manifest
from services.kinds.snapshot_environment_binding.model import BINDING
from tests.e2e.api import Api, Cluster
from tests.e2e.moving import Mover
from tests.e2e.operators import add_ready_instance, of_instances, typed
from tests.e2e.status_history import BY_SIMULATOR, seen_by_user
from tests.e2e.tenant import Tenant, path
from tests.e2e.test_appstudio import MANAGED, create_binding, create_environment, tell_components
from tests.e2e.test_fleet import namespace

__all__ = ["namespace"]

ROOM = 4
"""Applications. A tenant takes up seven tenths of that: three."""


@pytest.fixture
async def small(stack: HostedStack, tenant: Tenant, namespace: str) -> AsyncIterator[str]:
    """An instance with little room, that the tenant will be placed on."""
    await add_ready_instance(stack, namespace, "--capacity", str(ROOM))
    await typed(stack, "pin", tenant.namespace, "--to", namespace)
    try:
        yield namespace
    finally:
        await asyncio.to_thread(of_instances, stack, "unpin", tenant.namespace)
        await asyncio.to_thread(of_instances, stack, "drain", namespace)


@pytest.fixture
async def environments(api: Api, cluster: Cluster, small: str) -> tuple[str, str]:
    """Two that work."""
    await api.secret("kubeconfig", "managed-environment", kubeconfig=cluster.kubeconfig())
    for name in ("dev", "prod"):
        await api.environment(name, apiURL=cluster.url)
        await api.until_connection("Succeeded", name)
    return ("dev", "prod")


@pytest.fixture
def mover(stack: HostedStack, tenant: Tenant, applications: Mirror) -> Mover:
    """Of the test's tenant."""
    return Mover(stack, tenant, applications)


@pytest.fixture
async def filled(tenant: Tenant, mover: Mover, small: str, environments: tuple[str, str]) -> list[Manifest]:
    """Deployments of the first environment, for which there is room; and no more."""
    destination = {"environment": environments[0], "namespace": "web"}
    created = [await tenant.create(f"web-{number}", destination=destination) for number in range(3)]
    for number, each in enumerate(created):
        await tenant.until_status("it is synced", f"web-{number}", sync__status="Synced", health__status="Healthy")
        assert mover.places(each) == {small}
    return created


async def test_tenant_when_its_instance_has_no_room_then_an_environment_is_on_another_until_an_operator_moves_it_back(
    stack: HostedStack,
    tenant: Tenant,
    mover: Mover,
    small: str,
    environments: tuple[str, str],
    filled: list[Manifest],
) -> None:
    second = {"environment": environments[1], "namespace": "web"}
    late = await tenant.create("late", destination=second)
    await tenant.until_status("it is synced", "late", sync__status="Synced", health__status="Healthy")
    (there,) = mover.places(late)
    assert there != small
    await tenant.patch("late", path("apps/there"))
    await tenant.until_path(late, "apps/there")
    await tenant.until_status("it is told", "late", reconciledState__source__path="apps/there")

    listed = json.loads(await typed(stack, "list", "-o", "json"))
    (instance,) = (each["id"] for each in listed if each["namespace"] == there and each["state"] != "retired")
    async with seen_by_user(tenant, "late") as seen:
        ordered = await typed(stack, "move", f"{tenant.namespace}@{instance}", "--to", small)
        assert ordered == f"local/{tenant.namespace}@{instance}: accepted\n"
        await mover.until_done()
        assert await seen.changes(BY_SIMULATOR) == []
    assert (mover.places(late), [mover.places(each) for each in filled]) == ({small}, [{small}] * 3)
    await tenant.patch("late", path("apps/back"))
    await tenant.until_path(late, "apps/back")
    await tenant.delete("late")
    await tenant.until_application_gone(late)


async def test_components_when_their_environment_is_one_of_appstudio_then_they_are_where_there_is_room_for_it(
    tenant: Tenant, api: Api, mover: Mover, cluster: Cluster, small: str, filled: list[Manifest]
) -> None:
    """Its ManagedEnvironment is what counts, as for any other deployment."""
    await create_environment(api, apiURL=cluster.url)
    await create_binding(api, "cart")
    await api.until_connection("Succeeded", MANAGED)
    await tell_components(api, "cart")
    cart = "web-shop-staging-cart"
    await tenant.until_status("it is synced", cart, sync__status="Synced", health__status="Healthy")
    (there,) = mover.places(tenant.deployments.objects[tenant.namespace, cart])
    assert there != small
    await api.delete(BINDING, "web")
    await tenant.deployments.until("it is gone", lambda objects: (tenant.namespace, cart) not in objects)
