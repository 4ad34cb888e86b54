"""What ``gitopsctl engines list`` and ``show`` tell of the instances, at once and while they are watched."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
import yaml

from services.cli.fleet import engine_instances
from services.cli.fleet.fleet_view import FleetSnapshot
from services.common.errors import InvalidConfiguration
from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.reports.report_rows import InstanceHealth
from services.planner.domain.fleet.rollouts.rollout_rows import EngineSample
from tests.unit.cli.fleet.test_engines import FLEET, ONE, OVERLOAD, PARTS, sent, typed
from tests.unit.planner.given import at

__all__ = ["sent"]


def test_instances_when_listed_then_tenants_are_counted_and_retired_ones_are_shown_if_asked_for() -> None:
    (row,) = json.loads(typed("list", "-o", "json").stdout)
    assert (row["id"], row["cluster"], row["dedicatedTo"], row["tenants"]) == ("one", "north", "team", 3)
    assert [each["id"] for each in yaml.safe_load(typed("list", "--retired", "-o", "yaml").stdout)] == ["gone", "one"]
    assert [line.split()[0] for line in typed("list").stdout.splitlines()] == ["instance", "one"]
    assert [line.split()[0] for line in typed("list", "--retired").stdout.splitlines()] == ["instance", "gone", "one"]


def test_instances_when_listed_and_there_is_none_then_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_instances, "fleet", lambda *_: replace(FLEET, instances={}))
    assert typed("list").stdout == "there is no engine instance\n"
    assert json.loads(typed("list", "-o", "json").stdout) == []


EVERY_FIELD = (
    "id cluster namespace region engine class dedicatedTo ring state stateMessage health reason cordoned closed "
    "version tenants load queue capacity wantedVersion profile installation installationMessage createdAt orderedAt "
    "healthMessage healthSince healthReportedAt heartbeatAt certificateExpiresAt"
)


@pytest.mark.parametrize(("read", "output"), [(json.loads, "json"), (yaml.safe_load, "yaml")])
def test_instances_when_a_program_lists_them_then_it_reads_every_field(read: Callable[[str], Any], output: str) -> None:
    (row,) = read(typed("list", "-o", output).stdout)
    assert list(row) == EVERY_FIELD.split()


def test_instances_when_watched_then_they_are_shown_again_until_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter(map(FleetSnapshot, [FLEET, replace(FLEET, instances={"one": replace(ONE, state="draining")})]))

    def look(_: str) -> FleetSnapshot:
        try:
            return next(looks)
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr(engine_instances, "load_snapshot", look)
    monkeypatch.setattr(engine_instances, "LOOK_EVERY_SECONDS", 0)
    told = typed("list", "--watch").stdout
    assert told.count("instance  ring") == 2
    assert told.index("accepting") < told.index("draining")


def watched_by_program(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    """What it reads: the instance is as before at the second look, then it drains, then it is retired."""
    looks = iter([FLEET, FLEET, *(replace(FLEET, instances={**FLEET.instances, "one": each}) for each in ENDING)])

    def look(_: str) -> Fleet:
        try:
            return next(looks)
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr(engine_instances, "fleet", look)
    monkeypatch.setattr(engine_instances, "LOOK_EVERY_SECONDS", 0)
    return typed(*arguments, "--watch").stdout


ENDING = (replace(ONE, state="draining"), replace(ONE, state="retired"))
READ = [("one", "accepting"), ("one", "draining"), ("one", "retired")]
RETIRED_BEFORE = ("gone", "retired")


@pytest.mark.parametrize(("retired", "read"), [((), READ), (("--retired",), [RETIRED_BEFORE, *READ])], ids=["", "all"])
def test_instances_when_watched_by_a_program_then_each_is_a_line_and_another_whenever_it_changes(
    monkeypatch: pytest.MonkeyPatch, retired: tuple[str, ...], read: list[tuple[str, str]]
) -> None:
    rows = [json.loads(line) for line in watched_by_program(monkeypatch, "list", "-o", "json", *retired).splitlines()]
    assert [(row["id"], row["state"]) for row in rows] == read


def test_instances_when_watched_as_yaml_then_each_change_is_a_document(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = yaml.safe_load_all(watched_by_program(monkeypatch, "list", "-o", "yaml"))
    assert [(row["id"], row["state"]) for row in rows] == READ


def test_instance_when_shown_then_all_of_it_is() -> None:
    (row,) = json.loads(typed("show", "one", "-o", "json").stdout)
    assert (row["orderedAt"], row["overload"], row["parts"]) == ("2026-05-04T12:00:02Z", OVERLOAD, PARTS)
    lines = [line.split() for line in typed("show", "one").stdout.splitlines()]
    assert lines[:2] == [["field", "value"], ["id", "one"]]
    assert ["ordered", "at", "2026-05-04", "12:00:02Z"] in lines
    assert ["dedicated", "to", "team"] in lines
    assert ["cordoned", "no"] in lines
    assert ["parts", "team/shop@one,", "team/web@one"] in lines
    assert isinstance(typed("show", "two").exception, InvalidConfiguration)


def test_instance_when_a_rollout_keeps_tenants_from_it_then_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_instances, "fleet", lambda *_: replace(FLEET, closed=frozenset({"one"})))
    rows = json.loads(typed("list", "--retired", "-o", "json").stdout)
    assert {row["id"]: row["closed"] for row in rows} == {"gone": False, "one": True}


COUNTED = ("countedAt", "applications", "late", "failedSyncs", "comparisonErrors", "failingTenants")
REPORTED = InstanceHealth("one", 0, "Healthy", "", "", "3.2.11", at(60), at(1), at(60), at(240))
SAMPLE = EngineSample("one", at(60), 2410, 3, 1, 4, 30_000, None, 12, 2)


def look_at_counts(monkeypatch: pytest.MonkeyPatch, health: InstanceHealth) -> None:
    """The database shows an instance that is so, and what was counted for its report of second 60."""
    samples = {("one", at(60)): SAMPLE}
    monkeypatch.setattr(engine_instances, "fleet", lambda *_: replace(FLEET, health={"one": health}))
    monkeypatch.setattr(engine_instances, "connected", lambda _: nullcontext())
    monkeypatch.setattr(engine_instances, "load_sample", lambda _, *key: samples.get(key))


def test_instance_when_its_agent_has_counted_then_it_is_shown_how_many_applications_are_late_or_fail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    look_at_counts(monkeypatch, REPORTED)
    (row,) = json.loads(typed("show", "one", "-o", "json").stdout)
    assert [row[name] for name in COUNTED] == ["2026-05-04T12:01:00Z", 2410, 3, 1, 4, 2]
    assert yaml.safe_load(typed("show", "one", "-o", "yaml").stdout) == [row]
    lines = [line.split() for line in typed("show", "one").stdout.splitlines()]
    assert ["counted", "at", "2026-05-04", "12:01:00Z"] in lines
    assert ["late", "3"] in lines


NOT_COUNTED = {
    "its agent is silent": replace(REPORTED, health="Unknown", reason="AgentSilent", due_at=None),
    "its agent tells of health alone": replace(REPORTED, reported_at=at(120)),
}


@pytest.mark.parametrize("health", NOT_COUNTED.values(), ids=NOT_COUNTED)
def test_instance_when_its_agent_counts_nothing_any_more_then_no_count_of_before_is_shown(
    monkeypatch: pytest.MonkeyPatch, health: InstanceHealth
) -> None:
    look_at_counts(monkeypatch, health)
    (row,) = json.loads(typed("show", "one", "-o", "json").stdout)
    assert [row[name] for name in COUNTED] == [None] * len(COUNTED)
    assert ["late", "-"] in [line.split() for line in typed("show", "one").stdout.splitlines()]


def test_instance_when_watched_then_it_is_shown_again_when_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [json.loads(line) for line in watched_by_program(monkeypatch, "show", "one", "-o", "json").splitlines()]
    assert [(row["state"], row["overload"]) for row in rows] == [(state, OVERLOAD) for _, state in READ]
    told = watched_by_program(monkeypatch, "show", "one")
    assert told.index("accepting") < told.index("draining") < told.index("retired")
