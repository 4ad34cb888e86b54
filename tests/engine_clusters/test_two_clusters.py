"""A tenant is in one engine cluster: all of it is there, nothing is in the other, until it is moved."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import NamedTuple

import orjson
import psycopg
import pytest

from devstack.components.stack import ENGINE_NAMESPACES
from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import Mirror
from devstack.stack.identities import ENGINE_CLUSTER, WORKSPACE
from devstack.stack.second_cluster import NAME, NAMESPACE, SecondCluster
from services.cli.sealing.sealed_rows import stored_rows
from services.common.avro import AvroCodec, SchemaRegistry, decode_record, value_subject
from services.common.kafka import COMMANDS, PartitionReader, engine_topic, tenant_key
from services.common.kubernetes import SECRET, Manifest
from services.common.messages import Command, ResourceChanged
from services.common.sealing import OpeningKeys, SecretContext, Unopenable
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from tests.e2e.api import Api, Cluster
from tests.e2e.held import Held
from tests.e2e.moving import Mover
from tests.e2e.operators import sole_instance
from tests.e2e.status_history import BY_SIMULATOR, seen_by_user
from tests.e2e.tenant import Tenant, path

pytestmark = pytest.mark.long

COMPILED_FOR = """
SELECT manifest::json #>> '{recipe,secret,sealed}' FROM engine_resources
 WHERE tenant_namespace = %s AND desired = 'present' AND manifest::json #>> '{recipe,secret,sealed}' IS NOT NULL
"""
PATIENCE_SECONDS, POLL_SECONDS = 30, 0.2

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


class SealedSecret(NamedTuple):
    """A Secret as the log or the database holds it, and where it belongs."""

    text: str
    context: SecretContext


def in_the_log(stack: HostedStack, tenant: Tenant) -> list[SealedSecret]:
    """Of all commands of the tenant that gitops.commands holds."""
    codec = AvroCodec(SchemaRegistry(stack.environment["SCHEMA_REGISTRY_URL"]), Command, value_subject(COMMANDS))
    key = tenant_key(WORKSPACE, tenant.namespace)
    with PartitionReader(stack.log, "tests") as reader:
        messages = reader.read_messages(reader.end_offsets(reader.partitions_of(COMMANDS)))
        commands = [codec.decode_message(message.value) for message in messages if message.key == key]
    seen = [each for each in commands if isinstance(each.event, ResourceChanged) and each.event.kind == SECRET.kind]
    return [found for each in seen if (found := sealed_in(each)) is not None]


def sealed_in(command: Command) -> SealedSecret | None:
    """The Secret that a command tells of, unless its content follows."""
    assert isinstance(command.event, ResourceChanged)
    spec = orjson.loads(command.event.spec)
    where = (command.workspace, command.namespace, command.event.name, spec["type"], command.namespace_uid)
    return SealedSecret(spec["sealed"], SecretContext(*where)) if "sealed" in spec else None


def in_the_database(stack: HostedStack, tenant: Tenant) -> list[SealedSecret]:
    """Of the rows that the planner keeps, and of those that it has compiled for agents."""
    url = stack.environment["DATABASE_OWNER_URL"]
    (row,) = [row for row in stored_rows(url) if row.is_secret and row.namespace == tenant.namespace]
    spec = orjson.loads(row.spec)
    context = SecretContext(row.workspace, row.namespace, row.name, spec["type"], row.namespace_uid)
    with psycopg.connect(url) as owner:
        compiled = owner.execute(COMPILED_FOR, [tenant.namespace]).fetchall()
    return [SealedSecret(text, context) for text in (spec["sealed"], *(text for (text,) in compiled))]


def opened_by(stack: HostedStack, secrets: Collection[SealedSecret]) -> set[frozenset[str]]:
    """The engine clusters whose agents' keys open each."""
    files = {ENGINE_CLUSTER: stack.state.sealing_keys[0], NAME: SecondCluster(stack.state.root / NAME).private_keys}
    keys = {cluster: OpeningKeys.load_of_cluster(path, cluster) for cluster, path in files.items()}

    def opens(cluster: str, secret: SealedSecret) -> bool:
        try:
            return "kubeconfig" in keys[cluster].open_secret(secret.text, secret.context)
        except Unopenable:
            return False

    return {frozenset(each for each in files if opens(each, secret)) for secret in secrets}


async def test_tenant_when_it_is_in_the_second_cluster_then_all_of_it_is_there_and_nothing_in_the_first(
    stack: HostedStack, tenant: Tenant, api: Api, cluster: Cluster, first: Held, second: Held
) -> None:
    with sole_instance(stack, SECOND):
        created = await deployed(api, tenant, cluster)
    names = await second.objects_of(created)
    assert names.isdisjoint(first.names())
    assert await asyncio.to_thread(streamed_to, stack, NAME, tenant)
    assert not await asyncio.to_thread(streamed_to, stack, ENGINE_CLUSTER, tenant)
    for secrets in (in_the_log, in_the_database):
        held = await asyncio.to_thread(secrets, stack, tenant)
        assert opened_by(stack, held) == {frozenset({NAME})}, "a stolen key of the first cluster opens none of it"
    await tenant.delete()
    await api.delete(MANAGED_ENVIRONMENT, "prod")
    await second.until_without(names)


async def until_sealed_for(stack: HostedStack, tenant: Tenant, cluster: str) -> None:
    """Until nothing that the database holds of the tenant opens in another engine cluster."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while opened_by(stack, await asyncio.to_thread(in_the_database, stack, tenant)) != {frozenset({cluster})}:  # noqa: ASYNC110 - of a database
            await asyncio.sleep(POLL_SECONDS)


async def until_more(stack: HostedStack, tenant: Tenant, before: int) -> list[SealedSecret]:
    """What the log has of the tenant beyond the first ``before`` Secrets, once it has anything."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (sent := (await asyncio.to_thread(in_the_log, stack, tenant))[before:]):  # noqa: ASYNC110 - of a log
            await asyncio.sleep(POLL_SECONDS)
    return sent


async def test_tenant_when_moved_to_the_other_cluster_and_back_then_all_of_it_goes_there_and_its_user_notices_nothing(  # noqa: PLR0917 - fixtures
    tenant: Tenant, api: Api, cluster: Cluster, stack: HostedStack, first: Held, second: Held, mover: Mover
) -> None:
    with sole_instance(stack, FIRST):
        created = await deployed(api, tenant, cluster)
    names = await first.objects_of(created)
    async with seen_by_user(tenant) as seen:
        for target, name, there, elsewhere in ((SECOND, NAME, second, first), (FIRST, ENGINE_CLUSTER, first, second)):
            ordered = await mover.typed("move", tenant.namespace, "--to", target)
            assert ordered.stdout == f"local/{tenant.namespace}: accepted\n", ordered.output
            await mover.until_done()
            assert await there.objects_of(created) == names
            await elsewhere.until_without(names)
            await until_sealed_for(stack, tenant, name)
            before = len(await asyncio.to_thread(in_the_log, stack, tenant))
            await api.change_secret("kubeconfig", moved_to=target)
            sent = await until_more(stack, tenant, before)
            assert opened_by(stack, sent) == {frozenset({name})}, "what is new is for the agents that have it now"
        assert await seen.changes(BY_SIMULATOR) == []
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
