"""Runs the demo on a stack of its own and sums it up."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, RenderableType
from rich.live import Live

from devstack.demo import argocds, shop_story
from devstack.demo.argocds import STACK
from devstack.demo.board import DEPLOYED, SHOWN, Board
from devstack.demo.fleet_story import Durations, FleetStory
from devstack.demo.fleet_watch import FleetWatch, watched_fleet
from devstack.demo.shop_story import ShopStory
from devstack.demo.simulated import SimulatedStory
from devstack.demo.story import SERVICE_ACCOUNT, Story
from devstack.demo.users import Act, Users, play
from devstack.git.site import site_of
from devstack.harness.hosted import HostedStack, hosted
from devstack.harness.journey import Journeys, Stage
from devstack.harness.mirror import mirrored
from devstack.paths import ROOT
from devstack.stack.second_cluster import KUBECONFIG_VARIABLE
from services.cli.fleet.fleet_view import screen as fleet_screen
from services.common.kubernetes import APPLICATION, CONFIG_MAP, SECRET, connect
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT

STATE = ROOT / ".local-demo"
REFRESH_PER_SECOND = 10
PLAIN_WIDTH = 120
"""Columns where there is no terminal: the table of the fleet fits in them."""
STAGES = (Stage.WATCHED, Stage.PLANNED, Stage.STREAMED, Stage.APPLIED, Stage.STATUS)

QUIET = "--silent-once-ready"
SETTINGS = argocds.SETTINGS | shop_story.SETTINGS
REAL = ("--argocd", *STACK, *(option for name, value in SETTINGS.items() for option in ("--set", f"{name}={value}")))

app = typer.Typer()


@dataclass(slots=True)
class Screen:
    """What is live on the terminal: the changes of the users, or the fleet."""

    board: Board
    console: Console
    fleet: FleetWatch | None = None

    def say(self, line: str) -> None:
        """A line that stays, above what is live."""
        self.console.print(line, markup=False, soft_wrap=True)

    def __rich__(self) -> RenderableType:
        """As it is now."""
        watch = self.fleet
        return self.board if watch is None else fleet_screen(watch.snapshot)


@app.callback(invoke_without_command=True)
def demo(
    *,
    simulator: Annotated[
        bool, typer.Option("--simulator", help="The small one: no Argo CD, but each hop of a change.")
    ] = False,
) -> None:
    """See the deployments of three tenants, from git to their clusters, live; exit code 0 if all went as it must."""
    width = None if sys.stdout.isatty() else PLAIN_WIDTH
    console, began = Console(highlight=False, width=width), time.monotonic()
    board = (
        Board("CR → Application → status", STAGES)
        if simulator
        else Board("git and CR → clusters", (Stage.APPLIED, DEPLOYED, SHOWN))
    )
    durations = Durations()
    with hosted(STATE, "--fresh", QUIET, *(() if simulator else REAL)) as stack:
        started = time.monotonic()
        asyncio.run(_play(stack, Screen(board, console), durations, simulator=simulator))
        played = time.monotonic()
    console.print(board.summary())
    if not simulator:
        console.print(durations.summary())
    console.print(
        f"stack up in {started - began:.1f} s, story {played - started:.1f} s, "
        f"everything ended after {time.monotonic() - played:.1f} s",
        style="bold green",
    )


async def _play(stack: HostedStack, screen: Screen, durations: Durations, *, simulator: bool) -> None:
    environment, board, console = stack.environment, screen.board, screen.console
    journeys = Journeys(environment["KAFKA_BOOTSTRAP_SERVERS"], environment["SCHEMA_REGISTRY_URL"], board.note)
    async with AsyncExitStack() as context:
        kube = await context.enter_async_context(await connect(Path(environment["KUBECONFIG"])))
        deployments = await context.enter_async_context(mirrored(kube, GITOPS_DEPLOYMENT))
        applications = await context.enter_async_context(mirrored(kube, APPLICATION))
        users = Users(kube, deployments, applications, board)
        acts = SimulatedStory(users).acts() if simulator else await _real_acts(stack, users, screen, durations, context)
        journeys.start()
        context.callback(journeys.stop)
        with Live(screen, console=console, refresh_per_second=REFRESH_PER_SECOND):
            await play(acts, lambda title: console.print(title, style="bold", soft_wrap=True))
            await asyncio.sleep(2 / REFRESH_PER_SECOND)  # the last passages reach the table


async def _real_acts(
    stack: HostedStack, users: Users, screen: Screen, durations: Durations, context: AsyncExitStack
) -> tuple[Act, ...]:
    kubeconfig = Path(stack.environment["REMOTE_KUBECONFIG"])
    remote = await context.enter_async_context(await connect(kubeconfig))
    here = await context.enter_async_context(mirrored(users.kube, CONFIG_MAP))
    there = await context.enter_async_context(mirrored(remote, CONFIG_MAP))
    accounts = await context.enter_async_context(mirrored(remote, SERVICE_ACCOUNT))
    environments = await context.enter_async_context(mirrored(users.kube, MANAGED_ENVIRONMENT))
    north = await context.enter_async_context(await connect(Path(stack.environment[KUBECONFIG_VARIABLE])))
    secrets = tuple([await context.enter_async_context(mirrored(kube, SECRET)) for kube in (users.kube, north)])
    elsewhere = await context.enter_async_context(mirrored(north, APPLICATION))
    story = Story(users, site_of(stack.environment), here, there, accounts, environments, secrets, kubeconfig)
    watch = await context.enter_async_context(watched_fleet(stack.environment, screen.say))
    fleet = FleetStory(stack, story, watch, elsewhere, durations)
    shop = ShopStory(users, story.site, remote, kubeconfig)
    of_the_fleet = (_shown(act, screen, watch) for act in fleet.acts())
    return (fleet.first_act(), *story.acts(), shop.act(), *of_the_fleet, story.ending())


def _shown(act: Act, screen: Screen, watch: FleetWatch) -> Act:
    """An act during which the fleet is on the screen; where nothing moves on it, as it is at the end."""
    title, happens = act

    async def shown() -> None:
        screen.fleet = watch
        await happens()
        screen.fleet = None
        if not screen.console.is_terminal:
            screen.console.print(fleet_screen(watch.snapshot))

    return title, shown
