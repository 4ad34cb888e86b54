"""A dead letter is redriven only if nothing newer has come about what it is about."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock
from uuid import uuid4

import pytest

from services.cli.dead_letters import redrive, stored_letters
from services.cli.dead_letters.redrive import LogJudge, send_letters, supersedes, table_of
from services.cli.dead_letters.stored_letters import LetterFilter, StoredLetter, chosen, without_content
from services.common.avro import SchemaRegistry
from services.common.errors import InvalidConfiguration, Poison
from services.common.kafka import ConsumedMessage, TopicPartition
from services.common.messages import (
    DeadLetter,
    DrainEngineInstance,
    FleetOrder,
    Observation,
    Order,
    SyncMoved,
    UndrainEngineInstance,
)
from tests.unit.common.kafka.messages import consumed
from tests.unit.planner.given import CREDENTIAL, Applied, at, changed, credential, gone, observed, resync

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


def refused(message: Any, *later: tuple[int, Any], offset: int = AT, there: ConsumedMessage | None = None) -> str:
    """What a letter of ``message`` is told whose log has ``there`` (its own message), and then ``later``."""
    values = {f"later {number}".encode(): each for number, (_, each) in enumerate(later)}
    messages: dict[bytes | None, Any] = {value: each or Poison("what") for value, each in values.items()}
    codec: Any = Codec(messages | {VALUE: message})
    judge = LogJudge({SOURCE.topic: codec})
    judge.add_letter(stored(offset), FIRST, END)
    judge.see(there or at_log(offset, VALUE))
    for (position, _), value in zip(later, values, strict=True):
        judge.see(at_log(position, value))
    return judge.refusal("0/7")


@pytest.mark.parametrize(
    "later",
    [
        pytest.param([], id="nothing"),
        pytest.param([(AT - 1, changed(6).message)], id="the-same-before-it"),
        pytest.param([(AT + 1, changed(6, "api", uid="uid-2").message)], id="another-resource"),
        pytest.param([(AT + 1, credential(6, "web").message)], id="another-kind"),
        pytest.param([(AT + 1, changed(6, namespace="team-b").message)], id="another-tenant"),
        pytest.param([(AT + 1, resync(6, epoch=1).message)], id="a-list-that-it-is-part-of"),
        pytest.param([(AT + 1, resync(6, epoch=9, kind=CREDENTIAL).message)], id="a-list-of-another-kind"),
    ],
)
def test_letter_when_nothing_newer_is_about_the_same_then_it_may_be_redriven(later: list[tuple[int, Any]]) -> None:
    assert refused(WEB, *later) == ""


@pytest.mark.parametrize(
    "newer",
    [
        pytest.param(changed(6, generation=2).message, id="changed"),
        pytest.param(changed(6, uid="uid-2").message, id="made-again"),
        pytest.param(gone(6).message, id="gone"),
        pytest.param(resync(6, epoch=2).message, id="a-newer-list-that-lacks-it"),
        pytest.param(None, id="not-understood"),
    ],
)
def test_letter_when_something_newer_is_about_the_same_then_it_stays(newer: Any) -> None:
    assert refused(WEB, (AT + 7, newer)).startswith(f"superseded: the message at {AT + 7} ")


def test_letter_when_it_cannot_be_understood_yet_then_it_stays_and_says_why() -> None:
    assert refused(Poison("schema 7 is not in the registry")).endswith("schema 7 is not in the registry")


@pytest.mark.parametrize("offset", [FIRST - 1, END])
def test_letter_when_the_log_does_not_reach_it_then_it_stays(offset: int) -> None:
    assert refused(WEB, offset=offset) == "its log has it no more: what came behind it is not known"


@pytest.mark.parametrize(
    ("there", "reason"),
    [
        pytest.param(at_log(AT, b"what the tenant sent"), "its log has another message there", id="another-value"),
        pytest.param(at_log(AT, VALUE, b"local/team-b"), "its log has another message there", id="another-tenant"),
        pytest.param(at_log(AT, VALUE, None), "its log has another message there", id="no-key"),
        pytest.param(at_log(AT + 1, VALUE), "its log has it no more", id="elsewhere"),
    ],
)
def test_letter_when_it_is_forged_then_it_stays(there: ConsumedMessage, reason: str) -> None:
    assert refused(WEB, there=there).startswith(reason)


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
    monkeypatch.setattr(redrive, "PartitionReader", lambda *_: log)
    monkeypatch.setattr(redrive, "AvroCodec", lambda *_: Codec({VALUE: WEB, **MEANWHILE}))
    monkeypatch.setattr(redrive, "count_partitions", lambda *_: {SOURCE.topic: 12})
    unused: Any = None
    judge = redrive.Judge(unused, unused)
    assert judge.refusals([stored()], has_database=False) == {"0/7": ""}
    assert send_letters(log, [stored()], judge, unused, None) == {}
    assert [(each.key, each.value) for each in log.log[1:]] == [(KEY, each) for each in (*meanwhile, VALUE, *again)]


def test_letter_when_it_is_the_end_of_a_list_then_it_stays() -> None:
    assert "restart the watcher" in refused(resync(5, epoch=1).message)


def observation(event: Any, name: str = "gitopsdepl-uid-1") -> Observation:
    message = observed(5, event, instance="engine-1", name=name).message
    assert isinstance(message, Observation)
    return message


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        (observation(Applied("new")), True),
        (observation(Applied("new"), "gitopsdepl-uid-2"), False),
        (observation(SyncMoved("run", "Running", "", "", "", "")), False),
        (replace(observation(Applied("new")), engine_instance_id="engine-2"), False),
    ],
)
def test_observation_when_a_later_one_is_about_the_same_object_then_it_is_superseded(
    later: Observation, expected: bool
) -> None:
    assert supersedes(later, observation(Applied("old"))) == expected


def order(of: Order) -> FleetOrder:
    return FleetOrder(uuid4(), "ops@host", at(1), of)


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        pytest.param(UndrainEngineInstance("engine-1"), True, id="the-same-instance"),
        pytest.param(DrainEngineInstance("engine-1"), True, id="given-again"),
        pytest.param(DrainEngineInstance("engine-2"), False, id="another-instance"),
        pytest.param(None, True, id="not-understood"),
    ],
)
def test_order_when_a_later_one_is_about_the_same_then_it_is_superseded(later: Order | None, expected: bool) -> None:
    assert supersedes(later and order(later), order(DrainEngineInstance("engine-1"))) == expected


@pytest.mark.parametrize(
    ("topic", "table"),
    [
        ("gitops.engine.eu-2", '"public"."engine_resources"'),
        ("gitops.engine", '"public"."engine_resources"'),  # of releases before
        ("gitops.engines", None),
        ("gitops.workspace", '"public"."workspace_resources"'),
        ("gitops.workspace.a.b", '"public"."workspace_resources_a.b"'),
        ('gitops.workspace.a"."b', None),
        ("gitops.objects", '"public"."other_workspace_objects"'),
        ("gitops.objects.a.b", '"public"."workspace_objects_a.b"'),
        ('gitops.objects.a"."b', None),
        ("parked_events", None),
        ("gitops.dead-letters", None),
    ],
)
def test_table_when_a_topic_streams_rows_then_it_is_theirs(topic: str, table: str | None) -> None:
    assert table_of(topic) == table


def test_row_when_asked_for_then_its_table_is_named_in_quotes_and_its_key_is_data(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = {"workspace": "a.b", "namespace": "team-a", "kind": "GitOpsDeployment", "name": "it's"}
    monkeypatch.setattr(redrive, "row_of", lambda *_: key)
    letter = replace(stored().letter, topic="gitops.workspace.a.b")
    table = '"public"."workspace_resources_a.b"'
    condition = "workspace = 'a.b' AND namespace = 'team-a' AND kind = 'GitOpsDeployment' AND name = 'it''s'"
    assert redrive.snapshot_request(stored(letter=letter), SchemaRegistry("http://localhost:1")) == {
        "type": "incremental",
        "data-collections": [table],
        "additional-conditions": [{"data-collection": table, "filter": condition}],
    }


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
