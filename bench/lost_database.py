"""``python -m bench.lost_database``: how long a lost database takes from its loss to "the rebuild is complete".

An operator types the runbook's commands on a stack on which all of our services run: watchers list what there is,
Debezium takes its snapshot, agents report and compare. Before each command a user makes a deployment, and how long that
waits for its Application says what is not served meanwhile.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bench.arrivals import Arrivals, watching
from bench.measure import ARRIVAL_SECONDS, Create, fill, spread, through_the_product
from devstack.harness.hosted import HostedStack, hosted
from devstack.harness.operator import AGENTS, EDGES, Action, Operator
from services.common.kubernetes import connect
from services.common.settings import parse_engine_namespaces

RUNBOOK = "lost-database.md"
SERVICES = ("planner", *EDGES)
REBUILT_SECONDS = 900
"""From the loss to the end, at most."""

console = Console(highlight=False)


@dataclass
class Progress:
    """What was typed when, and the user's deployments; times are seconds since 1970."""

    create: Create
    tenant: str
    typed: list[tuple[str, float]] = field(default_factory=list)
    made: dict[str, tuple[str, float]] = field(default_factory=dict)
    """By name of the Application to wait for: before which command, and when."""

    async def note_command(self, command: str) -> None:
        """It is typed now, and a user makes a deployment."""
        self.typed.append((command, time.time()))
        _, awaited = await self.create(self.tenant, f"late-{len(self.typed)}")
        self.made[awaited] = command, time.time()


def lose_and_rebuild(stack: HostedStack, folder: Path, before: Callable[[str], None]) -> None:
    """From the loss to the end of the runbook."""
    operator = Operator(stack, folder / "backups")
    by_hand: dict[int, Sequence[Action]] = {
        1: [operator.stop("planner")],
        2: [operator.lose_database],
        3: [],
        4: [operator.start("planner"), *operator.restart("watcher"), operator.stop(*AGENTS), operator.start(*AGENTS)],
    }
    operator.follow_runbook(RUNBOOK, by_hand, before)
    for command in ("gitopsctl rebuild follow", "gitopsctl rebuild sweep"):
        console.print(operator.told[command].rstrip())


@dataclass(frozen=True, slots=True)
class Rebuild:
    """What came of one."""

    seconds: float
    """From the loss to the end of the runbook."""
    missing: int
    """Changes that were made meanwhile and had no effect."""


def find_failures(rebuild: Rebuild) -> Iterator[str]:
    """What is not as promised, in lines."""
    if rebuild.missing:
        yield f"{rebuild.missing} changes had no effect"
    if rebuild.seconds > REBUILT_SECONDS:
        yield f"it took {rebuild.seconds:.0f} s, more than {REBUILT_SECONDS} s"


async def measure(stack: HostedStack, folder: Path, deployments: int, tenants: int) -> Rebuild:
    """Fill a stack, lose its database, follow the runbook; print a table."""
    namespaces = list(parse_engine_namespaces(stack.environment["ENGINE_NAMESPACES"]).values())
    async with (
        await connect(Path(stack.environment["KUBECONFIG"])) as kube,
        watching(kube, namespaces) as arrivals,
    ):
        for service in SERVICES:
            await asyncio.to_thread(stack.start, service)
        create = through_the_product(kube)
        await fill(create, arrivals, await spread(kube, "full", tenants, deployments), console.print)
        [(quiet, _)] = await spread(kube, "quiet", 1, 1)
        progress, loop = Progress(create, quiet), asyncio.get_running_loop()

        def before(command: str) -> None:
            asyncio.run_coroutine_threadsafe(progress.note_command(command), loop).result()

        began = time.time()
        await asyncio.to_thread(lose_and_rebuild, stack, folder, before)
        ended = time.time()
        missing = await arrivals.wait(list(progress.made), ARRIVAL_SECONDS)
    _print(progress, arrivals, ended)
    console.print(
        f"{deployments} deployments of {tenants} tenants: {ended - began:.0f} s from the loss to the end; "
        f"changes that had no effect: {len(missing)}"
    )
    return Rebuild(ended - began, len(missing))


def _print(progress: Progress, arrivals: Arrivals, ended: float) -> None:
    table = Table("command", "until the next one s", "a change made right before it waited s")
    ends = [at for _, at in progress.typed[1:]] + [ended]
    for (command, at), end, (awaited, (_, made)) in zip(progress.typed, ends, progress.made.items(), strict=True):
        waited = f"{arrivals.seen[awaited] - made:.1f}" if awaited in arrivals.seen else "for ever"
        table.add_row(command, f"{end - at:.1f}", waited)
    console.print(table)


def main(
    deployments: Annotated[int, typer.Option(help="GitOpsDeployments that exist.")] = 25_000,
    tenants: Annotated[int, typer.Option(help="Tenants they belong to.")] = 10_000,
) -> None:
    """Start a stack of its own, fill it, lose its database, and measure the runbook.

    Exits with 1 if a change had no effect, or if it took more than 900 s.
    """
    with tempfile.TemporaryDirectory(prefix="gitops-bench-") as folder:
        console.print("starting a stack …")
        with hosted(Path(folder) / "stack", "--infra", output=Path(folder) / "stack.out") as stack:
            rebuild = asyncio.run(measure(stack, Path(folder), deployments, tenants))
    if failures := list(find_failures(rebuild)):
        console.print("\n".join(failures))
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
