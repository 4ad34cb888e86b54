"""What counts as a complete list in the log, whatever retention has taken away."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from services.cli.replay.complete_lists import CLOCKS_DIFFER_SECONDS, LoggedLists, Scope
from services.common.errors import Poison
from services.common.kafka import ConsumedMessage, TopicPartition, TrackedOffset
from services.common.messages import Command, ResourceGone, ResyncCompleted

EPOCH = 1_000_000_000_000
BEGAN = EPOCH / 1000
"""When the list of that epoch began, in seconds."""
ENDS = "the end of no list is in the log"
BEGINS = "the log no longer has the beginning of its newest list"


def message(
    offset: int, *, seconds: float = BEGAN, key: bytes | None = b"ws/team-a", epoch: int = 0, approved: str = ""
) -> Any:
    event = ResyncCompleted("Secret", epoch, approved) if epoch else ResourceGone("Secret", "a", "uid", "1")
    command = Command("ws", "" if epoch else "ws", "", datetime.now(UTC), event)
    value: Any = command
    return ConsumedMessage(
        TrackedOffset(TopicPartition("log", 0), offset, 0), None if epoch else key, value, (), seconds
    )


def decode(value: Any) -> Command:
    assert isinstance(value.event, ResyncCompleted), "only markers need to be understood"
    return value  # type: ignore[no-any-return]


def gaps(first: int, *messages: ConsumedMessage, decode: Callable[[Any], Command] = decode) -> list[str]:
    lists = LoggedLists({0: first})
    for each in messages:
        lists.add_message(each, decode)
    return [gap.reason for gap in lists.find_gaps(["ws"], ["Secret"])]


@pytest.mark.parametrize(
    ("first", "messages", "missing"),
    [
        pytest.param(0, [message(0), message(1, epoch=EPOCH)], [], id="nothing was ever taken away"),
        pytest.param(0, [message(0)], [ENDS], id="a list that was not ended"),
        pytest.param(0, [], [ENDS], id="an empty log"),
        pytest.param(
            7, [message(7, seconds=BEGAN - 3600), message(8, epoch=EPOCH)], [], id="older messages are still there"
        ),
        pytest.param(7, [message(7), message(8, epoch=EPOCH)], [BEGINS], id="cut off within the list"),
        pytest.param(
            7,
            [message(7, seconds=BEGAN - CLOCKS_DIFFER_SECONDS / 2), message(8, epoch=EPOCH)],
            [BEGINS],
            id="cut off so near to its beginning that clocks may differ by more",
        ),
        pytest.param(
            7,
            [message(7, epoch=EPOCH), message(8, seconds=BEGAN + 9, epoch=EPOCH + 3_600_000)],
            [],
            id="the newest of two is whole, though the older one is not",
        ),
    ],
)
def test_log_when_read_then_it_is_complete_exactly_if_a_whole_list_is_in_it(
    first: int, messages: list[ConsumedMessage], missing: list[str]
) -> None:
    assert gaps(first, *messages) == missing


def test_marker_when_it_cannot_be_understood_then_it_proves_nothing() -> None:
    def refuse(_: Any) -> Command:
        raise Poison("not ours")

    assert gaps(0, message(0, epoch=EPOCH), decode=refuse) == [ENDS]


def test_marker_when_it_is_an_approval_then_it_is_no_list() -> None:
    assert gaps(0, message(0, epoch=EPOCH, approved="digest")) == [ENDS]


def test_gaps_when_of_several_workspaces_kinds_and_partitions_then_each_is_named() -> None:
    lists = LoggedLists({0: 0, 1: 0})
    lists.add_message(message(0, epoch=EPOCH), decode)
    found = [gap.scope for gap in lists.find_gaps(["other", "ws"], ["Secret"])]
    assert found == [Scope("other", "Secret", 0), Scope("other", "Secret", 1), Scope("ws", "Secret", 1)]
