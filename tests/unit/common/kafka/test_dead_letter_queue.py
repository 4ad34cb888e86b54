"""A message of any size can be buried, and its letter tells what was cut."""

from __future__ import annotations

from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any

import pytest

from services.common.errors import Poison
from services.common.kafka import DeadLetterQueue
from services.common.kafka.dead_letter_queue import VALUE_LIMIT
from services.common.kafka.publisher import MAX_MESSAGE_BYTES
from services.common.kafka.topics import DEAD_LETTERS, load_topics
from services.common.messages import DeadLetter
from tests.unit.common.kafka.messages import consumed


class Sent:
    """Stands where the producer and the codec are."""

    def __init__(self) -> None:
        self.letters: list[DeadLetter] = []

    def encode_message(self, letter: DeadLetter) -> bytes:
        self.letters.append(letter)
        return b""

    def send_message(self, *_: Any) -> Future[int]:
        return Future()


@pytest.mark.parametrize("size", [0, VALUE_LIMIT, VALUE_LIMIT + 1])
def test_letter_when_its_message_is_large_then_it_fits_and_says_what_was_cut(size: int) -> None:
    sent: Any = Sent()
    headers = [("traceparent", b"00"), ("huge", b"x" * 1_000_000)]
    message = consumed("gitops.commands", 7, value=b"x" * size, headers=headers)
    DeadLetterQueue(sent, sent, "planner").send_letter(message, Poison("why"), datetime.now(UTC))
    (letter,) = sent.letters
    assert letter.value is not None
    assert len(letter.value) == min(size, VALUE_LIMIT)
    assert letter.headers == {"traceparent": b"00"}
    assert (f"of {size} bytes are kept" in letter.error) == (size > VALUE_LIMIT)


def test_producer_when_compared_with_the_topic_of_dead_letters_then_it_may_fill_it() -> None:
    (topic,) = [topic for topic in load_topics() if topic.name == DEAD_LETTERS]
    assert str(MAX_MESSAGE_BYTES) == topic.config["max.message.bytes"]
    assert VALUE_LIMIT + 512 * 1024 < MAX_MESSAGE_BYTES
