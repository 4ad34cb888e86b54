"""What topics hold: the newest of each key. On the topic of placement names alone may coincide."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from services.cli.rebuild import streamed_topics
from services.cli.rebuild.streamed_topics import Key, PlacementTopic, StreamedTopics
from services.common.avro import SchemaRegistry
from services.common.errors import Poison
from services.common.kafka import PLACEMENT, ConsumedMessage, TopicPartition, TrackedOffset
from services.common.messages import WorkspaceResource
from services.planner.domain.fleet.placement.assignments import TenantPin, WorkspaceAssignment
from services.planner.domain.fleet.pools.pool_rows import EnginePool
from services.planner.domain.fleet.rows import EngineClusterRow
from tests.unit.cli.rebuild.compiled_rows import compiled
from tests.unit.common.kafka.messages import consumed
from tests.unit.planner.given import at

SOURCE = TopicPartition(PLACEMENT, 0)
WORKSPACE, TENANT = {"workspace": "north"}, {"workspace": "north", "namespace": "early"}
CLUSTER, RING = {"id": "north"}, {"engine_cluster": "north", "ring": "early"}
ASSIGNED = WorkspaceAssignment("north", "eu", "", at(1))
PINNED = TenantPin("north", "early", "argocd", at(2))
ADDED = EngineClusterRow("north", "eu", at(3), "draining", at(4))
SET = EnginePool("north", "early", 1, 9, 1, 2500, "3.2.11", "", at(5))


@pytest.fixture(autouse=True)
def _json_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed_topics, "decode_record", lambda _, value: json.loads(value))


def told(monkeypatch: pytest.MonkeyPatch, *messages: tuple[dict[str, str], Any]) -> PlacementTopic:
    """What is on the topic after rows were written, and deleted (None)."""
    sent = [
        ConsumedMessage(TrackedOffset(SOURCE, offset, 0), _encoded(key), row and _encoded(asdict(row)), (), 1.0)
        for offset, (key, row) in enumerate(messages)
    ]
    monkeypatch.setattr(StreamedTopics, "_messages", lambda *_: iter(sent))
    return StreamedTopics("localhost:1", None).placement()  # type: ignore[arg-type]


def _encoded(record: dict[str, Any]) -> bytes:
    return json.dumps(record, default=lambda time: time.isoformat()).encode()


WHOLE = PlacementTopic(assignments=(ASSIGNED,), pins=(PINNED,), clusters=(ADDED,), pools=(SET,))
WRITTEN = ((WORKSPACE, ASSIGNED), (TENANT, PINNED), (CLUSTER, ADDED), (RING, SET))


def test_rows_when_names_coincide_then_each_is_there_as_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, *WRITTEN) == WHOLE


def test_rows_when_one_is_deleted_then_those_of_the_same_names_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    after = told(monkeypatch, *WRITTEN, (WORKSPACE, None), (RING, None))
    gone = replace(WHOLE, assignments=(), unassigned=("north",), pools=(), removed_pools=(("north", "early"),))
    assert after == gone
    after = told(monkeypatch, *WRITTEN, (TENANT, None))
    assert after == replace(WHOLE, pins=(), unpinned=(("north", "early"),))


def test_message_when_nobody_knows_what_it_is_of_then_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Poison, match=r"gitops\.placement: no row is known by ring"):
        told(monkeypatch, ({"ring": "early"}, ADDED))


@pytest.mark.parametrize(
    ("messages", "found", "unreadable"),
    [
        pytest.param([(b"k", b"row")], ["k"], [], id="all are decoded"),
        pytest.param([(b"k", b"what"), (b"l", b"row")], ["l"], [0], id="one is not"),
        pytest.param([(b"k", b"what"), (b"k", b"row")], ["k"], [], id="a newer one of its key is"),
        pytest.param([(b"k", b"row"), (b"k", b"what")], ["k"], [1], id="an older one of its key is"),
        pytest.param([(b"k", b"what"), (b"k", None)], [], [], id="its row was deleted since"),
    ],
)
def test_topic_when_read_then_messages_that_cannot_be_decoded_are_noted_unless_a_newer_one_makes_up_for_them(
    monkeypatch: pytest.MonkeyPatch,
    messages: list[tuple[bytes, bytes | None]],
    found: list[str],
    unreadable: list[int],
) -> None:
    def decoded(_: object, message: ConsumedMessage, __: object) -> tuple[Key, WorkspaceResource | None]:
        if message.value == b"what":
            raise Poison("schema 7 is not in the registry")
        name = (message.key or b"").decode()
        row = compiled(WorkspaceResource, workspace="local", namespace="team-a", kind="Secret", name=name)
        return ("local", "team-a", "Secret", name), row if message.value else None

    log = [consumed("gitops.workspace.local", number, *each) for number, each in enumerate(messages)]
    monkeypatch.setattr(StreamedTopics, "_messages", lambda *_: log)
    monkeypatch.setattr(StreamedTopics, "_decoded", decoded)
    topics = StreamedTopics("localhost:1", SchemaRegistry("http://localhost:1"))
    for _ in range(2):
        assert [name for *_, name in topics.unknown_statuses("local", {})] == found
        assert [each.offset for each in topics.unreadable] == unreadable
