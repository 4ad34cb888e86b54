"""Each process is killed in each step of a tenant's move between real Argo CDs: nothing that was deployed is touched,
its user sees no other status, and what is asked for meanwhile is done once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import chain, product

import pytest

from chaos.sync_starts import SyncStarts
from devstack.components.stack import ENGINE_NAMESPACES
from devstack.harness.hosted import HostedStack
from devstack.harness.owners import agent_of, await_shares
from services.common.kubernetes import APPLICATION, Changed, KubeClient, Manifest, reflect
from tests.argocd.deployed import HEALTHY, Deployed
from tests.argocd.sources import Source, Sources, config_map, service, workload
from tests.argocd.test_moves import DEPLOYED_SECONDS, identities, mover, until_rolled_out, watched
from tests.e2e.api import Api
from tests.e2e.moving import HEALTHY_VIEW, Mover, seen_by_user
from tests.e2e.tenant import Tenant

__all__ = ["mover"]

STEPS = ("preparing", "pausing", "releasing", "adopting", "withdrawing")
"""All that wait for somebody."""
SOURCE_AGENT, TARGET_AGENT, PLANNER, WATCHER = "source's agent", "target's agent", "planner", "watcher"
VICTIMS = ((SOURCE_AGENT,), (TARGET_AGENT,), (PLANNER, WATCHER))
"""Of one move after another, in each of its steps. The watcher has no part in a move."""
MOST_MOVES = 6
"""Three are enough if each step is seen."""


@dataclass
class Kills:
    """SIGKILLs that are still to be sent: to each process in each step."""

    stack: HostedStack
    mover: Mover
    left: set[tuple[str, str]] = field(default_factory=lambda: set(product(STEPS, chain.from_iterable(VICTIMS))))
    _starting: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    def next_victims(self) -> tuple[str, ...]:
        """Whom to kill in the next move."""
        return next(roles for roles in VICTIMS if any((step, role) in self.left for step in STEPS for role in roles))

    async def kill(self, victims: tuple[str, ...], processes: Mapping[str, str]) -> None:
        """Kill these in the step that the move is at; they start again while it goes on.

        The planner is stopped for the moment that this takes, so that the step is not over before.
        """
        planner, named = processes[PLANNER], [processes[role] for role in victims]
        await self._until_ready(planner)
        await asyncio.to_thread(self.stack.freeze, planner)
        for process in named:
            await self._until_ready(process)
        step = await self.mover.step()
        if step not in STEPS:
            await asyncio.to_thread(self.stack.thaw, planner)
            return
        for process in named:
            await asyncio.to_thread(self.stack.kill, process)
        if await self.mover.step() == step:
            self.left -= {(step, role) for role in victims}
        for process in named:
            self._starting[process] = asyncio.create_task(asyncio.to_thread(self.stack.start, process))
        if planner not in named:
            await asyncio.to_thread(self.stack.thaw, planner)

    async def until_all_are_ready(self) -> None:
        """Wait for whatever was killed."""
        for process in list(self._starting):
            await self._until_ready(process)

    async def _until_ready(self, process: str) -> None:
        if process in self._starting:
            await self._starting.pop(process)


@dataclass
class User:
    """Asks for something during each move: a commit to what is automated, a sync run of what is manual."""

    tenant: Tenant
    api: Api
    deployed: Deployed
    automated: Source
    manual: Source
    runs: list[Manifest] = field(default_factory=list)

    async def ask(self) -> None:
        """For the next version of both."""
        version = f"version {len(self.runs)}"
        self.manual.commit(config_map(version, "released"))
        self.automated.commit(config_map(version))
        self.runs.append(await self.api.sync_run(f"run-{len(self.runs)}", "by-hand"))

    async def until_it_is_there(self) -> None:
        """All that was asked for is deployed, and the resources say so."""
        version, run = f"version {len(self.runs) - 1}", self.runs[-1]["metadata"]["name"]
        await self.deployed.until(self.tenant.namespace, version)
        await self.deployed.until(self.tenant.namespace, version, "released")
        await self.api.until_phase(run, "Succeeded")
        head = self.automated.repository.head()
        await self.tenant.until_status("deployed", "automated", sync__revision=head, **HEALTHY)


@asynccontextmanager
async def starts_seen(kube: KubeClient) -> AsyncIterator[SyncStarts]:
    """Every start of a sync run on any Application while the block runs."""
    starts = SyncStarts()

    async def follow() -> None:
        async for event in reflect(kube, APPLICATION):
            if isinstance(event, Changed):
                starts.note(event.object)

    following = asyncio.create_task(follow())
    try:
        yield starts
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def processes_of(stack: HostedStack, source: str) -> dict[str, str]:
    """Names of processes by role, for a move from one engine namespace to the other one."""
    await asyncio.to_thread(await_shares, stack, "agent")
    (target,) = {*ENGINE_NAMESPACES} - {source}
    agents = {SOURCE_AGENT: source, TARGET_AGENT: target}
    found = {role: await asyncio.to_thread(agent_of, stack, place) for role, place in agents.items()}
    return {**found, PLANNER: "planner", WATCHER: "watcher"}


@pytest.mark.timeout(600)
async def test_process_when_killed_in_a_step_of_a_move_then_nothing_is_touched_and_what_is_asked_for_is_done_once(
    stack: HostedStack, tenant: Tenant, api: Api, source: Sources, deployed: Deployed, mover: Mover
) -> None:
    user = User(tenant, api, deployed, source(), source(config_map("never deployed", "released")))
    created = await tenant.create(source=source(config_map("kept", "kept"), workload("app"), service("app")).spec())
    await tenant.create("automated", source=user.automated.spec())
    await tenant.create("by-hand", type="manual", source=user.manual.spec())
    await until_rolled_out(tenant)
    await tenant.until_status("deployed", "automated", timeout_seconds=DEPLOYED_SECONDS, **HEALTHY)
    await tenant.until_status("compared", "by-hand", timeout_seconds=DEPLOYED_SECONDS, sync__status="OutOfSync")
    before, kills = await identities(deployed.kube, tenant.namespace, "kept"), Kills(stack, mover)
    async with (
        watched(deployed.kube, tenant.namespace) as history,
        starts_seen(deployed.kube) as starts,
        seen_by_user(tenant) as views,
        seen_by_user(tenant, "automated") as views_of_automated,
    ):
        while kills.left and len(user.runs) < MOST_MOVES:
            number, (place,) = len(user.runs), mover.places(created)
            processes, victims = await processes_of(stack, place), kills.next_victims()
            target = await mover.order(created)
            async for step in mover.steps():
                await kills.kill(victims, processes)
                if number == len(user.runs) and step in (*STEPS[number % len(STEPS) :], "done"):
                    await user.ask()
            await kills.until_all_are_ready()
            await user.until_it_is_there()
            assert mover.places(created) == {target}
    assert kills.left == set()
    assert await identities(deployed.kube, tenant.namespace, "kept") == before
    assert sorted(history.changed) == sorted([("ConfigMap", "released"), ("ConfigMap", "settings")] * len(user.runs))
    assert (history.deleted, views) == ([], [HEALTHY_VIEW])
    assert {health for _, health in views_of_automated} == {"Healthy"}
    assert [starts.count(run["metadata"]["uid"]) for run in user.runs] == [1] * len(user.runs)
