"""A dead letter that is redriven is in its log again, once, and nothing that is gone comes back with it."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from services.cli.dead_letters import letter_judge
from services.cli.dead_letters.letter_judge import LogJudge
from services.cli.dead_letters.redrive import send_letters
from services.common.errors import Poison
from services.common.kafka import ConsumedMessage, TopicPartition
from tests.unit.cli.dead_letters.letters import AT, END, FIRST, KEY, SOURCE, VALUE, WEB, Codec, at_log, stored
from tests.unit.planner.given import changed, gone


def test_letter_when_something_newer_comes_before_it_is_sent_then_it_stays() -> None:
    late, letters = {"0/7": "superseded: the message at 207 is newer"}, [stored(), stored(AT + 1, id="0/8")]
    judge: Any = SimpleNamespace(refusal_by_now=lambda each: late.get(each.id, ""), removal_before=lambda *_: None)
    publisher: Any = Mock()
    unused: Any = None
    assert send_letters(publisher, letters, judge, unused, None) == late
    (sent, marked) = publisher.send_message.call_args_list
    assert (sent.args, marked.args[3]["gitops-dead-letter"]) == ((SOURCE.topic, KEY, VALUE, {}, 3), "0/8")


class Ended(Exception):
    """The command ends here."""


class Topics:
    """A log, and what was said of letters; the command ends before its effect ``fatal``."""

    def __init__(self, fatal: int) -> None:
        self.fatal, self.done = fatal, 0
        self.log, self.marked = [at_log(AT, VALUE), at_log(AT + 1, b"another")], list[str]()

    def send_message(self, topic: str, key: bytes | None, value: Any, headers: Any, partition: int = 0) -> Any:
        self.done += 1
        if self.done == self.fatal:
            raise Ended
        if value is None:
            self.marked.append(headers["gitops-dead-letter"])
        else:
            self.log.append(at_log(self.log[-1].offset + 1, value, key))
        return Mock()

    def redrive(self) -> dict[str, str]:
        """All letters about which nothing was done, by a command that is typed now; returns what each is told."""
        letter = stored().letter
        other = replace(letter, offset=AT + 1, value=b"another")
        left = [each for each in (stored(), stored(id="0/8", letter=other)) if each.id not in self.marked]
        codec: Any = Codec({VALUE: WEB, b"another": changed(6, "api", uid="uid-2").message})
        judge = LogJudge({SOURCE.topic: codec})
        for each in left:
            judge.add_letter(each, FIRST, END)
        for message in self.log:
            judge.see(message)
        refused = {each.id: judge.refusal(each.id) for each in left}
        allowed = [each for each in left if not refused[each.id]]
        by_now: Any = SimpleNamespace(refusal_by_now=lambda _: "", removal_before=lambda *_: None)
        unused: Any = None
        return refused | send_letters(self, allowed, by_now, unused, None)  # type: ignore[arg-type]


def test_letters_when_their_redriving_ends_before_any_one_effect_then_it_goes_on_and_none_is_sent_twice() -> None:
    whole = Topics(fatal=-1)
    whole.redrive()
    assert (whole.done, whole.marked) == (4, ["0/7", "0/8"])
    for fatal in range(1, whole.done + 1):
        topics = Topics(fatal)
        with pytest.raises(Ended):
            topics.redrive()
        told = topics.redrive()
        assert [message.value for message in topics.log] == [message.value for message in whole.log]
        unmarked = {"0/7", "0/8"} - {*topics.marked}
        assert unmarked == {each for each, refusal in told.items() if refusal.startswith("superseded")}
        assert len(unmarked) == (fatal % 2 == 0), "a letter that was sent and not marked is superseded by itself"


class Overtaken:
    """A log, its reader and its publisher: ``meanwhile`` is what came between the last look and the letter."""

    def __init__(self, *meanwhile: bytes, key: bytes = KEY) -> None:
        self.log, self.meanwhile, self.key, self.read = [at_log(AT, VALUE)], list(meanwhile), key, 0

    def append(self, value: bytes, key: bytes | None) -> int:
        self.log.append(at_log(self.log[-1].offset + 1, value, key))
        return self.log[-1].offset

    def send_message(self, topic: str, key: bytes | None, value: Any, headers: Any, partition: int = 0) -> Future[int]:
        """What comes meanwhile comes before it."""
        sent: Future[int] = Future()
        while self.meanwhile:
            self.append(self.meanwhile.pop(0), self.key)
        sent.set_result(self.append(value, key) if value is not None else 0)
        return sent

    def first_offsets(self, sources: Any) -> dict[TopicPartition, int]:
        return dict.fromkeys(sources, FIRST)

    def end_offsets(self, sources: Any) -> dict[TopicPartition, int]:
        return dict.fromkeys(sources, self.log[-1].offset + 1)

    def assign_partitions(self, starts: Any) -> None:
        """All of it is read."""

    def read_on(self, _: Any) -> list[ConsumedMessage]:
        """To the end, though less was asked for."""
        read, self.read = self.read, len(self.log)
        return self.log[read:]


MEANWHILE = {
    b"gone": gone(6).message,
    b"changed": changed(6, generation=2).message,
    b"other gone": gone(6, uid="uid-2").message,
    b"gone elsewhere": gone(6, namespace="team-b").message,
    b"not understood": Poison("what"),
}


@pytest.mark.parametrize(
    ("meanwhile", "again"),
    [
        pytest.param((), [], id="nothing"),
        pytest.param((b"gone",), [b"gone"], id="it was removed"),
        pytest.param((b"changed", b"gone"), [b"gone"], id="changed and removed"),
        pytest.param((b"gone", b"other gone"), [b"gone"], id="removed, and so was the next of its name"),
        pytest.param((b"changed",), [], id="changed"),
        pytest.param((b"other gone",), [], id="another of its name was removed"),
        pytest.param((b"gone elsewhere",), [], id="one of another tenant was removed"),
        pytest.param((b"not understood",), [], id="it cannot be understood"),
    ],
)
def test_letter_when_its_resource_is_removed_between_the_last_look_and_the_send_then_the_removal_is_sent_once_more(
    monkeypatch: pytest.MonkeyPatch, meanwhile: tuple[bytes, ...], again: list[bytes]
) -> None:
    log: Any = Overtaken(*meanwhile)
    monkeypatch.setattr(letter_judge, "PartitionReader", lambda *_: log)
    monkeypatch.setattr(letter_judge, "AvroCodec", lambda *_: Codec({VALUE: WEB, **MEANWHILE}))
    monkeypatch.setattr(letter_judge, "existing_partitions", lambda *_: {SOURCE.topic: 12})
    unused: Any = None
    judge = letter_judge.Judge(unused, unused)
    assert judge.refusals([stored()], has_database=False) == {"0/7": ""}
    assert send_letters(log, [stored()], judge, unused, None) == {}
    assert [(each.key, each.value) for each in log.log[1:]] == [(KEY, each) for each in (*meanwhile, VALUE, *again)]
