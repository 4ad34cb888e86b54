"""Commands as they come from the wire: what nobody could have written is given up before anything is planned."""

from __future__ import annotations

from typing import Any, cast

import pytest

from services.common.errors import Poison
from services.common.kafka import COMMANDS
from services.planner.pipeline.decode import decode_event
from tests.unit.common.kafka.messages import consumed
from tests.unit.planner.given import sync_run


class Known:
    """The codec of a topic that holds one command."""

    def __init__(self, command: Any) -> None:
        self._command = command

    def decode_message(self, _: bytes | None) -> Any:
        return self._command


def decoded(command: Any) -> Any:
    return decode_event(consumed(COMMANDS, 0, b"", b""), {COMMANDS: cast("Any", Known(command))}).message


@pytest.mark.parametrize("status", ["", '{"operation":{"phase":"Succeeded"}}'])
def test_status_when_a_command_carries_it_or_none_then_the_command_is_taken_up(status: str) -> None:
    command = sync_run(1, recalled=status).message
    assert decoded(command) == command


@pytest.mark.parametrize("status", ["no JSON", "[]", "{" * 3000])
def test_status_when_it_is_no_json_object_then_its_command_is_given_up(status: str) -> None:
    with pytest.raises(Poison, match="JSON"):
        decoded(sync_run(1, recalled=status).message)
