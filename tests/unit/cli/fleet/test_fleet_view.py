"""One screen of the fleet: what each part of it shows."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from rich.console import Console

from services.cli.fleet.fleet_view import MOST_MOVES, FleetView, screen
from services.planner.domain.fleet.remediation.remediation_rows import Remediation
from services.planner.domain.fleet.rollouts.rollout_rows import Rollout
from services.planner.domain.fleet.rows import EngineInstanceRow, Fleet, Holding, InstanceHealth, Move
from tests.unit.planner.given import at

ONE = EngineInstanceRow(
    "one", "argocd-1", "argocd", "north", "eu", "shared", "", "canary", 20, "accepting", at(1), at(2), "3.1.16"
)
TWO = replace(ONE, id="two", namespace="argocd-2", ring="general", wanted_version=None)
GONE = replace(ONE, id="gone", namespace="argocd-0", state="retired")
DOWN = InstanceHealth("one", 0, "Down", "HeartbeatLost", "", "", at(1), at(3), at(3), None)
FLEET = Fleet(
    {}, {"one": ONE, "two": TWO, "gone": GONE}, {"one": Holding(3)}, frozenset({"argocd"}), load={"one": 50, "two": 0}
)
MOVE = Move(
    UUID(int=1), UUID(int=2), "local", "team-a", 0, "one", "two", "pausing", False, "{}", "", "ada", at(1), at(2), None
)
REMEDIATION = Remediation("one", "acting", 7, "Evacuate", '["Evacuate"]', True, "lost", at(4), at(9))
ROLLOUT = Rollout(
    UUID(int=3), "3.2.11", "", "canary,general", 60, False, "soaking", "canary", 10, False, "", "[]", "[]", "", 20, 2,
    "until noon", "ada", at(1), at(5), at(5), at(6),
)  # fmt: skip


def shown(view: FleetView, *, retired: bool = False, width: int = 80) -> list[str]:
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(screen(view, retired=retired))
    return [line.rstrip() for line in captured.get().splitlines()]


def test_screen_when_the_fleet_is_well_then_it_is_a_row_for_each_instance_and_nothing_else() -> None:
    assert shown(FleetView(FLEET)) == [
        "instance  ring     version  state      health   load            tenants",
        "one       canary   3.1.16   accepting  Unknown  ██░░░░ 5 of 20        3",
        "two       general  -        accepting  Unknown  ░░░░░░ 0 of 20        0",
        "",
    ]


def test_screen_when_an_instance_is_evacuated_then_it_says_why_and_who_goes_where() -> None:
    fleet = replace(FLEET, health={"one": DOWN}, cordoned={"one": "lost"}, moves={MOVE.tenant_id: MOVE})
    _, row, _, _, *under_way = shown(FleetView(fleet, {"one": REMEDIATION}))
    assert row.split()[:5] == ["one", "canary", "3.1.16", "cordoned", "Down"]
    assert under_way == ["one: HeartbeatLost, remedy acting Evacuate", "move of team-a: one → two, 3 pausing"]


def test_screen_when_an_instance_was_ill_and_is_well_then_nothing_is_said_of_it() -> None:
    assert shown(FleetView(FLEET, {"one": replace(REMEDIATION, state="well")}))[-1] == ""


def test_screen_when_an_agent_tells_a_version_then_that_is_shown_in_place_of_the_ordered_one() -> None:
    fleet = replace(FLEET, health={"one": replace(DOWN, version="3.2.11")})
    assert shown(FleetView(fleet))[1].split()[2] == "3.2.11"


def test_screen_when_a_version_is_rolled_out_then_its_ring_step_and_stage_are_shown_and_what_it_waits_for() -> None:
    told = "rollout of 3.2.11: ring canary, 3 soaking, 10 %: 2 of 20 tenants moved; until noon"
    assert shown(FleetView(FLEET, rollout=ROLLOUT), width=100)[-1] == told
    assert shown(FleetView(FLEET, rollout=replace(ROLLOUT, step="done", reason="")))[-1] == "rollout of 3.2.11: done"


def test_screen_when_there_are_many_moves_then_the_others_are_counted() -> None:
    moves = {UUID(int=n): replace(MOVE, id=UUID(int=n), tenant_id=UUID(int=n)) for n in range(MOST_MOVES + 5)}
    lines = shown(FleetView(replace(FLEET, moves=moves)))
    assert sum(line.startswith("move of") for line in lines) == MOST_MOVES
    assert lines[-1] == "and 5 moves more: gitopsctl engines moves"


def test_screen_when_instances_differ_in_cluster_or_owner_then_there_is_a_column_for_that() -> None:
    other = replace(TWO, engine_cluster="south", dedicated_to="team")
    heading, _, row, *_ = shown(FleetView(replace(FLEET, instances={"one": ONE, "two": other})), width=120)
    assert heading.endswith("cluster  dedicated to")
    assert row.split()[-2:] == ["south", "team"]


def test_screen_when_retired_ones_are_asked_for_then_they_are_there() -> None:
    assert [line.split()[0] for line in shown(FleetView(FLEET), retired=True)[1:4]] == ["gone", "one", "two"]


def test_screen_when_there_is_no_instance_then_that_is_said() -> None:
    assert shown(FleetView(replace(FLEET, instances={}))) == ["there is no engine instance"]
