"""Every service can be measured and probed, and a change can be followed by its trace."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator

import httpx2
import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from devstack.harness.hosted import HostedStack
from devstack.stack.identities import ENGINE_CLUSTER, WORKSPACE
from services.common.kafka import COMMANDS, engine_topic, observations_topic, workspace_topic
from services.common.telemetry import trace_id, traceparent
from tests.e2e.tenant import Tenant

ENGINE, STATUSES = engine_topic(ENGINE_CLUSTER), workspace_topic(WORKSPACE)
REPORTS = observations_topic(ENGINE_CLUSTER)
DEADLINE_SECONDS = 120
SERVICES = ("watcher", "planner", "agent-1", "agent-2")
MEASURED = (
    ("agents", 'gitops_end_to_end_seconds_count{kind="Application",stage="applied"}'),
    ("watcher", 'gitops_end_to_end_seconds_count{kind="GitOpsDeployment",stage="status"}'),
    ("watcher", 'gitops_messages_total{direction="sent",service="watcher",topic="gitops.commands"}'),
    ("planner", 'gitops_hop_seconds_count{service="planner",topic="gitops.commands"}'),
    ("planner", 'gitops_batch_size_messages_count{service="planner"}'),
)


def get(stack: HostedStack, service: str, path: str) -> httpx2.Response:
    ports = {item["name"]: item["ports"] for item in stack.processes()}
    return httpx2.get(f"http://127.0.0.1:{ports[service]['metrics']}{path}")


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_service_when_it_works_then_its_probes_say_so(stack: HostedStack, service: str, path: str) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS  # a test before may have had it begin anew
    while (answer := get(stack, service, path)).status_code != httpx2.codes.OK:
        assert time.monotonic() < deadline, answer.text
        time.sleep(0.1)
    assert answer.text == "ok"


async def test_deployment_when_synced_then_each_hop_has_measured_it(stack: HostedStack, tenant: Tenant) -> None:
    await tenant.create()
    await tenant.until_status("Synced", sync__status="Synced")
    # A status is seen before its writer has counted it; lag is measured at times.
    deadline = time.monotonic() + DEADLINE_SECONDS
    while missing := unmeasured(stack):
        assert time.monotonic() < deadline, missing
        await asyncio.sleep(0.1)


def unmeasured(stack: HostedStack) -> list[str]:
    """What no service tells."""
    told = {service: get(stack, service, "/metrics").text for service in SERVICES}
    told["agents"] = told["agent-1"] + told["agent-2"]
    missing = [f"{service}: {series}" for service, series in MEASURED if series not in told[service]]
    lag = re.compile(r"^gitops_consumer_lag_messages\{.*\} \d", re.MULTILINE)
    return missing + [f"{service}: lag" for service in SERVICES if not lag.search(told[service])]


async def test_change_when_it_travels_then_one_trace_id_is_on_every_message(stack: HostedStack, tenant: Tenant) -> None:
    uid = (await tenant.create())["metadata"]["uid"]
    await tenant.until_status("Synced", sync__status="Synced")
    traces = traces_by_topic(stack, uid)
    assert traces.keys() == {COMMANDS, ENGINE, REPORTS, STATUSES}
    assert len({trace_id(trace) for found in traces.values() for trace in found}) == 1


def traces_by_topic(stack: HostedStack, uid: str) -> dict[str, set[str]]:
    """The traceparent headers of every message whose value speaks of ``uid``."""
    address = stack.environment["KAFKA_BOOTSTRAP_SERVERS"]
    consumer = Consumer({"bootstrap.servers": address, "group.id": "e2e-traces", "enable.auto.commit": False})
    found: dict[str, set[str]] = {}
    try:
        topics = consumer.list_topics(timeout=10).topics
        for topic in (COMMANDS, ENGINE, REPORTS, STATUSES):
            for partition in topics[topic].partitions:
                for message in partition_from_the_beginning(consumer, TopicPartition(topic, partition, 0)):
                    if uid.encode() in (message.value() or b""):
                        found.setdefault(topic, set()).add(traceparent(message.headers()))
    finally:
        consumer.close()
    return found


def partition_from_the_beginning(consumer: Consumer, partition: TopicPartition) -> Iterator[Message]:
    _, end = consumer.get_watermark_offsets(partition, timeout=10)
    if end == 0:
        return
    consumer.assign([partition])
    while (message := consumer.poll(10)) is not None:
        yield message
        if (message.offset() or 0) + 1 >= end:
            return
