"""An order that does not reach the brokers, or may not have: what the operator is told of it, and when."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

import pytest
from typer.testing import CliRunner

from devstack.harness.hosted import HostedStack
from services.cli.__main__ import app
from services.cli.fleet.fleet_orders import Undecided
from services.common.errors import Retry
from services.common.kafka import PartitionReader, Publisher, TopicPartition
from services.common.startup import await_dependency
from tests.component.cli.conftest import UrlOf
from tests.component.conftest import Database

NOBODY_LISTENS = "127.0.0.1:9"  # the discard port
TIMEOUT = ("--timeout", "3")
GIVEN_UP_SECONDS = 60
"""By then on a busy machine, too; without the option librdkafka alone tries for two minutes."""
PIN = ("engines", "pin", "team-1", "--workspace", "teams")


def refusal(environment: Mapping[str, str], code: int) -> str:
    """The one line that an order ends with, which nothing else is printed with."""
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    ended = subprocess.run(
        [sys.executable, "-m", "services.cli", *PIN, *TIMEOUT, "-o", "json"],
        env=inherited | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=GIVEN_UP_SECONDS,
    )
    assert (ended.returncode, ended.stdout) == (code, ""), ended.stderr
    (line,) = ended.stderr.splitlines()
    return line


@pytest.fixture
def operator(stack: HostedStack, filled: Database, url_of: UrlOf) -> dict[str, str]:
    """An operator's environment."""
    return stack.environment | {"DATABASE_READER_URL": url_of(filled, "reader")}


def test_order_when_no_broker_answers_then_one_line_says_in_time_that_nothing_was_sent(
    operator: dict[str, str],
) -> None:
    line = refusal(operator | {"KAFKA_BOOTSTRAP_SERVERS": NOBODY_LISTENS}, code=69)
    assert line.startswith(f"gitopsctl: error: Kafka at {NOBODY_LISTENS} did not answer within 3 s: ")
    assert line.endswith("; nothing was sent")


def test_order_when_the_registry_does_not_answer_then_one_line_says_in_time_that_nothing_was_sent(
    operator: dict[str, str],
) -> None:
    line = refusal(operator | {"SCHEMA_REGISTRY_URL": f"http://{NOBODY_LISTENS}"}, code=69)
    assert line.startswith("gitopsctl: error: schema registry did not answer within 3 s: ")
    assert line.endswith("; nothing was sent")


def test_order_when_the_brokers_refuse_the_password_then_that_is_told_without_it(
    operator: dict[str, str], stack: HostedStack
) -> None:
    line = refusal(operator | stack.environment_of("planner") | {"KAFKA_PASSWORD": "hunter2"}, code=77)
    assert "KAFKA_PASSWORD" in line
    assert "hunter2" not in line


def test_order_when_the_broker_stops_as_it_gets_it_then_it_is_told_to_be_undecided_and_it_may_have_arrived(
    operator: dict[str, str],
    stack: HostedStack,
    topic_factory: Callable[[str, int], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic, send_message = topic_factory("orders", 1), Publisher.send_message

    def freeze_and_send(publisher: Publisher, _: str, *message: Any) -> Any:
        send_message(publisher, topic, None, b"before").result()
        stack.freeze("kafka")
        return send_message(publisher, topic, *message)

    monkeypatch.setattr(Publisher, "send_message", freeze_and_send)
    began = time.monotonic()
    try:
        given = CliRunner(env=operator).invoke(app, [*PIN, *TIMEOUT, "-o", "json"])
        seconds = time.monotonic() - began
    finally:
        stack.thaw("kafka")
    document = json.loads(given.stdout)
    assert isinstance(given.exception, Undecided)
    assert str(given.exception).startswith("the order may have been sent: ")
    assert "run it again" not in str(given.exception)
    assert (document["outcome"], str(UUID(document["id"])) in str(given.exception)) == ("undecided", True)
    assert seconds < GIVEN_UP_SECONDS
    await_dependency("the order", lambda: require_messages(stack, topic, 2), GIVEN_UP_SECONDS)


def require_messages(stack: HostedStack, topic: str, count: int) -> None:
    """Raises Retry while the topic does not have so many."""
    with PartitionReader(stack.log, "tests") as reader:
        (end,) = reader.end_offsets([TopicPartition(topic, 0)]).values()
    if end != count:
        raise Retry(f"{topic} has {end}")
