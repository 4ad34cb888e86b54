"""What a report says of a run."""

from __future__ import annotations

import subprocess
from collections import Counter
from dataclasses import replace
from io import StringIO
from pathlib import Path

from rich.console import Console

from chaos.checker.convergence import Verdict
from chaos.checker.difference import Difference, Sort
from chaos.execution.executor import Outcome
from chaos.record import Record
from chaos.report import Report, print_report
from chaos.sources import Sources, read_sources
from devstack.git.repository import Repository

OUTCOME = Outcome(Counter(Kill=2, AskForSync=5))
OUTCOME.targets["Kill"]["kafka"] = 2
VERDICT = Verdict(1.0, [], {"sync runs": 4}, 3)
REPORT = Report(Sources("abc", are_changed=True), 7, OUTCOME, VERDICT, Record(replaced=Counter(planner=1)))


def printed() -> list[str]:
    console = Console(file=StringIO(), width=200)
    with console.capture() as capture:
        print_report(console, REPORT)
    return [" ".join(line.split()) for line in capture.get().splitlines()]


def test_report_when_printed_then_it_says_what_was_tried_what_was_hit_and_how_many_runs_were_judged_strictly() -> None:
    assert {
        "commit abc, with changes",
        "faults 2: 2 Kill",
        "targets of Kill 2 kafka",
        "sync runs judged strictly 3 of 4",
        "syncs seen 0, 0 moments without a witness",
        "went on when others did their work 1: 1 planner",
    } <= set(printed())


def test_report_when_kept_then_it_names_commit_and_targets() -> None:
    content = REPORT.as_json()
    assert (content["commit"], content["with_changes"], content["targets"]) == ("abc", True, {"Kill": {"kafka": 2}})


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
