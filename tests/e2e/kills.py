"""SIGKILLs in the steps of a tenant's move: which are still to be sent, and whoever asks for something meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import product
from typing import Protocol

from chaos.sync_starts import SyncStarts
from devstack.harness.hosted import HostedStack
from devstack.harness.owners import agent_of, await_shares
from services.common.errors import Retry
from services.common.kubernetes import APPLICATION, NAMESPACE, Changed, KubeClient, reflect
from tests.e2e.moving import Mover

STEPS = ("reserved", "preparing", "pausing", "releasing", "adopting", "withdrawing")
"""All on the way there."""
WAITING = ("preparing", "pausing", "releasing", "adopting", "withdrawing")
"""Those that wait for somebody."""
SOURCE_AGENT, TARGET_AGENT, PLANNER, WATCHER = "source's agent", "target's agent", "planner", "watcher"
CONNECT, ETCD = "connect", "etcd"
ONE_IN_EACH_STEP = frozenset(
    {
        ("preparing", TARGET_AGENT),
        ("pausing", SOURCE_AGENT),
        ("releasing", PLANNER),
        ("adopting", TARGET_AGENT),
        ("withdrawing", SOURCE_AGENT),
    }
)
"""Kills of a test that takes seconds."""
MOST_MOVES = 10
"""Three are enough if each step is seen."""
STORED_SECONDS = 30.0
"""Until an API server has found its etcd again, which it tries every few seconds."""


class User(Protocol):
    """Asks for something during a move."""

    async def ask(self) -> None:
        """For the next version of what they have."""

    async def until_it_is_there(self) -> None:
        """All that was asked for."""


@dataclass
class Kills:
    """SIGKILLs that are still to be sent: to each process in each step."""

    mover: Mover
    left: set[tuple[str, str]]
    """Steps and roles."""
    _starting: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    async def follow_move(
        self, user: User, victims: Sequence[str], processes: Mapping[str, str], ask_at: Collection[str]
    ) -> None:
        """Kill these in each step of the newest move, until it is done and all is there that the user has asked for.

        Args:
            user: asks once, in the first step of ``ask_at`` that is seen.
            victims: roles.
            processes: names by role.
            ask_at: steps.
        """
        is_asked, step = False, ""
        async for step in self.mover.steps():
            await self.kill(victims, processes)
            if not is_asked and step in ask_at:
                await user.ask()
                is_asked = True
        await self.until_all_are_ready()
        assert step == "done"
        await user.until_it_is_there()

    async def kill(self, victims: Sequence[str], processes: Mapping[str, str]) -> None:
        """Kill these in the step that the move is at, if that was not done; they start again while it goes on.

        The planner is stopped for the moment that this takes, so that the step is not over before.
        """
        stack, planner = self.mover.stack, processes[PLANNER]
        await self._until_ready(planner)
        await asyncio.to_thread(stack.freeze, planner)
        for role in victims:
            await self._until_ready(processes[role])
        step = await self.mover.step()
        due = [role for role in victims if (step, role) in self.left]
        named = [processes[role] for role in due]
        for process in named:
            await asyncio.to_thread(stack.kill, process)
        if await self.mover.step() == step:
            self.left -= set(product((step,), due))
        for process in named:
            self._starting[process] = asyncio.create_task(asyncio.to_thread(stack.start, process))
        if planner not in named:
            await asyncio.to_thread(stack.thaw, planner)

    async def kill_server(self, server: str) -> None:
        """Kill one that everybody needs in the step that the move is at, and start it again.

        The planner is stopped meanwhile, so that the step is not over before.
        """
        stack = self.mover.stack
        await asyncio.to_thread(stack.freeze, PLANNER)
        try:
            step = await self.mover.step()
            if (step, server) not in self.left:
                return
            await asyncio.to_thread(stack.kill, server)
            await asyncio.to_thread(stack.start, server)
            if server == ETCD:
                await self._until_stored()
            if await self.mover.step() == step:
                self.left.remove((step, server))
        finally:
            await asyncio.to_thread(stack.thaw, PLANNER)

    async def _until_stored(self) -> None:
        tenant = self.mover.tenant
        async with asyncio.timeout(STORED_SECONDS):
            while True:
                with suppress(Retry):
                    await tenant.kube.get_object(NAMESPACE, None, tenant.namespace)
                    return
                await asyncio.sleep(0.1)

    async def until_all_are_ready(self) -> None:
        """Wait for whatever was killed."""
        for process in list(self._starting):
            await self._until_ready(process)

    async def _until_ready(self, process: str) -> None:
        if process in self._starting:
            await self._starting.pop(process)


def steps_from(number: int) -> tuple[str, ...]:
    """Those at which a user may ask in the move of this number: one after another is the first of them."""
    return (*WAITING[number % len(WAITING) :], "done")


async def agents_of(stack: HostedStack, source: str, target: str) -> dict[str, str]:
    """Names of processes by role, for a move from one engine namespace of the first cluster to another."""
    return {SOURCE_AGENT: await agent_at(stack, source), TARGET_AGENT: await agent_at(stack, target)}


async def agent_at(stack: HostedStack, place: str) -> str:
    """Name of the agent that has this engine namespace of the first cluster, once each agent has a share."""
    await asyncio.to_thread(await_shares, stack, "agent")
    return await asyncio.to_thread(agent_of, stack, place)


@asynccontextmanager
async def starts_seen(*engine_clusters: KubeClient) -> AsyncIterator[SyncStarts]:
    """Every start of a sync run on any Application while the block runs."""
    starts = SyncStarts()

    async def follow(kube: KubeClient) -> None:
        async for event in reflect(kube, APPLICATION):
            if isinstance(event, Changed):
                starts.note(event.object)

    following = [asyncio.create_task(follow(kube)) for kube in engine_clusters]
    try:
        yield starts
    finally:
        for each in following:
            each.cancel()
        await asyncio.gather(*following, return_exceptions=True)
