"""What is asked of ``gitopsctl dlq`` in a wrong way is named, and nothing is done to all letters by mistake."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any
from unittest.mock import MagicMock

import fastavro
import orjson
import pytest
from typer.testing import CliRunner, Result

from services.cli.dead_letters import dlq, stored_letters
from services.cli.dead_letters.stored_letters import StoredLetter, chosen
from services.common.avro import AvroCodec, local_schemas, value_subject
from services.common.errors import InvalidConfiguration
from services.common.kafka import DEAD_LETTERS, ConsumedMessage
from services.common.messages import DeadLetter
from tests.unit.common.kafka.messages import consumed
from tests.unit.planner.given import at

LARGE_LETTERS, LARGE_BYTES = 100, 200_000
ENVIRONMENT = {"KAFKA_BOOTSTRAP_SERVERS": "localhost:1", "SCHEMA_REGISTRY_URL": "http://localhost:1"}


def stored(number: int, done: str = "") -> StoredLetter:
    key = f"local/team-{number}"
    letter = DeadLetter(
        "planner", "gitops.commands", 3, number, key.encode(), b"", {}, f"reason \x1b[2J {number}", at(1)
    )
    return StoredLetter(f"0/{number}", letter, key, done)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Three letters, of which the second was dropped; what is sent is collected."""
    sent: list[Any] = []
    letters = [stored(1), stored(2, "dropped"), stored(3)]
    monkeypatch.setattr(dlq, "read_letters", lambda *arguments, **_: chosen(letters, arguments[-1]))
    monkeypatch.setattr(dlq, "publishing", lambda _, work: work(None))
    monkeypatch.setattr(dlq, "mark_done", lambda _, each, what: sent.append((each.id, what)))
    return sent


def call(*arguments: str) -> Result:
    return CliRunner().invoke(dlq.app, arguments, env=ENVIRONMENT)


def ids(result: Result) -> list[str]:
    return [row["id"] for row in orjson.loads(result.stdout)]


def test_list_when_something_was_done_about_a_letter_then_only_all_shows_it(sent: list[Any]) -> None:
    assert ids(call("list", "-o", "json")) == ["0/1", "0/3"]
    assert ids(call("list", "-o", "json", "--all")) == ["0/1", "0/2", "0/3"]


def test_list_when_shown_as_a_table_then_nothing_in_it_reaches_the_terminal_as_a_command(sent: list[Any]) -> None:
    assert "reason [2J 1" in call("list").stdout


def test_drop_when_a_tenant_is_given_then_its_letters_are_dropped_alone(sent: list[Any]) -> None:
    result = call("drop", "--tenant", "local/team-3")
    assert (sent, "1 dropped" in result.stderr) == ([("0/3", "dropped")], True)


def test_drop_when_it_is_only_tried_then_nothing_is_done(sent: list[Any]) -> None:
    result = call("drop", "--all", "--dry-run", "-o", "json")
    assert (sent, ids(result)) == ([], ["0/1", "0/3"])


class FakeRegistry:
    """Knows one schema, that of letters."""

    def __init__(self, *_: Any) -> None: ...

    def local_schema(self, subject: str) -> Any:
        return fastavro.parse_schema(local_schemas()[subject])

    def id_of(self, _: str) -> int:
        return 1

    def schema_by_id(self, _: int) -> Any:
        return self.local_schema(value_subject(DEAD_LETTERS))


@pytest.mark.parametrize("command", [["list"], ["list", "--all"], ["drop", "--all"]])
def test_letters_when_they_are_many_and_large_then_their_messages_are_not_kept(
    sent: list[Any], monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    codec = AvroCodec[DeadLetter](FakeRegistry(), DeadLetter, value_subject(DEAD_LETTERS))  # type: ignore[arg-type]

    def messages(_: Any) -> Iterator[ConsumedMessage]:
        for offset in range(LARGE_LETTERS):
            headers = {"traceparent": bytes(LARGE_BYTES)}
            letter = DeadLetter("planner", "any", 3, offset, b"k", bytes(LARGE_BYTES), headers, "reason", at(1))
            yield consumed(DEAD_LETTERS, offset, None, codec.encode_message(letter))

    monkeypatch.setattr(dlq, "read_letters", stored_letters.read_letters)
    monkeypatch.setattr(dlq, "SchemaRegistry", FakeRegistry)
    monkeypatch.setattr(stored_letters, "_messages", messages)
    tracemalloc.start()
    try:
        found = ids(call(*command, "-o", "json"))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(found) == LARGE_LETTERS
    assert most < LARGE_LETTERS * LARGE_BYTES / 2


@pytest.mark.parametrize("tried", [[], ["--dry-run"]])
@pytest.mark.parametrize(("refusals", "code"), [({}, 0), ({"0/3": "superseded"}, 1)])
def test_redrive_when_letters_are_left_behind_then_a_script_can_tell(
    sent: list[Any], monkeypatch: pytest.MonkeyPatch, refusals: dict[str, str], code: int, tried: list[str]
) -> None:
    judge = MagicMock()
    judge.return_value.__enter__.return_value.refusals.return_value = {"0/1": "", "0/3": ""} | refusals
    monkeypatch.setattr(dlq, "Judge", judge)
    monkeypatch.setattr(dlq, "send_letters", lambda *_: {})
    result = call("redrive", "--all", *tried)
    assert result.exit_code == code, result.output
    assert len(result.stderr.splitlines()) == 1
    assert ("left behind: 1" in result.stderr) == (code == 1)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["drop"], "which dead letters"),
        (["redrive"], "which dead letters"),
        (["drop", "0/9"], "there is no dead letter 0/9"),
        (["show", "9"], "there is no dead letter 9"),
        (["list", "--since", "yesterday"], "'yesterday' is neither a time"),
        (["list", "--tenant", "team-a"], "'team-a' is not WORKSPACE/NAMESPACE"),
    ],
)
def test_command_when_it_is_wrong_then_the_error_names_what_is(
    sent: list[Any], arguments: list[str], named: str
) -> None:
    result = call(*arguments)
    assert isinstance(result.exception, InvalidConfiguration)
    assert named in str(result.exception)
    assert sent == []
