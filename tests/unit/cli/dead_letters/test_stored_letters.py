"""Which of the dead letters that are kept are meant, and what each tells."""

from __future__ import annotations

from typing import Any

import pytest

from services.cli.dead_letters import stored_letters
from services.cli.dead_letters.stored_letters import LetterFilter, chosen, without_content
from services.common.avro import SchemaRegistry
from services.common.errors import InvalidConfiguration, Poison
from services.common.messages import DeadLetter
from tests.unit.cli.dead_letters.letters import KEY, VALUE, stored
from tests.unit.common.kafka.messages import consumed
from tests.unit.planner.given import at


@pytest.mark.parametrize(
    ("wanted", "matches"),
    [
        (LetterFilter(topic="gitops.commands", service="planner", tenant="local/team-a", reason="AVRO"), True),
        (LetterFilter(topic="gitops.engine"), False),
        (LetterFilter(service="agent"), False),
        (LetterFilter(tenant="local/team-b"), False),
        (LetterFilter(reason="too long"), False),
        (LetterFilter(since=at(1)), True),
        (LetterFilter(since=at(2)), False),
        (LetterFilter(ids=("0/7",)), True),
    ],
)
def test_filter_when_all_of_it_fits_then_the_letter_is_meant(wanted: LetterFilter, matches: bool) -> None:
    assert wanted.matches(stored()) == matches


def test_letters_when_an_id_is_none_then_the_error_names_it() -> None:
    with pytest.raises(InvalidConfiguration, match="there is no dead letter 0/8, 0/9; 'gitopsctl dlq list'"):
        chosen([stored()], LetterFilter(("0/7", "0/8", "0/9")))


def test_letters_when_they_hold_more_than_memory_is_given_to_then_the_error_says_how_to_ask_for_fewer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stored_letters, "MOST_BYTES", 5 * len(KEY + VALUE))
    letters = [stored(id=f"0/{number}") for number in range(6)]
    assert len(chosen(letters, LetterFilter(("0/1", "0/2")))) == 2
    assert len(chosen(map(without_content, letters), LetterFilter())) == 6
    with pytest.raises(InvalidConfiguration, match="more than 0 MiB of messages; take fewer at once"):
        chosen(letters, LetterFilter())


def test_letters_when_read_then_each_tells_what_was_done_and_what_is_none_is_shown_like_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic, letter = "gitops.dead-letters", stored().letter

    class Codec:
        def __init__(self, *_: object) -> None: ...

        def decode_message(self, value: bytes | None) -> DeadLetter:
            if value != b"letter":
                raise Poison("not in the wire format")
            return letter

    messages = [
        consumed(topic, 7, value=b"letter"),
        consumed(topic, 8, value=b"what is this"),
        consumed(topic, 9, value=None, headers=[("gitops-dead-letter", b"0/7"), ("gitops-done", b"dropped")]),
    ]
    monkeypatch.setattr(stored_letters, "AvroCodec", Codec)
    monkeypatch.setattr(stored_letters, "_messages", lambda _: messages)
    unused: Any = None
    found = stored_letters.read_letters(unused, SchemaRegistry("http://localhost:1"), LetterFilter())
    assert [(each.id, each.done, each.letter.error) for each in found] == [
        ("0/7", "dropped", "not avro"),
        ("0/8", "", "not a dead letter: not in the wire format"),
    ]
