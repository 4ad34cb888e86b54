"""A tenant is in one engine cluster: all of it is there, nothing is in the other, until it is moved."""

from __future__ import annotations

import asyncio

import pytest

from devstack.components.stack import ENGINE_NAMESPACES
from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import Mirror
from devstack.stack.identities import ENGINE_CLUSTER
from devstack.stack.second_cluster import NAME, NAMESPACE
from services.common.avro import SchemaRegistry, decode_record
from services.common.kafka import PartitionReader, engine_topic
from services.common.kubernetes import Manifest
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from tests.e2e.api import Api, Cluster
from tests.e2e.moving import HEALTHY_VIEW, Mover, seen_by_user
from tests.e2e.operators import sole_instance
from tests.e2e.tenant import Tenant, path
from tests.engine_clusters.conftest import Held

pytestmark = pytest.mark.long

FIRST, SECOND = ENGINE_NAMESPACES[0], NAMESPACE
REMOTE = {"environment": "prod", "namespace": "web"}


@pytest.fixture
def mover(stack: HostedStack, tenant: Tenant, applications: Mirror) -> Mover:
    """Of the test's tenant."""
    return Mover(stack, tenant, applications)


async def deployed(api: Api, tenant: Tenant, cluster: Cluster) -> Manifest:
    """A deployment to an environment of the tenant's, once it is synced."""
    await api.secret("kubeconfig", "managed-environment", kubeconfig=cluster.kubeconfig())
    await api.environment(apiURL=cluster.url)
    created = await tenant.create(destination=REMOTE)
    await tenant.until_status("it is synced", timeout_seconds=60, sync__status="Synced", health__status="Healthy")
    return created


def streamed_to(stack: HostedStack, cluster: str, tenant: Tenant) -> bool:
    """Whether the topic of an engine cluster has any row of the tenant."""
    registry, topic = SchemaRegistry(stack.environment["SCHEMA_REGISTRY_URL"]), engine_topic(cluster)
    with PartitionReader(stack.log, "tests") as reader:
        messages = reader.read_messages(reader.end_offsets(reader.partitions_of(topic)))
        rows = [decode_record(registry, message.value) for message in messages if message.value is not None]
    return any(row["tenant_namespace"] == tenant.namespace for row in rows)


async def test_tenant_when_it_is_in_the_second_cluster_then_all_of_it_is_there_and_nothing_in_the_first(
    stack: HostedStack, tenant: Tenant, api: Api, cluster: Cluster, first: Held, second: Held
) -> None:
    with sole_instance(stack, SECOND):
        created = await deployed(api, tenant, cluster)
    names = await second.objects_of(created)
    assert names.isdisjoint(first.names())
    assert await asyncio.to_thread(streamed_to, stack, NAME, tenant)
    assert not await asyncio.to_thread(streamed_to, stack, ENGINE_CLUSTER, tenant)
    await tenant.delete()
    await api.delete(MANAGED_ENVIRONMENT, "prod")
    await second.until_without(names)


async def test_tenant_when_moved_to_the_other_cluster_and_back_then_all_of_it_goes_there_and_its_user_notices_nothing(  # noqa: PLR0917 - fixtures
    tenant: Tenant, api: Api, cluster: Cluster, stack: HostedStack, first: Held, second: Held, mover: Mover
) -> None:
    with sole_instance(stack, FIRST):
        created = await deployed(api, tenant, cluster)
    names = await first.objects_of(created)
    async with seen_by_user(tenant) as views:
        for target, there, elsewhere in ((SECOND, second, first), (FIRST, first, second)):
            ordered = await mover.typed("move", tenant.namespace, "--to", target)
            assert ordered.stdout == f"local/{tenant.namespace}: accepted\n", ordered.output
            await mover.until_done()
            assert await there.objects_of(created) == names
            await elsewhere.until_without(names)
    assert views == [HEALTHY_VIEW]
    await tenant.patch("web", path("apps/after"))
    await tenant.until_path(created, "apps/after")


async def test_tenant_when_a_deployment_of_it_names_no_environment_then_it_stays_in_its_cluster(
    tenant: Tenant, stack: HostedStack, mover: Mover
) -> None:
    with sole_instance(stack, FIRST):
        await tenant.create()
        await tenant.until_status("it is synced", sync__status="Synced")
    refused = await mover.typed("move", tenant.namespace, "--to", SECOND)
    assert refused.exit_code == 1
    assert f"engine instance {SECOND} is in cluster {NAME}" in refused.stderr
    assert "they name no environment" in refused.stderr
