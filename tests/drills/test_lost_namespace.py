"""The namespace of an Argo CD is lost: what was there is desired state, and is made again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from devstack.components.services import SIMULATOR
from devstack.components.steps import SIMULATOR_RBAC
from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import Mirror
from devstack.harness.operator import AGENTS, Operator
from services.common.kubernetes import NAMESPACE, Manifest
from tests.drills.alert_metrics import MEASURED_SECONDS, measured
from tests.drills.tenancy import AFTERWARDS, SINCE, Tenancy
from tests.drills.test_lost_database import identity
from tests.e2e.api import Api, Cluster
from tests.e2e.tenant import Tenant, condition, fresh_tenant

GONE_SECONDS = 60


@asynccontextmanager
async def neighbour_outside(namespace: str, like: Tenant) -> AsyncIterator[tuple[Tenant, Manifest]]:
    """A tenant on another instance, with a deployment. Which instance a tenant is on is as good as chance."""
    async with AsyncExitStack() as tenants:
        while True:
            fresh = fresh_tenant(like.kube, like.deployments, like.applications)
            tenant = await tenants.enter_async_context(fresh)
            created = await tenant.create()
            await tenant.until_status("Synced", sync__status="Synced")
            if identity(tenant, created)[0] != namespace:
                break
        yield tenant, created


async def lose_namespace(tenant: Tenant, namespace: str) -> None:
    """With all that is in it."""
    await tenant.kube.delete_object(NAMESPACE, "", namespace)
    await tenant.applications.until(
        f"{namespace} is empty", lambda objects: namespace not in {home for home, _ in objects}, GONE_SECONDS
    )


async def until_unreachable(stack: HostedStack, instance: str) -> None:
    """Until whichever agent has the instance tells what is alerted about: GitOpsEngineUnreachable."""
    async with asyncio.timeout(MEASURED_SECONDS):
        while not await asyncio.to_thread(is_unreachable, stack, instance):  # noqa: ASYNC110
            await asyncio.sleep(0.2)


def is_unreachable(stack: HostedStack, instance: str) -> bool:
    return any(measured(stack, name, "gitops_engine_unreachable", instance=instance) for name in AGENTS)


async def replace_agents(operator: Operator) -> None:
    """Processes that are replaced at this very moment start."""
    await asyncio.to_thread(operator.stop(*AGENTS))
    await asyncio.to_thread(operator.start(*AGENTS))


def install_argocd(operator: Operator) -> None:
    """As at first: its namespace, its rights, its programs, which may have ended when all of that was gone."""
    operator.run("gitopsctl dev namespaces")
    operator.run(f"gitopsctl rbac apply --from {SIMULATOR_RBAC}")
    operator.restart_process(SIMULATOR)


@pytest.fixture
async def tenancy(tenant: Tenant, api: Api, cluster: Cluster, engine_secrets: Mirror) -> Tenancy:
    """What a tenant has before anything is lost."""
    tenancy = Tenancy(tenant, api, engine_secrets)
    await tenancy.begin(cluster)
    return tenancy


async def test_namespace_of_an_argo_cd_when_lost_then_others_are_served_and_its_applications_are_made_again(
    stack: HostedStack,
    operator: Operator,
    tenant: Tenant,
    tenancy: Tenancy,
) -> None:
    async with neighbour_outside(tenancy.namespace, tenant) as (other, elsewhere):
        before = identity(other, elsewhere)
        await lose_namespace(tenant, tenancy.namespace)
        await tenant.patch("changed", SINCE)
        await until_unreachable(stack, tenancy.namespace)
        await replace_agents(operator)
        await tenancy.until_told()
        assert identity(other, elsewhere) == before
        await other.patch("web", SINCE)
        await other.until_path(elsewhere, "since")
        assert condition(other.status(), "ErrorOccurred").get("status") != "True"

        by_hand = {1: [lambda: install_argocd(operator)], 2: []}  # they were, meanwhile
        await asyncio.to_thread(operator.follow_runbook, "lost-engine-namespace.md", by_hand)
        await tenancy.require_restored()
        await other.patch("web", AFTERWARDS)
        await other.until_path(elsewhere, "afterwards")
        assert identity(other, elsewhere)[:2] == before[:2]
