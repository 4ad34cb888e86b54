"""The namespace of an Argo CD is deleted while its controllers run: what it had deployed stays, the same objects."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from devstack.components.argocd import CONFIGURATION
from devstack.harness.hosted import HostedStack
from devstack.harness.operator import AGENTS, Operator
from devstack.setup.argocd_requirements import RIGHTS
from services.common.kubernetes import NAMESPACE, KubeClient, Manifest, NotFound
from services.common.settings import parse_engine_namespaces
from services.kinds.shared.api_group import FINALIZER
from tests.argocd.deployed import HEALTHY, Deployed
from tests.argocd.sources import NAME, Source, Sources, config_map
from tests.e2e.api import Api, Cluster
from tests.e2e.tenant import Tenant, create_namespace

PARTS = ("redis", "repo-server", "application-controller")
GONE_SECONDS = 60


def processes_of(stack: HostedStack, namespace: str) -> list[str]:
    """Of the Argo CD in this namespace, in the order in which they start."""
    number = list(parse_engine_namespaces(stack.environment["ENGINE_NAMESPACES"]).values()).index(namespace) + 1
    return [f"argocd-{part}-{number}" for part in PARTS]


def install_argocd(operator: Operator, processes: Sequence[str]) -> None:
    """As at first: the namespace, the rights, the configuration; and its processes, whether they have ended or not."""
    operator.run("gitopsctl dev namespaces")
    for manifests in (RIGHTS, CONFIGURATION / "rbac.yaml"):
        operator.run(f"gitopsctl rbac apply --from {manifests}")
    operator.run(f"gitopsctl dev argocd --from {CONFIGURATION / 'config.yaml'}")
    for name in processes:
        operator.restart_process(name)


async def lose_namespace(kube: KubeClient, name: str) -> None:
    """With all that is in it, while everybody who works on that goes on."""
    await kube.delete_object(NAMESPACE, "", name)
    deadline = time.monotonic() + GONE_SECONDS
    while True:
        try:
            await kube.get_object(NAMESPACE, "", name)
        except NotFound:
            return
        assert time.monotonic() < deadline, f"{name} is still there"
        await asyncio.sleep(0.2)


@dataclass(frozen=True)
class Web:
    """What a tenant has deployed from a repository."""

    name: str
    source: Source
    created: Manifest
    where: Deployed
    namespace: str

    def uid(self) -> str:
        """Of what is there: another one after it was taken down."""
        return str(self.where.config_maps.objects[self.namespace, NAME]["metadata"]["uid"])


@pytest.fixture
def operator(stack: HostedStack, tmp_path: Path) -> Operator:
    """Who follows the runbook."""
    return Operator(stack, tmp_path / "backups")


@pytest.fixture
async def own(tenant: Tenant, source: Sources, deployed: Deployed) -> Web:
    """In the tenant's own namespace, and to be taken down with its resource."""
    repository = source(config_map("before"))
    created = await tenant.create("own", source=repository.spec(), finalizers=(FINALIZER,))
    await tenant.until_status("deployed", "own", **HEALTHY)
    return Web("own", repository, created, deployed, tenant.namespace)


@pytest.fixture
async def remote(tenant: Tenant, api: Api, source: Sources, far: Deployed, cluster: Cluster) -> Web:
    """In another cluster, with credentials of the tenant's."""
    repository, there = source(config_map("before")), f"there-{uuid.uuid4().hex[:8]}"
    await create_namespace(far.kube, there)
    await api.secret("kubeconfig", "managed-environment", kubeconfig=cluster.kubeconfig())
    await api.environment(apiURL=cluster.url)
    destination = {"environment": "prod", "namespace": there}
    created = await tenant.create("remote", source=repository.spec(), destination=destination)
    await tenant.until_status("deployed", "remote", **HEALTHY)
    return Web("remote", repository, created, far, there)


@pytest.mark.long  # the simulator's namespace is lost in tests/drills/test_lost_namespace.py
async def test_namespace_when_deleted_while_its_controllers_run_then_what_they_had_deployed_is_never_taken_down(
    stack: HostedStack, operator: Operator, tenant: Tenant, own: Web, remote: Web
) -> None:
    before = own.uid(), remote.uid()
    engine = (await tenant.application_of(own.created))["metadata"]["namespace"]
    await lose_namespace(tenant.kube, engine)
    assert (own.uid(), remote.uid()) == before
    for each in (own, remote):
        each.source.commit(config_map("after"))

    by_hand = {1: [partial(install_argocd, operator, processes_of(stack, engine))], 2: operator.restart(*AGENTS)}
    await asyncio.to_thread(operator.follow_runbook, "lost-engine-namespace.md", by_hand)
    for each in (own, remote):
        await each.where.until(each.namespace, "after")
        await tenant.until_no_error(each.name)
        await tenant.until_status("deployed", each.name, **HEALTHY)
    assert (own.uid(), remote.uid()) == before
