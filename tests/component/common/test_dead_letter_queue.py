"""Dead letters, from a consumer to whoever looks."""

from __future__ import annotations

import uuid
from contextlib import closing
from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

from services.cli.__main__ import app
from services.common.avro import AvroCodec, SchemaRegistry, value_subject
from services.common.errors import Poison
from services.common.kafka import DEAD_LETTERS, DeadLetterQueue, Publisher
from services.common.messages import DeadLetter
from tests.unit.common.kafka.messages import consumed


def test_dead_letters_when_listed_then_each_tells_its_message_and_why_it_was_given_up(
    kafka_bootstrap: str, registry_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = f"given-up-{uuid.uuid4().hex[:8]}"
    codec = AvroCodec(SchemaRegistry(registry_url), DeadLetter, value_subject(DEAD_LETTERS))
    with closing(Publisher(kafka_bootstrap, "tests")) as publisher:
        letters = DeadLetterQueue(publisher, codec, "planner")
        for offset in (7, 20):
            sent = letters.send_letter(consumed(topic, offset), Poison(f"reason {offset}"), datetime.now(UTC))
            sent.result(timeout=30)
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", kafka_bootstrap)
    monkeypatch.setenv("SCHEMA_REGISTRY_URL", registry_url)
    monkeypatch.setenv("COLUMNS", "200")
    outcome = CliRunner().invoke(app, ["dlq", "list"])
    assert outcome.exit_code == 0, outcome.output
    lines = [line for line in outcome.output.splitlines() if topic in line]
    assert [(f"{topic}[0]@7" in line, "reason 7" in line) for line in lines] == [(True, True), (False, False)]
    assert f"{topic}[0]@20" in lines[1]
