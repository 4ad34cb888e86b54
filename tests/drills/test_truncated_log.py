"""Retention took away what no planner had read: lists and reports make up for it, and operators are told."""

from __future__ import annotations

import asyncio
import time

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from devstack.harness.hosted import HostedStack
from devstack.harness.operator import EDGES, Operator
from devstack.stack.identities import ENGINE_CLUSTER
from services.common.kafka import COMMANDS, PartitionReader, count_partitions, observations_topic
from services.common.kafka import TopicPartition as Source
from tests.drills.alert_metrics import measured
from tests.drills.test_lost_database import identity
from tests.e2e.tenant import Tenant, path

MISSED = "gitops_messages_missed_total"
"""Alert: GitOpsMessagesMissed."""
CHANGES = 3
SENT_SECONDS = 90


def is_told(stack: HostedStack) -> bool:
    """Whether a planner has missed commands."""
    return measured(stack, "planner", MISSED, topic=COMMANDS) > 0


def ends_of(stack: HostedStack, *topics: str) -> dict[Source, int]:
    """The offset after the last message of each partition."""
    with PartitionReader(stack.log, "drill") as reader:
        counts = count_partitions(stack.log, topics)
        return reader.end_offsets(Source(topic, number) for topic, count in counts.items() for number in range(count))


async def until_sent(stack: HostedStack, sent: int) -> None:
    """Wait until so many commands were ever sent."""
    deadline = time.monotonic() + SENT_SECONDS
    while sum((await asyncio.to_thread(ends_of, stack, COMMANDS)).values()) < sent:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)


def truncate(stack: HostedStack) -> None:
    """Of both logs nothing is left."""
    ends = ends_of(stack, COMMANDS, observations_topic(ENGINE_CLUSTER))
    admin = AdminClient({"bootstrap.servers": stack.environment["KAFKA_BOOTSTRAP_SERVERS"]})
    asked = admin.delete_records([TopicPartition(*source, end) for source, end in ends.items() if end])
    for answer in asked.values():
        answer.result(10)


@pytest.mark.long
async def test_log_when_truncated_while_no_planner_ran_then_that_is_told_and_a_list_brings_what_was_missed(
    stack: HostedStack, operator: Operator, tenant: Tenant
) -> None:
    kept, changed, deleted = [await tenant.create(name) for name in ("kept", "changed", "deleted")]
    for name in ("kept", "changed", "deleted"):
        await tenant.until_status("Synced", name, sync__status="Synced")
    before = identity(tenant, kept)
    await asyncio.to_thread(operator.stop("planner"))
    sent = sum(ends_of(stack, COMMANDS).values())
    await tenant.patch("changed", path("since"))
    await tenant.delete("deleted")
    created = await tenant.create("created")
    await until_sent(stack, sent + CHANGES)
    await asyncio.to_thread(truncate, stack)
    await asyncio.to_thread(operator.start("planner"))
    assert is_told(stack)

    by_hand = {1: operator.restart(*EDGES), 2: operator.restart("planner")}
    await asyncio.to_thread(operator.follow_runbook, "truncated-log.md", by_hand)
    await tenant.until_path(changed, "since")
    await tenant.until_application_gone(deleted)
    await tenant.until_path(created, "apps/created")
    assert identity(tenant, kept) == before
    assert not is_told(stack), "the alert ends"
    assert operator.told["gitopsctl resync status"] == "no resync is refused\n"
