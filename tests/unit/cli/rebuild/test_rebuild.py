"""How far a replay has come, and what the engines' topic says of where tenants are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from services.cli.rebuild import progress
from services.cli.rebuild.awaited_lists import not_listed, unreplayed_lists
from services.cli.rebuild.progress import count_replayed, watch_replay
from services.cli.rebuild.streamed_topics import row_of
from services.cli.replay.complete_lists import CompleteList, LoggedLists, Scope, listed_kinds
from services.common.errors import Poison, Unavailable
from services.common.kafka import COMMANDS, TopicPartition
from services.planner.domain.fleet.rows import EngineInstanceRow
from tests.unit.fake_clock import FakeClock
from tests.unit.planner.given import at

LOG = TopicPartition("log", 0)


@pytest.mark.parametrize(
    ("reached", "done"),
    [
        pytest.param({}, 0, id="nobody has begun"),
        pytest.param({LOG: 0}, 0, id="before the oldest message that there is"),
        pytest.param({LOG: 12}, 2, id="within"),
        pytest.param({LOG: 99}, 5, id="beyond, as changes go on"),
    ],
)
def test_replay_when_followed_then_it_is_counted_from_the_oldest_message_to_where_it_ended(
    reached: dict[TopicPartition, int], done: int
) -> None:
    assert count_replayed({LOG: 10}, {LOG: 15}, reached) == done


def test_replay_when_retention_has_emptied_a_partition_then_nothing_is_waited_for() -> None:
    newer = TopicPartition("gitops.observations.south", 0)
    assert count_replayed({LOG: 10}, {LOG: 15, newer: 4}, {LOG: 12, newer: 3}) == 5
    assert count_replayed({LOG: 10}, {LOG: 10}, {LOG: 10}) == count_replayed({LOG: 10}, {LOG: 10}, {}) == 0


@dataclass
class Planners:
    """What planners have consumed each time that it is asked; time passes in between."""

    clock: FakeClock
    consumed: list[int]
    times_asked: int = 0

    def reached(self) -> dict[TopicPartition, int]:
        self.clock.seconds += 6
        self.times_asked += 1
        at = self.consumed[min(self.times_asked, len(self.consumed)) - 1]
        return {LOG: at} if at else {}


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LOOK_EVERY_SECONDS", 0.0)


def test_replay_when_no_planner_starts_then_it_is_given_up_and_says_what_is_not_replayed() -> None:
    planners, other = Planners(FakeClock(), [0]), TopicPartition("other", 3)
    with pytest.raises(Unavailable) as stalled:
        watch_replay(planners.reached, "replayed", {LOG: 10, other: 0}, {LOG: 15, other: 0}, 60, planners.clock)
    assert stalled.value.exit_code == 69
    assert "consumed nothing for 60 s; not replayed: log/0 (0 of 5):" in str(stalled.value)


def test_replay_when_planners_come_to_a_halt_then_it_is_given_up_the_limit_after_their_last_progress() -> None:
    planners = Planners(FakeClock(), [11, 12, 12, 13])
    with pytest.raises(Unavailable, match=r"log/0 \(3 of 5\)"):
        watch_replay(planners.reached, "replayed", {LOG: 10}, {LOG: 15}, 60, planners.clock)
    assert planners.clock.seconds == 4 * 6 + 60


def test_replay_when_it_goes_on_slowly_then_it_is_waited_for_and_told_in_lines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    planners = Planners(FakeClock(), [10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15])
    watch_replay(planners.reached, "replayed", {LOG: 10}, {LOG: 15}, 15, planners.clock)
    told = capsys.readouterr()
    assert told.err.splitlines() == [f"replayed: {done} of 5 messages" for done in (0, 1, 2, 3, 4, 5)]
    assert told.out.startswith("replayed: 5 messages in 66.0 s")


RECORD = {
    "id": "one", "namespace": "argocd", "state": "draining", "created_at": "2026-05-04T12:00:01.000000Z",
    "engine": "argocd", "engine_cluster": "north", "region": "eu", "engine_class": "shared", "dedicated_to": "",
    "ring": "early", "capacity": 7, "ordered_at": "2026-05-04T12:00:02.000000Z", "__deleted": "false",
}  # fmt: skip
"""As it is streamed."""


def test_instance_when_streamed_then_its_row_is_as_it_was() -> None:
    row = EngineInstanceRow(
        "one", "argocd", "argocd", "north", "eu", "shared", "", "early", 7, "draining", at(1), at(2)
    )
    assert row_of(EngineInstanceRow, RECORD) == row
    installed = {"wanted_version": "3.2.11", "profile": None, "due_at": "2026-05-04T12:00:03Z", "state_message": None}
    assert row_of(EngineInstanceRow, RECORD | installed) == replace(row, wanted_version="3.2.11", due_at=at(3))


@pytest.mark.parametrize("change", [{"ordered_at": "yesterday"}, {"ordered_at": None}])
def test_instance_when_its_record_is_something_else_then_it_is_poison(change: dict[str, Any]) -> None:
    with pytest.raises(Poison, match="not a row of EngineInstanceRow"):
        row_of(EngineInstanceRow, RECORD | change)
    with pytest.raises(Poison, match="not a row of EngineInstanceRow"):
        row_of(EngineInstanceRow, {"id": "one"})


@pytest.mark.parametrize(
    ("newest", "missing"),
    [
        pytest.param(None, ["local Secret"], id="no list ended"),
        pytest.param(CompleteList(99, 5), ["local Secret"], id="one that began before the rebuild, and ended after"),
        pytest.param(CompleteList(100, 8), ["local Secret"], id="planners have not taken its end up"),
        pytest.param(CompleteList(100, 7), [], id="taken up"),
    ],
)
def test_kind_when_a_list_of_it_was_taken_up_that_began_after_the_rebuild_then_it_is_listed(
    newest: CompleteList | None, missing: list[str]
) -> None:
    scope = Scope("local", "Secret", 0)
    lists = LoggedLists({0: 0}, {scope: newest} if newest is not None else {})
    assert not_listed(lists, [scope], {TopicPartition(COMMANDS, 0): 8}, 100) == missing


EPOCH = 1_000_000
"""Of a list, in milliseconds."""


@pytest.mark.parametrize(
    ("first", "oldest", "oldest_time", "listed", "is_lacking"),
    [
        pytest.param(0, 0, 0.0, listed_kinds(), False, id="an empty database, a log from which nothing was ever taken"),
        pytest.param(7, 7, 1.0, listed_kinds(), False, id="a list that began behind the oldest message"),
        pytest.param(7, 7, 999.0, listed_kinds(), True, id="the beginning of the list was taken away"),
        pytest.param(0, 0, 0.0, listed_kinds()[1:], True, id="no list of one kind, as in a log that was made anew"),
        pytest.param(8, 7, 999.0, [], False, id="a backup goes on within the log"),
        pytest.param(7, 7, 999.0, [], True, id="the log begins behind the backup"),
    ],
)
def test_replay_when_it_is_over_then_it_lacks_a_list_unless_the_log_or_the_backup_has_it(
    first: int, oldest: int, oldest_time: float, listed: list[str], *, is_lacking: bool
) -> None:
    newest = {Scope("local", kind, 0): CompleteList(EPOCH, 9) for kind in listed}
    lists = LoggedLists({0: oldest}, newest, {0: oldest_time})
    assert bool(unreplayed_lists(lists, ["local"], {TopicPartition(COMMANDS, 0): first})) == is_lacking
