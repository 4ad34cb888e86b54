"""``python -m bench.backup``: how long a backup takes, and to restore from it, until everything is streamed again.

The database is filled as ``bench.rebuild`` does it, by planners from a log; engines stand still.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Annotated

import psycopg
import typer
from rich.console import Console

from bench.commands import gitopsctl
from bench.rebuild import until_planned, write_list
from devstack.harness.hosted import HostedStack, hosted

EMPTIED = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'gitops_planner';
DROP PUBLICATION gitops_compiled; DROP SCHEMA public CASCADE; CREATE SCHEMA public
"""

console = Console(highlight=False)


def timed(stack: HostedStack, *arguments: str) -> float:
    """Run a command; prints what it said last, and how long it took."""
    began = time.monotonic()
    said = gitopsctl(stack, *arguments).splitlines()[-1]
    seconds = time.monotonic() - began
    console.print(f"gitopsctl {' '.join(arguments[:2])}: {seconds:.1f} s; {said}")
    return seconds


def measure(stack: HostedStack, archives: Path, deployments: int, tenants: int) -> None:
    """Fill the database, back it up, empty it, restore it, and have planners catch up with a newer list."""
    gitopsctl(stack, "connector", "stop")
    write_list(stack, deployments, tenants, time.time_ns() // 1_000_000)
    stack.start("planner")
    until_planned(stack)
    gitopsctl(stack, "connector", "apply")
    gitopsctl(stack, "rebuild", "compare")
    timed(stack, "backup", str(archives))
    stack.kill("planner")
    gitopsctl(stack, "connector", "stop")
    with psycopg.connect(stack.environment["DATABASE_OWNER_URL"], autocommit=True) as owner:
        for statement in EMPTIED.split(";"):
            owner.execute(statement)
    began = time.monotonic()
    timed(stack, "restore", str(archives))
    timed(stack, "rebuild", "start", "--restored")
    stack.start("planner")
    write_list(stack, deployments, tenants, time.time_ns() // 1_000_000)
    timed(stack, "rebuild", "follow")
    timed(stack, "connector", "apply")
    timed(stack, "rebuild", "compare")
    console.print(f"{deployments} of {tenants} tenants: planned and streamed {time.monotonic() - began:.0f} s later")


def main(
    deployments: Annotated[int, typer.Option(help="GitOpsDeployments in the database.")] = 25_000,
    tenants: Annotated[int, typer.Option(help="Tenants they belong to.")] = 10_000,
) -> None:
    """Start a stack of its own, without watcher and agents, and measure."""
    with tempfile.TemporaryDirectory(prefix="gitops-bench-") as folder:
        console.print("starting a stack …")
        with hosted(Path(folder) / "stack", "--infra", output=Path(folder) / "stack.out") as stack:
            measure(stack, Path(folder) / "archives", deployments, tenants)


if __name__ == "__main__":
    typer.run(main)
