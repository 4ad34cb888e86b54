"""What a run was, and what came of it, for people and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from chaos.checker.convergence import JUDGED_BY_COMMITS, Verdict
from chaos.execution.executor import Outcome
from chaos.plan.faults import FAULTS, FailCalls, FailQueries
from chaos.plan.operations import AskForSync, MoveTenant, Promote
from chaos.record import Record
from chaos.sources import Sources

SHOWN = 40
"""Differences."""
SORTS = ("lost", "missing", "extra", "differs")
"""Of differences that are of objects, not of what is told."""


@dataclass(frozen=True, slots=True)
class Report:
    """Of one run."""

    sources: Sources
    seed: int
    outcome: Outcome
    verdict: Verdict
    record: Record
    chosen: frozenset[str]
    """Kinds of operations and faults that the run was to try."""
    resync: str
    """Between two lists of a kind, as ISO 8601: within a shorter time than the deadline a loss may heal unseen."""

    @property
    def failed(self) -> bool:
        """Something is not as it must be, or it was not tried whether it is."""
        return bool(self.verdict.differences or self.unproven)

    @property
    def unproven(self) -> list[str]:
        """What the run was to try and did not: nothing is proven by faults that did not take place.

        Nor by calls that all succeeded, by sync runs that need not have succeeded, and promotions that nobody watched.
        """
        done = self.outcome.done - self.outcome.without_effect
        untried = [f"no {kind} had an effect" for kind in sorted(self.chosen) if not done[kind]]
        looked_for = [
            (FailCalls, self.record.failed_calls, "no call of ours to an API server failed"),
            (FailQueries, self.record.failed_queries, "no query failed"),
            (AskForSync, self.verdict.strictly_judged, "no sync run was judged strictly"),
            (Promote, self.verdict.counts.get(JUDGED_BY_COMMITS), "no promotion was judged by its commits"),
            (MoveTenant, self.verdict.counts.get("moves done"), "no move has come to its end"),
        ]
        return untried + [says for kind, number, says in looked_for if kind.__name__ in self.chosen and not number]

    def fails_as(self, other: Report) -> bool:
        """Whether something differs here in a way in which something does there."""
        return not self._sorts.isdisjoint(other._sorts)

    @property
    def _sorts(self) -> set[str]:
        return {each.sort for each in self.verdict.differences}

    def as_json(self) -> dict[str, Any]:
        """All of it but what was recorded."""
        faults = {fault.__name__ for fault in FAULTS}
        return {
            "commit": self.sources.commit,
            "with_changes": self.sources.are_changed,
            "seed": self.seed,
            "resync_interval": self.resync,
            "operations": {name: number for name, number in self.outcome.done.items() if name not in faults},
            "faults": {name: number for name, number in self.outcome.done.items() if name in faults},
            "targets": {name: dict(targets) for name, targets in self.outcome.targets.items()},
            "faults_at_once_with_another": self.outcome.overlapping,
            "without_effect": dict(self.outcome.without_effect),
            "seconds": round(self.outcome.seconds, 1),
            "syncs_seen": len(self.record.starts.runs),
            "sync_runs_judged_strictly": self.verdict.strictly_judged,
            "sync_runs_that_the_api_server_failed": self.record.starts.failed,
            "failed_calls": self.record.failed_calls,
            "failed_queries": self.record.failed_queries,
            "witness_gaps": len(self.record.witness_gaps),
            "replaced_when_it_went_on": dict(self.record.replaced),
            "started_again": dict(self.record.restarted),
            "there_is": self.verdict.counts,
            "unproven": self.unproven,
            "seconds_to_converge": round(self.verdict.seconds, 1),
            "differences_by_sort": dict(Counter(each.sort for each in self.verdict.differences)),
            "differences": [asdict(each) for each in self.verdict.differences],
        }


def table_row(report: Report, command: str) -> str:
    """The run as a row of docs/chaos-runs.md, in Markdown."""
    content, sorts = report.as_json(), report.as_json()["differences_by_sort"]
    wrong = sum(sorts.values()) - sum(sorts.get(sort, 0) for sort in SORTS)
    faults = ", ".join(f"{number} {kind}" for kind, number in sorted(content["faults"].items()))
    cells = (
        content["commit"][:7] + (", changed" if content["with_changes"] else ""),
        f"`{command}`",
        str(sum(content["operations"].values())),
        f"{sum(content['faults'].values())}: {faults}",
        *(str(sorts.get(sort, 0)) for sort in SORTS),
        str(wrong),
        str(len(report.unproven)),
        "not" if report.verdict.differences else str(content["seconds_to_converge"]),
    )
    return f"| {' | '.join(cells)} |"


def print_report(console: Console, report: Report) -> None:
    """Figures first, then what is wrong."""
    content = report.as_json()
    table = Table("", "", box=None, show_header=False)
    table.add_row("commit", content["commit"] + (", with changes" if content["with_changes"] else ""))
    table.add_row("seed", str(report.seed))
    table.add_row("kinds listed again after", report.resync)
    for name in ("operations", "faults", "there_is"):
        parts = ", ".join(f"{number} {what}" for what, number in sorted(content[name].items()))
        table.add_row(name.replace("_", " "), f"{sum(content[name].values())}: {parts}")
    table.add_row("began while another went on", str(content["faults_at_once_with_another"]))
    table.add_row("syncs seen", f"{content['syncs_seen']}, {content['witness_gaps']} moments without a witness")
    for name, targets in sorted(content["targets"].items()):
        table.add_row(f"targets of {name}", ", ".join(f"{number} {what}" for what, number in sorted(targets.items())))
    runs = content["there_is"]["sync runs"]
    table.add_row("sync runs judged strictly", f"{content['sync_runs_judged_strictly']} of {runs}")
    table.add_row("failed by the API server", f"{content['sync_runs_that_the_api_server_failed']} sync runs")
    table.add_row(
        "calls made to fail", f"{content['failed_calls']} to API servers, {content['failed_queries']} queries"
    )
    replaced = content["replaced_when_it_went_on"]
    parts = ", ".join(f"{number} {service}" for service, number in sorted(replaced.items()))
    table.add_row("went on when others did their work", f"{sum(replaced.values())}: {parts}")
    if content["started_again"]:
        table.add_row("ended by itself", json.dumps(content["started_again"]))
    table.add_row("took", f"{content['seconds']} s")
    sorts = content["differences_by_sort"]
    for sort in (*SORTS, "status", "sync"):
        table.add_row(sort, str(sorts.get(sort, 0)))
    converged = f"{content['seconds_to_converge']} s" + (", and not converged" if report.verdict.differences else "")
    table.add_row("time to converge", converged)
    console.print(table)
    for difference in report.verdict.differences[:SHOWN]:
        console.print(f"  {difference}", markup=False, soft_wrap=True)
    if len(report.verdict.differences) > SHOWN:
        console.print(f"  … and {len(report.verdict.differences) - SHOWN} more")
    for reason in report.unproven:
        console.print(f"  not proven: {reason}", markup=False)
