"""What is stored does not grow with the years: every table levels off, whatever comes and goes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

from services.planner.database.tables.metadata import METADATA
from tests.component.conftest import Database, Servers
from tests.component.databases import Databases
from tests.component.planner.years import years

YEARS = int(os.environ.get("SIMULATED_YEARS", "3"))
"""`make years` simulates more."""
OTHERS = {
    "workspace_assignments": "a row for each workspace that operators assign",
    "tenant_pins": "a row for each tenant that operators pin",
    "engine_clusters": "a row for each cluster that operators ever add",
    "engine_instances": "a row for each that they ever add: the id of a retired one is not given out again",
    "placements": "input of a rebuild, which leaves it empty",
    "deployment_placements": "likewise",
    "rebuild_positions": "of a rebuild, which leaves it empty",
    "debezium_signals": "empty: tests/stack/test_change_data_capture.py",
    "debezium_heartbeat": "one row, which Connect moves on",
    "moves": "a row for each move that operators order, which goes a time after it is over: test_moves.py",
    "remediations": "a row for each instance that was ill, brought up to date: test_remediations.py",
    "engine_health": "a row for each instance that an agent has told of, brought up to date: test_engine_health.py",
    "engine_installations": "a row for each instance that a provisioner has told of, brought up to date",
    "engine_pools": "a row for each ring of a cluster that operators have made a pool of",
    "rollouts": "a row for each that operators order, which goes a time after it is over: test_rollout.py",
    "engine_samples": "a row each minute for each instance, which goes after two days: test_rollout.py",
    "engine_overloads": "a row for each instance that is overloaded",
    "kept_orphans": "a row for each instance; what no agent has told for two hours goes",
}
"""Tables that no command and no observation makes grow, and why."""
HAPPENED = {
    "PromotionRun Success",
    "PromotionRun Failure",
    "SnapshotEnvironmentBinding 2 deployments",
    "DeploymentTargetClaim Bound",
    "DeploymentTarget Bound",
}
"""What statuses of AppStudio's kinds have told."""
ROWS, BYTES = 10, 128 * 1024
"""By so much two years may differ in what they end with."""
DIGITS = 64
"""Names and versions have numbers, which get longer."""


MILESTONES = sorted({1, 2, YEARS // 2, YEARS})
"""Years after which sizes are shown."""


def as_table(rows: list[dict[str, int]], sizes: list[dict[str, int]]) -> str:
    """In Markdown: rows and KiB of each table at the end of some years."""
    heads = ["table", *(f"rows, year {year}" for year in MILESTONES), *(f"KiB, year {year}" for year in MILESTONES)]
    lines = [heads, ["---", *["---:"] * (2 * len(MILESTONES))]]
    for name in sorted(METADATA.tables, key=lambda each: -sizes[-1][each]):
        counts = [rows[year - 1][name] for year in MILESTONES]
        lines.append([f"`{name}`", *map(str, [*counts, *(sizes[year - 1][name] // 1024 for year in MILESTONES)])])
    total = [sum(sizes[year - 1].values()) // 1024 for year in MILESTONES]
    lines.append(["all", *[""] * len(MILESTONES), *map(str, total)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def years_of(measured: list[dict[str, int]], table: str) -> list[int]:
    return [year[table] for year in measured]


@pytest.fixture
def database(servers: Servers, databases: Databases) -> Iterator[Database]:
    """One that no test has used: all that was ever inserted into its tables is counted."""
    databases.drop()
    with databases.taken() as name:
        yield servers.database(name)


@pytest.mark.timeout(3600)
def test_tables_when_years_of_coming_and_going_pass_then_none_grows_with_them(
    database: Database, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, sizes, widths = [], [], []
    with years(database, monkeypatch) as lived:
        for _ in range(YEARS):
            lived.live_through_year()
            rows.append(lived.tables())
            sizes.append(lived.sizes())
            widths.append(lived.widths())
    with capsys.disabled():
        sys.stdout.write(f"\n{as_table(rows, sizes)}\n")
    assert {name: years_of(rows, name) for name in METADATA.tables if rows[-1][name] > rows[0][name] + ROWS} == {}
    # The pages that a vacuum empties are taken again after the next one, so that the second year still needs its own.
    most = {name: sizes[1][name] * 1.25 + BYTES for name in METADATA.tables}
    assert {name: years_of(sizes, name) for name in METADATA.tables if sizes[-1][name] > most[name]} == {}
    for shop in lived.shops:
        assert shop.outcomes.keys() >= HAPPENED, "it does not grow if it never was"
    widest = {name: widths[1][name] * 1.1 + DIGITS for name in METADATA.tables}
    assert {name: years_of(widths, name) for name in METADATA.tables if widths[-1][name] > widest[name]} == {}
    inserted = lived.inserted()
    untried = {name for name in METADATA.tables if inserted.get(name, 0) < 2 * rows[-1][name] + YEARS}
    assert untried == OTHERS.keys(), "nothing of it came and went: have `Years` do so, or say why it cannot grow"
