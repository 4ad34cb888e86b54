"""``gitopsctl engine-clusters add`` makes what a cluster has at the brokers, if the order is not refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner, Result

from services.cli.fleet import engine_clusters, fleet_orders
from services.cli.kafka import topics
from services.planner.domain.fleet.rows import EngineClusterRow
from tests.unit.planner.fleet.loaded_fleet import loaded_fleet
from tests.unit.planner.given import at

URL = "postgresql://gitops_owner@localhost/gitops?sslmode=disable"
NORTH = EngineClusterRow("north", "eu", at(0), "active", at(0))
SOUTH = replace(NORTH, id="south", state="retired")
FLEET = loaded_fleet({"north": NORTH, "south": SOUTH}, {}, {})
REFUSED = {
    "retired": (
        ("south", "--region", "eu"),
        "engine cluster south is retired, and its id is not given out again: give another",
    ),
    "in another region": (
        ("north", "--region", "us"),
        "engine cluster north is in region 'eu', not 'us', for good: add another one",
    ),
}


@pytest.fixture(autouse=True)
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was made, in its order; the database shows ``FLEET``, and a planner accepts everything."""
    steps: list[str] = []
    monkeypatch.setattr(fleet_orders, "fleet", lambda *_: FLEET)
    monkeypatch.setattr(fleet_orders, "load", lambda _: None)
    monkeypatch.setattr(fleet_orders, "database_time", lambda _: at(1000))
    monkeypatch.setattr(fleet_orders, "send_order", lambda *_: steps.append("order"))
    monkeypatch.setattr(fleet_orders, "_outcome", lambda *_: ("accepted", ""))
    monkeypatch.setattr(topics, "make_topics", lambda *_, dry_run: steps.append("plan" if dry_run else "topics"))
    monkeypatch.setattr(topics, "grant_rights", lambda *_, **__: steps.append("rights"))
    return steps


def added(*arguments: str) -> Result:
    return CliRunner(env={"DATABASE_OWNER_URL": URL}).invoke(engine_clusters.app, ["add", *arguments])


@pytest.mark.parametrize("dry_run", [(), ("--dry-run",)], ids=["given", "tried"])
@pytest.mark.parametrize(("cluster", "rule"), REFUSED.values(), ids=REFUSED)
def test_cluster_when_its_order_would_be_refused_then_nothing_is_made_for_it(
    made: list[str], cluster: tuple[str, ...], rule: str, dry_run: tuple[str, ...]
) -> None:
    given = added(*cluster, *dry_run)
    told = f"{cluster[0]}: {'would be refused' if dry_run else 'refused'}, {rule}\n"
    assert (given.exit_code, given.stdout, given.stderr, made) == (1, "", told, [])


@pytest.mark.parametrize(("cluster", "rule"), REFUSED.values(), ids=REFUSED)
def test_cluster_when_its_order_would_be_refused_then_a_program_reads_why(cluster: tuple[str, ...], rule: str) -> None:
    assert json.loads(added(*cluster, "-o", "json").stdout) == {"outcome": "refused", "message": rule}


@pytest.mark.parametrize("cluster", [("east",), ("north", "--region", "eu")], ids=["new", "known"])
def test_cluster_when_its_order_is_not_refused_then_its_topic_and_its_rights_are_there_before_it(
    made: list[str], cluster: tuple[str, ...]
) -> None:
    assert added(*cluster).exit_code == 0
    assert made == ["topics", "rights", "order"]


def test_cluster_when_its_order_is_only_tried_then_nothing_is_made_and_what_would_be_is_told(made: list[str]) -> None:
    assert added("east", "--dry-run").stdout == "east: would be accepted\n"
    assert made == ["plan"]
