"""What nobody should send is told apart, kept for a person to look at, and stops nobody else's work."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from devstack.harness.hosted import HostedStack
from devstack.stack.identities import ENGINE_CLUSTER, WORKSPACE
from services.common.avro import AvroCodec, SchemaRegistry, value_subject
from services.common.kafka import (
    COMMANDS,
    DEAD_LETTERS,
    engine_topic,
    load_topics,
    log_of,
    observations_topic,
    workspace_topic,
)
from services.common.messages import Command, DeadLetter, ResourceChanged
from tests.e2e.tenant import Tenant

ENGINE, STATUSES = engine_topic(ENGINE_CLUSTER), workspace_topic(WORKSPACE)
REPORTS = observations_topic(ENGINE_CLUSTER)
UNKNOWN_SCHEMA = struct.pack(">bI", 0, 2_000_000) + b"x"


def send(stack: HostedStack, topic: str, value: bytes) -> str:
    """Put raw bytes on a topic; returns the key, by which the dead letter is known."""
    key = f"intruder/{uuid.uuid4().hex}"
    refused = produce(stack, topic, key, value)
    assert refused is None
    return key


def produce(stack: HostedStack, topic: str, key: str, value: bytes) -> KafkaError | None:
    """What the broker says to bytes of any length; None if it takes them."""
    said: list[KafkaError | None] = []
    settings = {"bootstrap.servers": stack.environment["KAFKA_BOOTSTRAP_SERVERS"], "message.max.bytes": 10**9}
    producer = Producer(settings)
    producer.produce(topic, key=key.encode(), value=value, on_delivery=lambda error, _: said.append(error))
    assert producer.flush(10) == 0
    return said[0]


def dead_letter(stack: HostedStack, key: str) -> DeadLetter:
    """Wait for the dead letter with this key."""
    codec = AvroCodec(SchemaRegistry(stack.environment["SCHEMA_REGISTRY_URL"]), DeadLetter, f"{DEAD_LETTERS}-value")
    consumer = Consumer(
        {
            "bootstrap.servers": stack.environment["KAFKA_BOOTSTRAP_SERVERS"],
            "group.id": "e2e",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(DEAD_LETTERS, 0, 0)])
    try:
        while (message := consumer.poll(30)) is not None:
            letter = codec.decode_message(message.value())
            if letter.key == key.encode():
                return letter
    finally:
        consumer.close()
    raise AssertionError(f"no dead letter with key {key}")


def most_bytes(topic: str) -> int:
    """Length of the largest message that a topic takes, with what surrounds it."""
    declared = (*load_topics(), *load_topics(workspace=WORKSPACE), *load_topics(engine_cluster=ENGINE_CLUSTER))
    (config,) = [known.config for known in declared if known.name == topic]
    return int(config["max.message.bytes"])


def schema_id(stack: HostedStack, topic: str) -> int:
    return SchemaRegistry(stack.environment["SCHEMA_REGISTRY_URL"]).id_of(value_subject(log_of(topic)))


def invalid_utf8(stack: HostedStack, topic: str) -> bytes:
    return struct.pack(">bI", 0, schema_id(stack, topic)) + b"\x04\xff\xfe" * 20


@pytest.mark.parametrize(
    ("topic", "consumer", "value", "reason"),
    [
        (COMMANDS, "planner", lambda stack: UNKNOWN_SCHEMA, "not in the registry"),
        (COMMANDS, "planner", lambda stack: b"{}", "wire format"),
        (COMMANDS, "planner", lambda stack: invalid_utf8(stack, COMMANDS), "does not fit"),
        (REPORTS, "planner", lambda stack: invalid_utf8(stack, REPORTS), "does not fit"),
        (ENGINE, "agent", lambda stack: UNKNOWN_SCHEMA, "not in the registry"),
        (ENGINE, "agent", lambda stack: b"\xff", "wire format"),
        (STATUSES, "watcher", lambda stack: UNKNOWN_SCHEMA, "not in the registry"),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
async def test_message_when_it_cannot_be_decoded_then_it_is_a_dead_letter_and_work_goes_on(
    stack: HostedStack,
    tenant: Tenant,
    topic: str,
    consumer: str,
    value: Callable[[HostedStack], bytes],
    reason: str,
) -> None:
    sent = value(stack)
    letter = dead_letter(stack, send(stack, topic, sent))
    assert (letter.service, letter.topic, letter.value) == (consumer, topic, sent)
    assert reason in letter.error
    assert "\n" not in letter.error
    await tenant.create()
    await tenant.until_status("Synced", sync__status="Synced")


@pytest.mark.parametrize("topic", [COMMANDS, REPORTS, ENGINE, STATUSES])
async def test_message_when_it_is_larger_than_its_topic_takes_then_the_broker_refuses_it(
    stack: HostedStack, topic: str
) -> None:
    refused = produce(stack, topic, "intruder/large", b"x" * (most_bytes(topic) + 1))
    assert refused is not None
    assert refused.code() == KafkaError.MSG_SIZE_TOO_LARGE


async def test_message_when_it_is_as_large_as_may_be_then_its_dead_letter_holds_all_of_it(
    stack: HostedStack, tenant: Tenant
) -> None:
    bomb = b"[" * (most_bytes(COMMANDS) - 1024)
    letter = dead_letter(stack, send(stack, COMMANDS, bomb))
    assert letter.value == bomb
    await tenant.create()
    await tenant.until_status("Synced", sync__status="Synced")


async def test_command_when_its_api_version_is_unknown_then_the_cr_says_so(stack: HostedStack, tenant: Tenant) -> None:
    created = await tenant.create()
    await tenant.until_status("Synced", sync__status="Synced")
    registry = SchemaRegistry(stack.environment["SCHEMA_REGISTRY_URL"])
    codec = AvroCodec(registry, Command, f"{COMMANDS}-value")
    changed = ResourceChanged(
        api_version="managed-gitops.redhat.com/v1beta9",
        kind="GitOpsDeployment",
        name="web",
        uid=created["metadata"]["uid"],
        resource_version=str(10**12),
        generation=99,
        epoch=0,
        deleting=False,
        finalizers=(),
        actor="e2e",
        spec="{}",
    )
    workspace = stack.environment["WORKSPACE"]
    command = Command(workspace, workspace, tenant.namespace, datetime.now(UTC), changed)
    producer = Producer(
        {"bootstrap.servers": stack.environment["KAFKA_BOOTSTRAP_SERVERS"], "partitioner": "murmur2_random"}
    )
    producer.produce(COMMANDS, key=f"{workspace}/{tenant.namespace}".encode(), value=codec.encode_message(command))
    assert producer.flush(10) == 0
    shown = await tenant.until_condition("ErrorOccurred", "True")
    assert "v1beta9" in shown["message"]
    assert "v1alpha1" in shown["message"]
