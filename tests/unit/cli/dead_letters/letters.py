"""A dead letter, the log that its message is from, and a codec."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from services.cli.dead_letters.stored_letters import StoredLetter
from services.common.errors import Poison
from services.common.kafka import ConsumedMessage, TopicPartition
from services.common.messages import DeadLetter
from tests.unit.common.kafka.messages import consumed
from tests.unit.planner.given import at, changed

WEB = changed(5).message
FIRST, AT, END = 100, 200, 300
"""Offsets: of the first message that the log still has, of the letter, and after the last message."""


class Codec:
    """Decodes each value as the message that is behind it, or fails with it."""

    def __init__(self, messages: dict[bytes | None, Any]) -> None:
        self.messages = messages

    def decode_message(self, value: bytes | None) -> Any:
        message = self.messages[value]
        if isinstance(message, Poison):
            raise message
        return message


KEY, VALUE = b"local/team-a", b"the letter's"
SOURCE = TopicPartition("gitops.commands", 3)


def stored(offset: int = AT, **changes: Any) -> StoredLetter:
    letter = DeadLetter("planner", *SOURCE, offset, KEY, VALUE, {}, "not avro", at(1))
    return replace(StoredLetter("0/7", letter, "local/team-a", ""), **changes)


def at_log(offset: int, value: bytes, key: bytes | None = KEY) -> ConsumedMessage:
    return consumed(SOURCE.topic, offset, key, value, partition=SOURCE.partition)
