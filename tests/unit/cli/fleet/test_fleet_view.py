"""One screen of the fleet: what each part of it shows."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest
from rich.console import Console

from services.cli.fleet.fleet_view import MOST_LINES, FleetSnapshot, screen
from services.planner.domain.fleet.fleet import Holding
from services.planner.domain.fleet.remediation.remediation_rows import Remediation
from services.planner.domain.fleet.reports.report_rows import InstanceHealth
from services.planner.domain.fleet.rollouts.rollout_rows import OVER, TOLD_FOR, Rollout, RolloutStep
from services.planner.domain.fleet.rows import EngineInstanceRow, Move
from tests.unit.planner.fleet.loaded_fleet import loaded_fleet
from tests.unit.planner.given import at

ONE = EngineInstanceRow(
    "one", "argocd-1", "argocd", "north", "eu", "shared", "", "canary", 20, "accepting", at(1), at(2), "3.1.16"
)
TWO = replace(ONE, id="two", namespace="argocd-2", ring="general", wanted_version=None)
GONE = replace(ONE, id="gone", namespace="argocd-0", state="retired")
DOWN = InstanceHealth("one", 0, "Down", "HeartbeatLost", "", "", at(1), at(3), at(3), None)
FLEET = loaded_fleet({}, {"one": ONE, "two": TWO, "gone": GONE}, {"one": Holding(3)}, load={"one": 50, "two": 0})
MOVE = Move(
    UUID(int=1), UUID(int=2), "local", "team-a", 0, "one", "two", "pausing", False, "{}", "", "ada", at(1), at(2), None
)
REMEDIATION = Remediation("one", "acting", 7, "Evacuate", '["Evacuate"]', True, "lost", at(4), at(9))
ROLLOUT = Rollout(
    UUID(int=3), "3.2.11", "", "canary,general", 60, False, "soaking", "canary", 10, False, "", "[]", "[]", "", 20, 2,
    "until noon", "ada", at(1), at(5), at(5), at(6),
)  # fmt: skip


def shown(snapshot: FleetSnapshot, *, retired: bool = False, width: int = 80, height: int | None = None) -> list[str]:
    """Lines; of a terminal if it has a ``height``."""
    console = Console(width=width, height=height, force_terminal=height is not None, color_system=None)
    with console.capture() as captured:
        console.print(screen(snapshot, retired=retired))
    return [line.rstrip() for line in captured.get().splitlines()]


def test_screen_when_the_fleet_is_well_then_it_is_a_row_for_each_instance_and_nothing_else() -> None:
    assert shown(FleetSnapshot(FLEET)) == [
        "instance  ring     version  state      health   load            tenants",
        "one       canary   3.1.16   accepting  Unknown  ██░░░░ 5 of 20        3",
        "two       general  -        accepting  Unknown  ░░░░░░ 0 of 20        0",
    ]


def test_screen_when_an_instance_is_evacuated_then_it_says_why_and_who_goes_where() -> None:
    fleet = replace(FLEET, health={"one": DOWN}, cordoned={"one": "lost"}, moves={MOVE.tenant_id: MOVE})
    *under_way, blank, _, row, _ = shown(FleetSnapshot(fleet, {"one": REMEDIATION}))
    assert (blank, row.split()[:5]) == ("", ["one", "canary", "3.1.16", "cordoned", "Down"])
    assert under_way == ["one: HeartbeatLost, remedy acting Evacuate", "move of team-a: one → two, 3 pausing"]


def test_screen_when_a_rollout_keeps_tenants_from_an_instance_then_that_is_its_state_unless_it_takes_none_anyway() -> (
    None
):
    fleet = replace(FLEET, closed=frozenset({"one"}))
    assert shown(FleetSnapshot(fleet))[-2].split()[3] == "closed"
    assert shown(FleetSnapshot(fleet.with_instance(replace(ONE, state="drained"))))[-2].split()[3] == "drained"


def test_screen_when_an_instance_was_ill_and_is_well_then_nothing_is_said_of_it() -> None:
    assert shown(FleetSnapshot(FLEET, {"one": replace(REMEDIATION, state="well")})) == shown(FleetSnapshot(FLEET))


def test_screen_when_an_agent_tells_a_version_then_that_is_shown_in_place_of_the_ordered_one() -> None:
    fleet = replace(FLEET, health={"one": replace(DOWN, version="3.2.11")})
    assert shown(FleetSnapshot(fleet))[-2].split()[2] == "3.2.11"


def test_screen_when_a_version_is_rolled_out_then_its_ring_step_and_stage_are_shown_and_what_it_waits_for() -> None:
    told = "rollout of 3.2.11: ring canary, 3 soaking, 10 %: 2 of 20 tenants moved; until noon"
    assert shown(FleetSnapshot(FLEET, rollout=ROLLOUT), width=100)[0] == told
    assert shown(FleetSnapshot(FLEET, rollout=replace(ROLLOUT, step="done", reason="")))[0] == "rollout of 3.2.11: done"


@pytest.mark.parametrize("step", OVER)
def test_rollout_when_it_ended_a_day_ago_then_it_is_no_news_any_more_and_was_until_then(step: RolloutStep) -> None:
    ended = replace(ROLLOUT, step=step)
    assert ended.is_news(ended.step_since + TOLD_FOR - timedelta(microseconds=1))
    assert not ended.is_news(ended.step_since + TOLD_FOR)


def test_rollout_when_it_is_under_way_then_it_is_news_however_long_it_takes() -> None:
    assert ROLLOUT.is_news(ROLLOUT.step_since + 30 * TOLD_FOR)


def test_screen_when_there_are_many_moves_then_the_others_are_counted() -> None:
    moves = {UUID(int=n): replace(MOVE, id=UUID(int=n), tenant_id=UUID(int=n)) for n in range(MOST_LINES + 5)}
    lines = shown(FleetSnapshot(replace(FLEET, moves=moves)))
    assert sum(line.startswith("move of") for line in lines) == MOST_LINES
    assert lines[MOST_LINES] == "and 5 moves more: gitopsctl engines moves"


MANY = {f"i{n:03}": replace(ONE, id=f"i{n:03}") for n in range(300)}


def test_screen_when_the_fleet_is_larger_than_the_terminal_then_what_is_under_way_and_ill_is_on_it() -> None:
    fleet = replace(FLEET, instances=MANY, health={"i200": DOWN}, moves={MOVE.tenant_id: MOVE})
    lines = shown(FleetSnapshot(fleet, rollout=ROLLOUT), width=100, height=12)
    assert [line.split()[0] for line in lines[:3]] == ["rollout", "i200:", "move"]
    assert [line.split()[0] for line in lines[5:-1]] == ["i200", *(f"i{n:03}" for n in range(5))]
    assert (len(lines), lines[-1]) == (12, "and 294 more")


def test_screen_when_there_is_no_terminal_then_every_instance_is_on_it() -> None:
    assert len(shown(FleetSnapshot(replace(FLEET, instances=MANY)))) == 1 + len(MANY)


def test_screen_when_the_fleet_just_fits_then_nothing_is_left_out() -> None:
    assert shown(FleetSnapshot(FLEET), height=3) == shown(FleetSnapshot(FLEET))
    assert [line.split()[0] for line in shown(FleetSnapshot(FLEET), height=2)] == ["instance", "and"]


def test_screen_when_many_instances_are_ill_then_some_are_told_and_the_others_counted() -> None:
    snapshot = FleetSnapshot(replace(FLEET, instances=MANY, health=dict.fromkeys(MANY, DOWN)))
    assert shown(snapshot, height=24)[MOST_LINES] == f"and {300 - MOST_LINES} instances more: gitopsctl engines list"


def test_screen_when_instances_differ_in_cluster_or_owner_then_there_is_a_column_for_that() -> None:
    other = replace(TWO, engine_cluster="south", dedicated_to="team")
    heading, _, row, *_ = shown(FleetSnapshot(replace(FLEET, instances={"one": ONE, "two": other})), width=120)
    assert heading.endswith("cluster  dedicated to")
    assert row.split()[-2:] == ["south", "team"]


def test_screen_when_retired_ones_are_asked_for_then_they_are_there() -> None:
    assert [line.split()[0] for line in shown(FleetSnapshot(FLEET), retired=True)[1:4]] == ["gone", "one", "two"]


def test_screen_when_there_is_no_instance_then_that_is_said() -> None:
    assert shown(FleetSnapshot(replace(FLEET, instances={}))) == ["there is no engine instance"]
