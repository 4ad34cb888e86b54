"""Figures from timings, as a table for people and JSON for machines."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.measure import Result
from devstack.harness.journey import Passage, Stage

HOPS = (Stage.CREATED, Stage.WATCHED, Stage.PLANNED, Stage.STREAMED, Stage.APPLIED)
"""Stages whose differences are the hops of a creation."""

OUTSIDE = frozenset({"kube-apiserver", "etcd", "kube-controller-manager"})
"""Kubernetes itself: what the product calls, not what it costs."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What one measurement came to; times in milliseconds."""

    count: int
    missing: int
    per_second: float
    p50: float
    p90: float
    p99: float
    worst: float


def percentile(values: Iterable[float], share: float) -> float:
    """The smallest value that at least ``share`` of ``values`` do not exceed; NaN of none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else math.nan


def figures(result: Result) -> Figures:
    """Percentiles and rate of ``result``."""
    times = [timing.milliseconds for timing in result.timings]
    return Figures(
        count=len(times),
        missing=len(result.missing),
        per_second=result.per_second,
        p50=percentile(times, 0.5),
        p90=percentile(times, 0.9),
        p99=percentile(times, 0.99),
        worst=max(times, default=math.nan),
    )


def hops(result: Result, passages: Iterable[Passage]) -> dict[str, dict[str, float]]:
    """Median and p99 milliseconds of each hop, by "from → to"; the first passage of each stage counts."""
    at: dict[str, dict[Stage, float]] = {timing.uid: {Stage.CREATED: timing.sent} for timing in result.timings}
    for passage in passages:
        if passage.uid in at:
            at[passage.uid].setdefault(passage.stage, passage.at.timestamp())
    return {f"{start} → {end}": _hop(at.values(), start, end) for start, end in pairwise(HOPS)}


def _hop(journeys: Iterable[Mapping[Stage, float]], start: Stage, end: Stage) -> dict[str, float]:
    times = [(journey[end] - journey[start]) * 1000 for journey in journeys if start in journey and end in journey]
    return {"count": len(times), "p50": percentile(times, 0.5), "p99": percentile(times, 0.99)}


def cpu_per_item(
    before: Mapping[str, float], after: Mapping[str, float], idle: Mapping[str, float], items: int
) -> dict[str, float]:
    """CPU milliseconds of each process per created deployment, beyond the seconds it would have taken at rest."""
    return {name: max(0.0, after[name] - before[name] - idle.get(name, 0.0)) * 1000 / items for name in before}


def print_report(console: Console, report: Mapping[str, Any]) -> None:
    """The report as tables."""
    latency = Table(
        "measurement", "n", "missing", "p50 ms", "p90 ms", "p99 ms", "worst ms", "per s", title="CR → Application"
    )
    for name, row in report["measurements"].items():
        numbers = [row[key] for key in ("p50", "p90", "p99", "worst", "per_second")]
        latency.add_row(name, str(row["count"]), str(row["missing"]), *(f"{number:.1f}" for number in numbers))
    console.print(latency)
    for name, table in report["hops"].items():
        hop_table = Table("hop", "n", "p50 ms", "p99 ms", title=f"Hops: {name}")
        for hop, row in table.items():
            hop_table.add_row(hop, str(row["count"]), f"{row['p50']:.1f}", f"{row['p99']:.1f}")
        console.print(hop_table)
    console.print(_process_table(report))


def _process_table(report: Mapping[str, Any]) -> Table:
    measured = list(report["cpu_ms_per_deployment"])
    headings = ("process", "at rest, % of a core", *(f"{name}, CPU ms each" for name in measured), "memory MiB")
    table = Table(*headings, title="Processes (CPU ms per deployment, beyond rest)")
    for process, memory in report["memory_mebibytes"].items():
        costs = [report["cpu_ms_per_deployment"][name].get(process, 0.0) for name in measured]
        rest = f"{report['idle_share_of_a_core'].get(process, 0.0) * 100:.1f}"
        table.add_row(process, rest, *(f"{cost:.2f}" for cost in costs), f"{memory:.0f}")
    totals = [_outside_kubernetes(report["cpu_ms_per_deployment"][name]) for name in measured]
    table.add_section()
    idle = f"{_outside_kubernetes(report['idle_share_of_a_core']) * 100:.1f}"
    table.add_row("all but Kubernetes", idle, *(f"{total:.2f}" for total in totals), "")
    return table


def _outside_kubernetes(costs: Mapping[str, float]) -> float:
    return sum(cost for name, cost in costs.items() if name not in OUTSIDE)


def as_json(result: Result) -> dict[str, float]:
    """Figures as JSON."""
    return asdict(figures(result))
