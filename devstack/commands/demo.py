"""Runs the demo on a stack of its own and sums it up."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from devstack.demo.board import DEPLOYED, SHOWN, Board
from devstack.demo.simulated import SimulatedStory
from devstack.demo.story import SERVICE_ACCOUNT, Story
from devstack.demo.users import Act, Users, play
from devstack.git.site import site_of
from devstack.harness.hosted import HostedStack, hosted
from devstack.harness.journey import Journeys, Stage
from devstack.harness.mirror import mirrored
from devstack.paths import ROOT
from services.common.kubernetes import APPLICATION, CONFIG_MAP, SECRET, connect
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT

STATE = ROOT / ".local-demo"
REFRESH_PER_SECOND = 10
STAGES = (Stage.WATCHED, Stage.PLANNED, Stage.STREAMED, Stage.APPLIED, Stage.STATUS)

app = typer.Typer()


@app.callback(invoke_without_command=True)
def demo(
    *,
    simulator: Annotated[
        bool, typer.Option("--simulator", help="The small one: no Argo CD, but each hop of a change.")
    ] = False,
) -> None:
    """See the deployments of three tenants, from git to their clusters, live; exit code 0 if all went as it must."""
    console, began = Console(highlight=False), time.monotonic()
    board = (
        Board("CR → Application → status", STAGES)
        if simulator
        else Board("git and CR → clusters", (Stage.APPLIED, DEPLOYED, SHOWN))
    )
    with hosted(STATE, "--fresh", *(() if simulator else ("--argocd",))) as stack:
        started = time.monotonic()
        asyncio.run(_play(stack, board, console, simulator=simulator))
        played = time.monotonic()
    console.print(board.summary())
    console.print(
        f"stack up in {started - began:.1f} s, story {played - started:.1f} s, "
        f"everything ended after {time.monotonic() - played:.1f} s",
        style="bold green",
    )


async def _play(stack: HostedStack, board: Board, console: Console, *, simulator: bool) -> None:
    environment = stack.environment
    journeys = Journeys(environment["KAFKA_BOOTSTRAP_SERVERS"], environment["SCHEMA_REGISTRY_URL"], board.note)
    async with AsyncExitStack() as context:
        kube = await context.enter_async_context(await connect(Path(environment["KUBECONFIG"])))
        deployments = await context.enter_async_context(mirrored(kube, GITOPS_DEPLOYMENT))
        applications = await context.enter_async_context(mirrored(kube, APPLICATION))
        users = Users(kube, deployments, applications, board)
        acts = SimulatedStory(users).acts() if simulator else await _real_acts(stack, users, context)
        journeys.start()
        context.callback(journeys.stop)
        with Live(board, console=console, refresh_per_second=REFRESH_PER_SECOND):
            await play(acts, lambda line: console.print(line, style="bold"))
            await asyncio.sleep(2 / REFRESH_PER_SECOND)  # the last passages reach the table


async def _real_acts(stack: HostedStack, users: Users, context: AsyncExitStack) -> tuple[Act, ...]:
    kubeconfig = Path(stack.environment["REMOTE_KUBECONFIG"])
    remote = await context.enter_async_context(await connect(kubeconfig))
    here = await context.enter_async_context(mirrored(users.kube, CONFIG_MAP))
    there = await context.enter_async_context(mirrored(remote, CONFIG_MAP))
    accounts = await context.enter_async_context(mirrored(remote, SERVICE_ACCOUNT))
    environments = await context.enter_async_context(mirrored(users.kube, MANAGED_ENVIRONMENT))
    secrets = await context.enter_async_context(mirrored(users.kube, SECRET))
    story = Story(users, site_of(stack.environment), here, there, accounts, environments, secrets, kubeconfig)
    return story.acts()
