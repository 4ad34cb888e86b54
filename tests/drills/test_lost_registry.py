"""The schema registry is lost: messages name its schemas by ids, which a copy brings back."""

from __future__ import annotations

import asyncio

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from devstack.harness.hosted import HostedStack
from devstack.harness.operator import Operator
from services.common.errors import GitOpsError, Unavailable
from services.common.package_data import AVRO_SCHEMAS
from tests.drills.alert_metrics import until_measured
from tests.drills.test_lost_database import identity
from tests.e2e.tenant import Tenant, path

APPLY = "gitopsctl schemas apply"
FORMER = AVRO_SCHEMAS / "released" / "command.v1.avsc"
LOST = "gitops_registry_lost"
"""Alert: GitOpsRegistryLost."""


def schemas_of(stack: HostedStack) -> dict[int, str]:
    """Everything that the registry has, by id."""
    client = SchemaRegistryClient({"url": stack.environment["SCHEMA_REGISTRY_URL"]})
    versions = [client.get_version(name, each) for name in client.get_subjects() for each in client.get_versions(name)]
    return {each.schema_id: each.schema.schema_str for each in versions if each.schema_id and each.schema}


def register_former(stack: HostedStack) -> None:
    """As in an environment that was upgraded: what applying this build's schemas gives no id."""
    client = SchemaRegistryClient({"url": stack.environment["SCHEMA_REGISTRY_URL"]})
    client.register_schema("gitops.former-value", Schema(FORMER.read_text(), "AVRO"))


@pytest.mark.long
async def test_registry_when_lost_then_a_copy_brings_each_schema_back_under_its_id_and_old_messages_are_read(
    stack: HostedStack, operator: Operator, tenant: Tenant
) -> None:
    created = await tenant.create("web")
    await tenant.until_status("Synced", "web", sync__status="Synced")
    before = identity(tenant, created)
    await asyncio.to_thread(register_former, stack)
    ids, schemas = await asyncio.to_thread(operator.run, APPLY), await asyncio.to_thread(schemas_of, stack)
    letters = await asyncio.to_thread(operator.run, "gitopsctl dlq list")
    await asyncio.to_thread(operator.run, "gitopsctl schemas export")
    for action in (operator.stop("registry"), operator.lose_disk("registry"), operator.start("registry")):
        await asyncio.to_thread(action)

    await tenant.patch("web", path("meanwhile"))
    await tenant.until_path(created, "meanwhile")
    with pytest.raises(Unavailable, match="the registry is empty and the log is not"):
        await asyncio.to_thread(operator.run, APPLY)
    await asyncio.to_thread(operator.stop("watcher"))
    with pytest.raises(GitOpsError, match="exit code 2"):
        await asyncio.to_thread(operator.start("watcher"))
    await until_measured(stack, "planner", LOST, lambda lost: lost == 1)

    # What starts now has to read what is on the topics already.
    by_hand = {1: [], 2: [operator.start("watcher"), *operator.restart("planner", "agent-1")]}
    await asyncio.to_thread(operator.follow_runbook, "lost-registry.md", by_hand)

    assert (operator.told[APPLY], await asyncio.to_thread(schemas_of, stack)) == (ids, schemas)
    await tenant.patch("web", path("since"))
    await tenant.until_path(created, "since")
    assert identity(tenant, created)[:2] == before[:2]
    assert await asyncio.to_thread(operator.run, "gitopsctl dlq list") == letters
    await until_measured(stack, "planner", LOST, lambda lost: lost == 0)
