"""What a report says of a run."""

from __future__ import annotations

import subprocess
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from chaos.__main__ import main
from chaos.checker.convergence import Verdict
from chaos.checker.difference import Difference, Sort
from chaos.execution.executor import Outcome
from chaos.plan.faults import FAULTS
from chaos.plan.operations import OPERATIONS
from chaos.record import Record
from chaos.report import Report, print_report, table_row
from chaos.run import RESYNC_INTERVAL, stack_options, steady_seconds
from chaos.sources import Sources, read_sources
from devstack.git.repository import Repository
from devstack.paths import DOCS

OUTCOME = Outcome(Counter(Kill=2, AskForSync=5))
OUTCOME.targets["Kill"]["kafka"] = 2
VERDICT = Verdict(1.0, [], {"sync runs": 4, "promotions judged by commits": 2, "moves done": 1}, 3)
CHOSEN = frozenset({"Kill", "AskForSync"})
REPORT = Report(
    Sources("abc", are_changed=True), 7, OUTCOME, VERDICT, Record(replaced=Counter(planner=1)), CHOSEN, "P3D"
)
EVERY_KIND = frozenset(each.__name__ for each in (*OPERATIONS, *FAULTS))


def printed(report: Report = REPORT) -> list[str]:
    console = Console(file=StringIO(), width=200)
    with console.capture() as capture:
        print_report(console, report)
    return [" ".join(line.split()) for line in capture.get().splitlines()]


def test_report_when_printed_then_it_says_what_was_tried_what_was_hit_and_how_many_runs_were_judged_strictly() -> None:
    assert {
        "commit abc, with changes",
        "kinds listed again after P3D",
        "faults 2: 2 Kill",
        "targets of Kill 2 kafka",
        "sync runs judged strictly 3 of 4",
        "syncs seen 0, 0 moments without a witness",
        "went on when others did their work 1: 1 planner",
    } <= set(printed())


def test_report_when_kept_then_it_names_commit_and_targets() -> None:
    content = REPORT.as_json()
    assert (content["commit"], content["with_changes"], content["targets"]) == ("abc", True, {"Kill": {"kafka": 2}})


def whole() -> Report:
    """A run of every kind, in which each had an effect."""
    record = Record(failed_calls=1, failed_queries=1)
    return replace(REPORT, outcome=Outcome(Counter(EVERY_KIND)), record=record, chosen=EVERY_KIND)


def lacking(count: str) -> Verdict:
    """The same without any of these."""
    return replace(VERDICT, counts={name: number for name, number in VERDICT.counts.items() if name != count})


def test_report_when_every_kind_had_an_effect_then_it_has_not_failed() -> None:
    assert (whole().unproven, whole().failed) == ([], False)


@pytest.mark.parametrize("kind", sorted(EVERY_KIND))
def test_report_when_a_chosen_kind_was_not_done_then_the_run_has_failed_and_says_so(kind: str) -> None:
    report = replace(whole(), outcome=Outcome(Counter(EVERY_KIND - {kind})))
    assert (report.unproven, report.failed) == ([f"no {kind} had an effect"], True)
    assert f"not proven: no {kind} had an effect" in printed(report)


def test_report_when_nothing_that_an_intruder_tried_had_an_effect_then_the_run_has_failed() -> None:
    outcome = Outcome(Counter(EVERY_KIND) + Counter(Meddle=1), without_effect=Counter(Meddle=2))
    assert replace(whole(), outcome=outcome).unproven == ["no Meddle had an effect"]


def test_report_when_a_kind_was_not_chosen_then_nothing_is_missing_without_it() -> None:
    alone = Outcome(Counter(PutDeployment=1))
    report = replace(whole(), outcome=alone, record=Record(), chosen=frozenset({"PutDeployment"}))
    assert (report.unproven, report.failed) == ([], False)


@pytest.mark.parametrize(
    ("report", "says"),
    [
        (replace(whole(), record=Record(failed_queries=1)), "no call of ours to an API server failed"),
        (replace(whole(), record=Record(failed_calls=1)), "no query failed"),
        (replace(whole(), verdict=replace(VERDICT, strictly_judged=0)), "no sync run was judged strictly"),
        (replace(whole(), verdict=lacking("promotions judged by commits")), "no promotion was judged by its commits"),
        (replace(whole(), verdict=lacking("moves done")), "no move has come to its end"),
    ],
    ids=["calls", "queries", "sync runs", "promotions", "moves"],
)
def test_report_when_a_fault_hit_nothing_or_no_run_had_to_succeed_then_the_run_has_failed(
    report: Report, says: str
) -> None:
    assert (report.unproven, report.failed, report.as_json()["unproven"]) == ([says], True, [says])


@pytest.mark.parametrize(("report", "code"), [(whole(), 0), (replace(whole(), record=Record()), 1)], ids=["ok", "not"])
def test_command_when_a_run_has_proven_nothing_then_it_ends_with_1(
    report: Report, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chaos.__main__.run_afresh", lambda *_: report)
    command = typer.Typer()
    command.command()(main)
    assert CliRunner().invoke(command, ["--output", str(tmp_path)]).exit_code == code


@pytest.mark.parametrize(
    ("resync", "steady"), [(RESYNC_INTERVAL, 45), (timedelta(minutes=1), 75)], ids=["the product's", "short"]
)
def test_all_has_to_stay_right_for_longer_than_any_interval_that_ends_within_a_run(
    resync: timedelta, steady: float
) -> None:
    assert steady_seconds(resync) == steady


def test_stack_when_nothing_else_is_asked_for_then_kinds_are_listed_as_seldom_as_operators_have_it() -> None:
    assert "RESYNC_INTERVAL=P3D" in stack_options()
    assert "RESYNC_INTERVAL=PT1M" in stack_options(resync=timedelta(minutes=1))


def test_row_when_a_run_is_recorded_then_it_has_what_the_page_of_runs_asks_for() -> None:
    row = table_row(reported("missing", "missing", "sync"), "python -m chaos --seed 7")
    assert row == "| abc, changed | `python -m chaos --seed 7` | 5 | 2: 2 Kill | 0 | 2 | 0 | 0 | 1 | 1 | not |"
    assert table_row(whole(), "").endswith(" | 0 | 0 | 0 | 0 | 0 | 0 | 1.0 |")
    (header,) = [line for line in (DOCS / "chaos-runs.md").read_text().splitlines() if line.startswith("| tree")]
    assert header.count("|") == row.count("|")


def reported(*sorts: Sort) -> Report:
    verdict = Verdict(1.0, [Difference(sort, "GitOpsDeployment a/b", "is so") for sort in sorts], {}, 0)
    return replace(REPORT, verdict=verdict)


def test_report_when_nothing_differs_as_in_another_then_it_does_not_fail_as_that_does() -> None:
    missing = reported("missing", "status")
    assert (reported("status").fails_as(missing), reported("extra").fails_as(missing), REPORT.fails_as(missing)) == (
        True,
        False,
        False,
    )


def test_sources_when_a_file_was_changed_since_the_commit_then_that_is_told(tmp_path: Path) -> None:
    origin = Repository.create(tmp_path / "origin")
    commit = origin.commit({"file": "as committed"})
    subprocess.run(["/usr/bin/env", "git", "clone", "--quiet", origin.path, tmp_path / "clone"], check=True)
    assert read_sources(tmp_path / "clone") == Sources(commit, are_changed=False)
    (tmp_path / "clone" / "file").write_text("as changed")
    assert read_sources(tmp_path / "clone") == Sources(commit, are_changed=True)
