"""``make chaos``: a random plan against a stack of its own, and what a failing one comes down to."""

from __future__ import annotations

import asyncio
import json
import random
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError
from rich.console import Console

from chaos.checker.convergence import Patience
from chaos.execution.faults import REPLICAS
from chaos.plan.faults import FAULTS, LEADER, Fault
from chaos.plan.generate import generate
from chaos.plan.operations import OPERATIONS, Operation
from chaos.plan.plan import Plan
from chaos.plan.size import Size, Targets
from chaos.report import Report, print_report, table_row
from chaos.run import DURATION, RESYNC_INTERVAL, run_plan, stack_options, steady_seconds
from chaos.shrink import shrink
from devstack.harness.hosted import hosted
from devstack.paths import ROOT
from devstack.stack.links import links

RESULTS = ROOT / "chaos" / "results"
PREFIX = "chaos"

ARGOCD = tuple(
    f"argocd-{part}-{number}" for part in ("application-controller", "redis", "repo-server") for number in (1, 2)
)
SIMULATOR = ("argocd-simulator",)
PROCESSES = (
    "agent-1",
    "agent-2",
    "connect",
    "connector-keeper",
    "etcd",
    "kafka",
    "kube-apiserver",
    "kube-controller-manager",
    "planner-1",
    "planner-2",
    "postgres",
    "registry",
    "watcher-1",
    "watcher-2",
)

SERVICES = ("agent-1", "agent-2", "planner-1", "planner-2", "watcher-1", "watcher-2")

AT_WORK = (("agent-1", "agent-2"), ("planner-1", "planner-2"), (LEADER,))
"""Of each service those that do some of its work. Of watchers it is one."""
TAKEN_OVER_SECONDS = 15
"""After so many another does the work of one of them: the lease of watchers, which is the longest, runs for nine."""

FIRST = (
    "kafka",
    "postgres",
    "connect",
    "etcd",
    "kube-apiserver",
    ("planner-1", "postgres"),
    ("watcher-1", "kube-apiserver"),
    ("agent-1", "kafka"),
    ("connect", "postgres"),
    ("planner-1", "kafka"),
    ("watcher-1", "kafka"),
    ("agent-1", "kube-apiserver"),
    ("connect", "kafka"),
)
"""Stores, and the ways to them: a run of few faults does without the others. Services have turns of their own."""

console = Console(highlight=False)


def main(  # noqa: PLR0913, PLR0917 - one for each option
    seed: Annotated[int, typer.Option(help="Of an earlier run; 0: by chance.")] = 0,
    operations: Annotated[int, typer.Option(help="How many.")] = 1000,
    tenants: Annotated[int, typer.Option(help="Namespaces that they are spread over.")] = 20,
    faults: Annotated[int, typer.Option(help="How many.")] = 30,
    longest: Annotated[float, typer.Option(min=1, help="Seconds that most faults last at most.")] = 8,
    rate: Annotated[float, typer.Option(help="Operations in a second, at most.")] = 20,
    deadline: Annotated[float, typer.Option(help="Seconds to wait for less to be wrong, until nothing is.")] = 300,
    steady: Annotated[float, typer.Option(help="Seconds for which all must stay so then; 0: as --resync needs.")] = 0,
    resync: Annotated[
        str, typer.Option(help="Each kind is listed anew in this time (ISO 8601): a short one heals what is lost.")
    ] = DURATION.dump_python(RESYNC_INTERVAL, mode="json"),
    shrink_runs: Annotated[int, typer.Option("--shrink", help="Runs to spend on finding what a failure needs.")] = 0,
    argocd: Annotated[bool, typer.Option("--argocd", help="Real Argo CD in place of its simulator.")] = False,
    kinds: Annotated[str, typer.Option(help="Of faults, with commas between them; empty: all.")] = "",
    plan_file: Annotated[Path | None, typer.Option("--plan", help="A plan that was kept, in place of a seed.")] = None,
    output: Annotated[Path, typer.Option(help="Folder of reports and plans.")] = RESULTS,
) -> None:
    """Start a stack of its own, run a plan, judge; exit with 1 if anything is not as it must be, or was not tried."""
    interval, faults_chosen = _duration(resync), _chosen(kinds)
    seed = seed or random.SystemRandom().randrange(1, 1_000_000)
    if plan_file is None:
        plan = generate(seed, Size(operations, tenants, faults), targets_of(longest, faults_chosen, argocd=argocd))
        chosen = frozenset[type[Operation | Fault]]((*OPERATIONS, *faults_chosen))
    else:
        plan = Plan.from_json(plan_file.read_text())
        chosen = plan.kinds
    setup = Setup(rate, Patience(deadline, steady or steady_seconds(interval)), interval, argocd)
    kept = output / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-seed-{plan.seed}"
    console.print(f"seed {plan.seed}: {len(plan.operations)} operations, {len(plan.faults)} faults")
    if left_out := sorted(kind.__name__ for kind in chosen - plan.kinds):
        console.print(f"too few to have any {', '.join(left_out)}: the run will fail, as that is not proven")
    _keep_plan(plan, kept.with_name(f"{kept.name}-plan.json"), setup)
    report = run_afresh(plan, setup, chosen, kept.with_name(f"{kept.name}-logs"))
    print_report(console, report)
    path = kept.with_name(f"{kept.name}.json")
    path.write_text(json.dumps(report.as_json(), indent=1))
    console.print(f"written to {path}; for docs/chaos-runs.md:")
    console.print(table_row(report, shlex.join(["python", "-m", "chaos", *sys.argv[1:]])), markup=False, soft_wrap=True)
    if not report.failed:
        return
    if shrink_runs and report.verdict.differences:
        _shrink(plan, report, setup, shrink_runs, output / f"seed-{plan.seed}-shrunk.json")
    raise typer.Exit(1)


def targets_of(longest: float, kinds: tuple[type[Fault], ...] = FAULTS, *, argocd: bool = False) -> Targets:
    """What may be broken in the stack of a run, for how many seconds at most unless others shall take over."""
    processes = (*PROCESSES, *(ARGOCD if argocd else SIMULATOR))
    return Targets(
        killed=processes,
        stopped=processes,
        links=tuple((link.process, link.server) for link in links(REPLICAS, with_argocd=argocd)),
        clocks=SERVICES,
        seconds=(1, longest),
        first=FIRST,
        kinds=kinds,
        services=AT_WORK,
        outlasting=TAKEN_OVER_SECONDS,
    )


def _chosen(kinds: str) -> tuple[type[Fault], ...]:
    known = {fault.__name__: fault for fault in FAULTS}
    names = [name for name in kinds.split(",") if name] or list(known)
    if unknown := [name for name in names if name not in known]:
        raise typer.BadParameter(f"no fault is called {', '.join(unknown)}; there are {', '.join(known)}")
    return tuple(known[name] for name in names)


def _duration(text: str) -> timedelta:
    try:
        return DURATION.validate_python(text)
    except ValidationError as error:
        raise typer.BadParameter(f"{text} is no duration of ISO 8601, such as P3D or PT1M") from error


@dataclass(frozen=True, slots=True)
class Setup:
    """How plans are run."""

    rate: float
    """Operations in a second, at most."""
    patience: Patience
    resync: timedelta
    """Between two lists of a kind."""
    argocd: bool
    """Real, not simulated."""


def run_afresh(
    plan: Plan, setup: Setup, chosen: Collection[type[Operation | Fault]] | None = None, logs: Path | None = None
) -> Report:
    """On a new stack, which ends with the run; what its processes said is copied to ``logs`` unless all is well."""
    options = stack_options(resync=setup.resync, argocd=setup.argocd)
    with (
        tempfile.TemporaryDirectory(prefix="gitops-chaos-") as folder,
        hosted(Path(folder) / "stack", *options, output=Path(folder) / "stack.out") as stack,
    ):
        is_well = False
        try:
            running = run_plan(stack, plan, PREFIX, rate=setup.rate, patience=setup.patience, chosen=chosen)
            report = asyncio.run(running)
            is_well = not report.failed
        finally:
            if not is_well and logs is not None:
                shutil.copytree(stack.state.logs, logs)
        return report


def _shrink(plan: Plan, report: Report, setup: Setup, runs: int, path: Path) -> None:
    found = re.compile(rf"{PREFIX}-(\d+)")
    matches = [found.fullmatch(each.namespace) for each in report.verdict.differences]
    suspects = {int(match[1]) for match in matches if match}

    async def fails(candidate: Plan) -> bool:
        is_same = await asyncio.to_thread(_fails_likewise, candidate, setup, report)
        if is_same:
            _keep_plan(candidate, path, setup)
        return is_same

    console.print(f"looking for what it needs, in at most {runs} runs …")
    smallest = asyncio.run(shrink(plan, fails, runs, suspects))
    for step in smallest.steps:
        console.print(f"  {step}", markup=False, soft_wrap=True)
    _keep_plan(smallest, path, setup)


def _fails_likewise(candidate: Plan, setup: Setup, report: Report) -> bool:
    """Whether something differs in a way that ``report`` knows: another failure is another search."""
    size = f"{len(candidate.operations)} operations, {len(candidate.faults)} faults"
    try:
        outcome = run_afresh(candidate, setup)
    except Exception as error:  # a run that breaks off says nothing of what was looked for
        console.print(f"  {size}: broke off: {error!r}", markup=False)
        return False
    is_same, differs = outcome.fails_as(report), bool(outcome.verdict.differences)
    console.print(f"  {size}: {'fails' if is_same else 'fails otherwise' if differs else 'succeeds'}")
    return is_same


def _keep_plan(plan: Plan, path: Path, setup: Setup) -> None:
    """Before it is run: a run that breaks off can be repeated, too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(plan.to_json())
    resync = "" if setup.resync == RESYNC_INTERVAL else f" --resync {DURATION.dump_python(setup.resync, mode='json')}"
    argocd = " --argocd" if setup.argocd else ""
    console.print(f"once more: python -m chaos --plan {path}{resync}{argocd}", soft_wrap=True)


if __name__ == "__main__":
    typer.run(main)
