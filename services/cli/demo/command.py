"""Runs the demo on a stack of its own and sums it up."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median

import typer
from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table

from services.cli.demo.board import Board
from services.cli.demo.story import Story
from services.cli.dev.hosted import HostedStack, hosted
from services.cli.journey import Journeys, Stage
from services.cli.mirror import mirrored
from services.common.kube import APPLICATION, GITOPS_DEPLOYMENT, connect
from services.common.paths import ROOT

STATE = ROOT / ".local-demo"
REFRESH_PER_SECOND = 10


app = typer.Typer()


@app.callback(invoke_without_command=True)
def demo() -> None:
    """See deployments of three tenants travel through the whole system, live; exit code 0 if all went as it must."""
    console, began = Console(highlight=False), time.monotonic()
    with hosted(STATE, "--fresh") as stack:
        started = time.monotonic()
        board = asyncio.run(_play(stack, console))
        played = time.monotonic()
    console.print(_summary(board))
    console.print(
        f"stack up in {started - began:.1f} s, story {played - started:.1f} s, "
        f"everything ended after {time.monotonic() - played:.1f} s",
        style="bold green",
    )


async def _play(stack: HostedStack, console: Console) -> Board:
    environment, board = stack.environment, Board()
    journeys = Journeys(environment["KAFKA_BOOTSTRAP_SERVERS"], environment["SCHEMA_REGISTRY_URL"], board.note)
    async with AsyncExitStack() as context:
        kube = await context.enter_async_context(await connect(Path(environment["KUBECONFIG"])))
        deployments = await context.enter_async_context(mirrored(kube, GITOPS_DEPLOYMENT))
        applications = await context.enter_async_context(mirrored(kube, APPLICATION))
        journeys.start()
        context.callback(journeys.stop)
        with Live(board, console=console, refresh_per_second=REFRESH_PER_SECOND):
            await Story(kube, deployments, applications, board).play(lambda line: console.print(line, style="bold"))
            await asyncio.sleep(2 / REFRESH_PER_SECOND)  # the last passages reach the table
    return board


def _summary(board: Board) -> Table:
    table = Table("from sending the change to …", "changes", "median ms", "slowest ms", title="Summary", box=box.SIMPLE)
    for stage in (
        Stage.WATCHED,
        Stage.PLANNED,
        Stage.STREAMED,
        Stage.APPLIED,
        Stage.DRIFTED,
        Stage.REMOVED,
        Stage.STATUS,
    ):
        times = [row.reached[stage] for row in board.rows[1:] if stage in row.reached]  # without the warm-up
        if times:
            table.add_row(str(stage), str(len(times)), f"{median(times):.0f}", f"{max(times):.0f}")
    return table
