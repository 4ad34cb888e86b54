"""An engine cluster is lost with its etcd, and so with all that its API server knows: an empty one takes its place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from devstack.components.services import SIMULATOR
from devstack.components.stack import ENGINE_NAMESPACES
from devstack.components.steps import ENGINE_CRDS, SIMULATOR_RBAC
from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import Mirror
from devstack.harness.operator import Operator
from devstack.stack.second_cluster import CONTROL_PLANE, KUBECONFIG_VARIABLE, NAMESPACE, PREFIX
from services.common.kubernetes import KubeClient
from tests.drills.alert_metrics import until_measured
from tests.drills.tenancy import AFTERWARDS, SINCE, Tenancy
from tests.drills.test_lost_database import identity
from tests.e2e.api import Api, Cluster
from tests.e2e.held import Held
from tests.e2e.operators import sole_instance
from tests.e2e.tenant import Tenant, fresh_tenant
from tests.growing.fleet import until_shown

pytestmark = pytest.mark.long

AGENT, ARGOCD, ETCD = f"{PREFIX}agent", f"{PREFIX}{SIMULATOR}", CONTROL_PLANE[0]
UNREACHABLE = "gitops_engine_unreachable"
"""Alert: GitOpsEngineUnreachable."""


@pytest.fixture
async def tenant(kube: KubeClient, deployments: Mirror, second: Held) -> AsyncIterator[Tenant]:
    """Whose Applications are in the second cluster."""
    async with fresh_tenant(kube, deployments, second.applications) as fresh:
        yield fresh


@pytest.fixture
async def tenancy(stack: HostedStack, tenant: Tenant, api: Api, cluster: Cluster, second: Held) -> Tenancy:
    """What it has there before anything is lost."""
    tenancy = Tenancy(tenant, api, second.secrets)
    with sole_instance(stack, NAMESPACE):
        await tenancy.begin(cluster)
    return tenancy


@pytest.fixture
def operator(stack: HostedStack, tmp_path: Path) -> Operator:
    """Of the second cluster."""
    there = {"KUBECONFIG": stack.environment[KUBECONFIG_VARIABLE], "ENGINE_NAMESPACES": NAMESPACE}
    return Operator(stack, tmp_path / "backups", **there)


def lose_cluster(operator: Operator) -> None:
    """All of its control plane, with the data; a new one, of which nobody has made anything yet, takes its place."""
    operator.stop(*reversed(CONTROL_PLANE))()
    operator.lose_disk(ETCD)()
    for name in CONTROL_PLANE:
        operator.start_process(name)


def install_argocd(operator: Operator) -> None:
    """As at first: its kinds, its namespace, its rights, its programs."""
    operator.run(f"gitopsctl crds apply --from {ENGINE_CRDS}")
    operator.run("gitopsctl dev namespaces")
    operator.run(f"gitopsctl rbac apply --from {SIMULATOR_RBAC}")
    operator.restart_process(ARGOCD)


async def test_engine_cluster_when_lost_with_its_etcd_then_a_new_one_gets_everything_and_the_other_notices_nothing(
    stack: HostedStack, operator: Operator, tenant: Tenant, tenancy: Tenancy, other_tenant: Tenant
) -> None:
    with sole_instance(stack, ENGINE_NAMESPACES[0]):
        elsewhere = await other_tenant.create()
        await other_tenant.until_status("Synced", sync__status="Synced")
    before = identity(other_tenant, elsewhere)

    await asyncio.to_thread(lose_cluster, operator)
    await until_measured(stack, AGENT, UNREACHABLE, lambda instances: instances == 1)
    await tenant.patch("changed", SINCE)
    by_hand = {
        1: [operator.stop(AGENT)],
        2: [lambda: install_argocd(operator)],
        3: [operator.start(AGENT)],
    }
    await asyncio.to_thread(operator.follow_runbook, "lost-engine-cluster.md", by_hand)
    await tenancy.require_restored()
    await until_measured(stack, AGENT, UNREACHABLE, lambda instances: instances == 0)
    await tenant.patch("changed", AFTERWARDS)
    await tenant.until_path(tenancy.resources["changed"], "afterwards")
    assert identity(other_tenant, elsewhere) == before
    await until_shown(stack, NAMESPACE, health="Healthy")
