"""Dead letters, from a consumer to whoever looks, and back to where they came from."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner, Result

from services.cli.__main__ import app
from services.common.avro import AvroCodec, SchemaRegistry, value_subject
from services.common.errors import Poison
from services.common.kafka import (
    COMMANDS,
    DEAD_LETTERS,
    FLEET_ORDERS,
    ConsumedMessage,
    DeadLetterQueue,
    PartitionReader,
    Publisher,
    TopicPartition,
    tenant_key,
)
from services.common.messages import Command, DeadLetter, DrainEngineInstance, FleetOrder
from tests.unit.common.kafka.messages import consumed
from tests.unit.planner.given import WORKSPACE, changed, gone

PARTITION = 5


@dataclass
class Letters:
    """Makes dead letters of one tenant, whose messages are in one partition, and asks the command about them."""

    publisher: Publisher
    registry: SchemaRegistry
    kafka: str
    namespace: str

    def __post_init__(self) -> None:
        self.queue = DeadLetterQueue(
            self.publisher, AvroCodec(self.registry, DeadLetter, value_subject(DEAD_LETTERS)), "planner"
        )
        self.commands = AvroCodec(self.registry, Command, value_subject(COMMANDS))
        self.key = tenant_key(WORKSPACE, self.namespace)

    def send(self, event: Any) -> ConsumedMessage:
        """Send a command; returns it as a planner would consume it."""
        value = self.commands.encode_message(replace(event.message, namespace=self.namespace))
        offset = self.publisher.send_message(COMMANDS, self.key, value, {}, PARTITION).result(timeout=30)
        return consumed(COMMANDS, offset, self.key, value, partition=PARTITION)

    def give_up(self, message: ConsumedMessage, reason: str = "refused") -> int:
        """Returns the offset of its letter."""
        return self.queue.send_letter(message, Poison(reason), datetime.now(UTC)).result(timeout=30)

    def call(self, *arguments: str, ends: int = 0) -> Result:
        """``ends``: with which exit code."""
        outcome = CliRunner().invoke(app, ["dlq", *arguments])
        assert outcome.exit_code == ends, outcome.output
        return outcome

    def listed(self, *arguments: str, ends: int = 0) -> list[dict[str, Any]]:
        """What the command shows of this tenant."""
        tenant = f"{WORKSPACE}/{self.namespace}"
        shown = self.call(*arguments, "--tenant", tenant, "-o", "json", ends=ends).stdout
        rows: list[dict[str, Any]] = orjson.loads(shown)
        return rows

    def sent(self) -> list[Any]:
        """Resource versions of this tenant's commands, in the order of the log."""
        with PartitionReader(self.kafka, "tests") as reader:
            ends = reader.end_offsets([TopicPartition(COMMANDS, PARTITION)])
            values = [message.value for message in reader.read_messages(ends) if message.key == self.key]
        events: list[Any] = [self.commands.decode_message(value).event for value in values]
        return [event.resource_version for event in events]


@pytest.fixture
def letters(kafka_bootstrap: str, registry_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Letters]:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", kafka_bootstrap)
    monkeypatch.setenv("SCHEMA_REGISTRY_URL", registry_url)
    publisher = Publisher(kafka_bootstrap, "tests")
    yield Letters(publisher, SchemaRegistry(registry_url), kafka_bootstrap, f"team-{uuid.uuid4().hex[:8]}")
    publisher.close()


def test_dead_letters_when_listed_then_each_tells_its_message_and_why_it_was_given_up(letters: Letters) -> None:
    topic = f"given-up-{uuid.uuid4().hex[:8]}"
    for offset in (7, 20):
        letters.give_up(consumed(topic, offset), f"reason {offset}")
    lines = [line for line in letters.call("list", "--topic", topic).stdout.splitlines() if topic in line]
    assert [(f"{topic}[0]@7" in line, "reason 7" in line) for line in lines] == [(True, True), (False, False)]
    assert f"{topic}[0]@20" in lines[1]


def test_dead_letter_when_redriven_then_it_is_in_its_partition_again_and_done_with(letters: Letters) -> None:
    letters.give_up(letters.send(changed(5)))
    (tried,) = letters.listed("redrive", "--dry-run")
    assert (tried["verdict"], letters.sent()) == ("would be redriven", ["5"])
    (redriven,) = letters.listed("redrive")
    assert (redriven["verdict"], letters.sent()) == ("redriven", ["5", "5"])
    assert letters.listed("list") == []
    assert [each["done"] for each in letters.listed("list", "--all")] == ["redriven"]


def test_dead_letters_when_redriven_together_then_the_order_of_the_tenant_is_kept(letters: Letters) -> None:
    """web changes twice, api is made and deleted: only the newest change of web may come again, behind all of it."""
    messages = [letters.send(each) for each in (changed(1), changed(2, "api", uid="uid-2"), changed(3, generation=2))]
    letters.send(gone(4, "api", uid="uid-2"))
    for message in messages:
        letters.give_up(message)
    verdicts = [each["verdict"] for each in letters.listed("redrive", ends=1)]
    assert [verdict.partition(":")[0] for verdict in verdicts] == ["stays", "stays", "redriven"]
    assert letters.sent() == ["1", "2", "3", "4", "3"]


def test_dead_letter_when_dropped_then_it_is_listed_no_more_and_cannot_be_redriven(letters: Letters) -> None:
    offset = letters.give_up(letters.send(changed(5)))
    (dropped,) = letters.listed("drop")
    assert dropped["id"] == f"0/{offset}"
    assert letters.listed("list") == []
    assert "stays: it was dropped" in letters.call("redrive", dropped["id"], ends=1).stdout
    assert letters.sent() == ["5"]


def test_dead_letter_when_shown_then_its_message_is(letters: Letters) -> None:
    offset = letters.give_up(letters.send(changed(5)))
    (shown,) = orjson.loads(letters.call("show", f"0/{offset}", "-o", "json").stdout)
    assert (shown["content"]["event"]["type"], shown["content"]["event"]["name"]) == ("ResourceChanged", "web")


def test_order_when_redriven_then_it_is_in_its_log_again_as_it_was_and_shown_as_an_order(letters: Letters) -> None:
    codec = AvroCodec(letters.registry, FleetOrder, value_subject(FLEET_ORDERS))
    given = FleetOrder(uuid.uuid4(), "ops@host", datetime.now(UTC), DrainEngineInstance(letters.namespace))
    value = codec.encode_message(given)
    offset = letters.publisher.send_message(FLEET_ORDERS, None, value, {}).result(timeout=30)
    letter = f"0/{letters.give_up(consumed(FLEET_ORDERS, offset, None, value))}"
    (shown,) = orjson.loads(letters.call("show", letter, "-o", "json").stdout)
    assert shown["content"]["order"] == {"type": "DrainEngineInstance", "id": letters.namespace}
    assert "redriven" in letters.call("redrive", letter).stdout
    with PartitionReader(letters.kafka, "tests") as reader:
        ends = reader.end_offsets([TopicPartition(FLEET_ORDERS, 0)])
        assert [each.value for each in reader.read_messages(ends)].count(value) == 2
