"""The table of engine instances: its columns, and what it leaves out where there is little room."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.console import Console

from services.cli.fleet import engine_instances
from services.cli.fleet.fleet_view import FleetSnapshot, screen
from services.cli.fleet.instance_table import InstanceTable, columns_for
from services.planner.domain.fleet.fleet import Fleet, Holding
from services.planner.domain.fleet.reports.report_rows import InstanceHealth
from services.planner.domain.fleet.rows import EngineInstanceRow
from tests.unit.cli.fleet.test_engines import typed
from tests.unit.planner.given import at

IDS = {
    "short ids": "argocd-7",
    "the ids of an installation": "gitops-service-argocd-17",
    "the longest ids that there are": "a" * 63,
}
ALL_HEADINGS = "instance ring version state health load tenants reason cluster region dedicated to"


def fleet(longest: str) -> Fleet:
    """Two instances of which each column tells something: one is ill, and the other is a workspace's own."""
    own = EngineInstanceRow(
        "one", "argocd-1", "argocd", "north", "eu", "dedicated", "team-of-somebody", "canary", 2500, "provisioning",
        at(1), at(2), "3.1.16",
    )  # fmt: skip
    ill = EngineInstanceRow(
        longest, "argocd-2", "argocd", "default", "", "shared", "", "general", 2500, "accepting", at(1), at(2)
    )
    told = InstanceHealth(longest, 0, "Degraded", "ComparisonsLate", "", "3.2.11", at(1), at(3), at(3), None)
    return Fleet(
        {}, {"one": own, longest: ill}, {longest: Holding(1234)}, frozenset({"argocd"}), health={longest: told},
        load={longest: 23450},
    )  # fmt: skip


def lines_of(shown: Fleet, width: int) -> list[str]:
    rows = [*shown.instances.values()]
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(InstanceTable(shown, rows, columns_for(shown, rows)))
    return [line.rstrip() for line in captured.get().splitlines()]


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("longest", IDS.values(), ids=IDS)
def test_table_when_it_is_wider_than_the_terminal_then_no_line_is_broken_and_no_value_is_cut(
    longest: str, width: int
) -> None:
    shown = fleet(longest)
    whole, narrow = lines_of(shown, 250), lines_of(shown, width)
    assert max(map(len, whole)) > width
    assert [line.split()[0] for line in narrow[:3]] == ["instance", "one", longest]
    for wide_row, row in zip(whole[1:], narrow[1:3], strict=True):
        assert set(row.split()) <= set(wide_row.split())
        assert wide_row.split()[3] in row.split()  # the state
    assert max(map(len, narrow)) <= width
    left_out = narrow[3].removeprefix("no room for ").split(", ") if len(narrow) > 3 else []
    assert not set(left_out) & set(narrow[0].split())
    assert {*narrow[0].replace("dedicated to", "dedicated-to").split(), *left_out} >= {"ring", "version", "reason"}


def test_table_when_there_is_room_then_every_column_is_there_that_tells_something_and_none_is_missed() -> None:
    heading, *rows = lines_of(fleet("argocd-7"), 250)
    assert " ".join(heading.split()) == ALL_HEADINGS
    assert len(rows) == 2


def test_table_when_only_the_bar_of_the_load_has_no_room_then_its_numbers_stay_and_no_column_is_missed() -> None:
    whole = lines_of(fleet("argocd-7"), 250)
    narrow = lines_of(fleet("argocd-7"), max(map(len, whole)) - 1)
    assert [line.split() for line in narrow] == [line.replace("█", "").replace("░", "").split() for line in whole]


def test_table_when_an_agents_word_holds_control_characters_then_no_terminal_obeys_them() -> None:
    shown = fleet("argocd-7")
    told = InstanceHealth("one", 0, "Down", "\x1b[2JGone", "", "3.1\x1b[2J", at(1), at(3), at(3), None)
    lines = lines_of(replace(shown, health={"one": told}), 250)
    assert "\x1b" not in "".join(lines)
    assert "[2JGone" in lines[1].split()


def test_instances_when_listed_then_people_are_shown_the_table_that_they_see_while_they_watch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = fleet("argocd-7")
    monkeypatch.setattr(engine_instances, "fleet", lambda *_: shown)
    listed = [line.rstrip() for line in typed("list").stdout.splitlines()]
    console = Console(width=250, color_system=None)
    with console.capture() as captured:
        console.print(screen(FleetSnapshot(shown)))
    watched = [line.rstrip() for line in captured.get().splitlines()]
    assert listed[0] in watched
    assert sorted(listed[1:]) == sorted(watched[-2:])
