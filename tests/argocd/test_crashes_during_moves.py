"""Each process is killed in each step of a tenant's move between real Argo CDs: nothing that was deployed is touched,
its user sees no other status, and what is asked for meanwhile is done once.

So it is, too, when the move is cancelled, and when nobody can reach the instance that the tenant leaves. While
Argo CD itself is killed there, its user may see that nothing is compared.
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
from services.common.kubernetes import Manifest
from tests.argocd.deployed import HEALTHY, SETTLED, Deployed
from tests.argocd.sources import Source, Sources, config_map, endless_hook, service, workload
from tests.argocd.test_health import frozen, until_health
from tests.argocd.test_moves import DEPLOYED_SECONDS, identities, mover, until_rolled_out, watched
from tests.argocd.test_outages import CONTROLLERS, REPO_SERVERS, complete
from tests.e2e.api import Api
from tests.e2e.kills import (
    ETCD,
    MOST_MOVES,
    PLANNER,
    SOURCE_AGENT,
    TARGET_AGENT,
    WAITING,
    WATCHER,
    Kills,
    agents_of,
    starts_seen,
    steps_from,
)
from tests.e2e.moving import Mover
from tests.e2e.status_history import BY_COMMIT, seen_by_user
from tests.e2e.tenant import Tenant
from tests.e2e.unreachable import out_of_reach

__all__ = ["mover"]

VICTIMS = ((SOURCE_AGENT,), (TARGET_AGENT,), (PLANNER, WATCHER))
"""Of one move after another, in each of its steps. The watcher has no part in a move."""
ARGOCD = {"source's controller": CONTROLLERS, "source's repo server": REPO_SERVERS}
"""Of the Argo CD that the tenant leaves: its processes by role, of each engine namespace."""
ON_TARGET = ("adopting", "withdrawing", "done")
"""The source's Argo CD has nothing of the tenant any more."""
API_SERVER = "kube-apiserver"
SERVERS = ("connect", "postgres", "kafka", API_SERVER, ETCD)
"""Killed, and started again, in each step of a move."""
HELD = "held"
"""A deployment whose sync runs until somebody ends it, and the name of that run."""
OUT_OF_REACH_SECONDS = 120.0
"""Until that is told of an instance, and that it is not so any more."""


@dataclass
class User:
    """Asks for something during each move: a commit to what is automated, a sync run of what is manual."""

    tenant: Tenant
    api: Api
    deployed: Deployed
    automated: Source
    manual: Source
    created: Manifest
    """A deployment of which nothing is asked."""
    runs: list[Manifest] = field(default_factory=list)

    async def ask(self) -> None:
        """For the next version of both."""
        self.commit()
        await self.order_sync()

    def commit(self) -> str:
        """The next version, to both, which is returned."""
        version = f"version {len(self.runs)}"
        self.manual.commit(config_map(version, "released"))
        self.automated.commit(config_map(version))
        return version

    async def order_sync(self) -> None:
        """Of what is manual."""
        self.runs.append(await self.api.sync_run(f"run-{len(self.runs)}", "by-hand"))

    async def until_it_is_there(self) -> None:
        """All that was asked for is deployed, and the resources say so."""
        version, run = f"version {len(self.runs) - 1}", self.runs[-1]["metadata"]["name"]
        await self.deployed.until(self.tenant.namespace, version)
        await self.deployed.until(self.tenant.namespace, version, "released")
        await self.api.until_phase(run, "Succeeded")
        head = self.automated.repository.head()
        await self.tenant.until_status("deployed", "automated", sync__revision=head, **HEALTHY)


@pytest.fixture
async def user(tenant: Tenant, api: Api, source: Sources, deployed: Deployed) -> User:
    """All that they have is deployed, but what is manual."""
    automated, manual = source(), source(config_map("never deployed", "released"))
    kept = source(config_map("kept", "kept"), workload("app"), service("app"))
    created = await tenant.create(source=kept.spec())
    await tenant.create("automated", source=automated.spec())
    await tenant.create("by-hand", type="manual", source=manual.spec())
    await until_rolled_out(tenant)
    await tenant.until_status("deployed", "automated", timeout_seconds=DEPLOYED_SECONDS, **SETTLED)
    await tenant.until_status("compared", "by-hand", timeout_seconds=DEPLOYED_SECONDS, sync__status="OutOfSync")
    return User(tenant, api, deployed, automated, manual, created)


@asynccontextmanager
async def untouched(user: User, *others: str) -> AsyncIterator[SyncStarts]:
    """While the block runs what the user asks for is deployed once, and nothing else that is deployed is changed.

    ``others``: config maps that are deployed meanwhile, too. Yields the starts of all sync runs.
    """
    kube, namespace = user.deployed.kube, user.tenant.namespace
    before = await identities(kube, namespace, "kept")
    async with watched(kube, namespace) as history, starts_seen(kube) as starts:
        yield starts
        changed, deleted = await history.changes()
    assert await identities(kube, namespace, "kept") == before
    asked_for = [*("released", "settings") * len(user.runs), *others]
    assert (sorted(changed), deleted) == (sorted(("ConfigMap", name) for name in asked_for), [])
    assert [starts.count(run["metadata"]["uid"]) for run in user.runs] == [1] * len(user.runs)


@asynccontextmanager
async def unnoticed(user: User, *others: str) -> AsyncIterator[SyncStarts]:
    """Likewise, and otherwise nothing happens that a user sees."""
    async with (
        untouched(user, *others) as starts,
        seen_by_user(user.tenant) as seen,
        seen_by_user(user.tenant, "automated") as seen_of_automated,
    ):
        yield starts
        assert (await seen.changes(), await seen_of_automated.changes(BY_COMMIT)) == ([], [])


async def processes_of(stack: HostedStack, source: str) -> dict[str, str]:
    """Names of processes by role, for a move from one engine namespace to the other one."""
    (target,) = {*ENGINE_NAMESPACES} - {source}
    found = await agents_of(stack, source, target)
    number = ENGINE_NAMESPACES.index(source)
    argocd = {role: names[number] for role, names in ARGOCD.items()}
    return {**found, **argocd, PLANNER: "planner", WATCHER: "watcher"}


@pytest.mark.long  # a planner ends in each of these steps in tests/component/planner/test_crashes_during_moves.py
async def test_process_when_killed_in_a_step_of_a_move_then_nothing_is_touched_and_what_is_asked_for_is_done_once(
    stack: HostedStack, user: User, mover: Mover
) -> None:
    kills = Kills(mover, set(product(WAITING, chain.from_iterable(VICTIMS))))
    async with unnoticed(user):
        while kills.left and len(user.runs) < MOST_MOVES:
            (place,) = mover.places(user.created)
            processes, target = await processes_of(stack, place), await mover.order(user.created)
            victims = next(roles for roles in VICTIMS if any(role in roles for _, role in kills.left))
            await kills.follow_move(user, victims, processes, steps_from(len(user.runs)))
            assert mover.places(user.created) == {target}
    assert kills.left == set()


@pytest.mark.long
@pytest.mark.parametrize("server", SERVERS)
async def test_server_when_killed_in_each_step_of_a_move_then_nothing_is_touched_and_what_is_asked_for_is_done_once(
    user: User, mover: Mover, server: str
) -> None:
    kills = Kills(mover, set(product(WAITING, (server,))))
    async with unnoticed(user):
        while kills.left and len(user.runs) < MOST_MOVES:
            number, target = len(user.runs), await mover.order(user.created)
            async for step in mover.steps():
                await kills.kill_server(server)
                # What is not shown before an API server is killed is not shown as a change by the next one; and Argo CD
                # does not try again what it was syncing while nothing could be stored.
                if number == len(user.runs) and (server not in (API_SERVER, ETCD) or step == "done"):
                    await user.ask()
            await user.until_it_is_there()
            assert mover.places(user.created) == {target}
    assert kills.left == set()


@pytest.mark.long
@pytest.mark.parametrize("role", ARGOCD)
async def test_argocd_when_killed_in_each_step_of_a_move_from_it_then_nothing_is_touched_and_what_is_asked_is_done_once(
    stack: HostedStack, user: User, mover: Mover, role: str
) -> None:
    """What it is syncing when it is killed may fail, move or not: what is asked for is the target's to do."""
    kills = Kills(mover, set(product(WAITING, (role,))))
    async with untouched(user):
        while kills.left and len(user.runs) < MOST_MOVES:
            (place,) = mover.places(user.created)
            processes, target = await processes_of(stack, place), await mover.order(user.created)
            await kills.follow_move(user, (role,), processes, ON_TARGET)
            await user.tenant.until_status("compared", timeout_seconds=DEPLOYED_SECONDS, **SETTLED)
            assert mover.places(user.created) == {target}
            await until_health(stack, place, "Healthy", OUT_OF_REACH_SECONDS)  # the next move goes back there
    assert kills.left == set()


async def started_sync(user: User, repository: Source) -> Manifest:
    """A sync run that is under way, and that no move is past `pausing` before somebody has ended it."""
    created = await user.tenant.create(HELD, type="manual", source=repository.spec())
    run = await user.api.sync_run(HELD, HELD)
    await user.tenant.until_operation(created, "Running", "waiting for completion of hook")
    return run


async def cancel_move(user: User, mover: Mover, processes: Mapping[str, str]) -> None:
    """Have a move go back when its target is prepared and its source paused; everybody is killed as it does.

    The target's agent stands still until then, so that the step is not over before.
    """
    everybody = (SOURCE_AGENT, TARGET_AGENT, PLANNER)
    kills = Kills(mover, set(product(("cancelling",), everybody)))
    await mover.order(user.created)
    await mover.until_past("preparing")
    await user.ask()
    await asyncio.to_thread(mover.stack.freeze, processes[TARGET_AGENT])
    cancelled = await mover.typed("cancel-move", user.tenant.namespace)
    assert cancelled.exit_code == 0, cancelled.output
    async for _ in mover.steps():
        await kills.kill(everybody, processes)
    await kills.until_all_are_ready()
    assert (await mover.step(), kills.left) == ("cancelled", set())


async def move_without_source(user: User, mover: Mover, processes: Mapping[str, str]) -> str:
    """Have a move take the path of one whose source nobody can reach, which is back in the end; returns the target.

    The source's agent is killed before it is fenced, the planner as it is, and both as the source is back. The target's
    agent stands still at first, so that the step is not over before. A sync run is ordered once the tenant is there:
    one that was ordered before may have run where nobody sees it, and ends.
    """
    stack, both, (place,) = mover.stack, (SOURCE_AGENT, PLANNER), mover.places(user.created)
    kills = Kills(mover, {("preparing", SOURCE_AGENT), ("adopting", PLANNER), *product(("withdrawing",), both)})
    async with out_of_reach(user.deployed.kube, place):
        await until_health(stack, place, "Down", OUT_OF_REACH_SECONDS)
        async with frozen(stack, processes[TARGET_AGENT]):
            target = await mover.evacuate(user.created)
            await mover.until_past()
            await kills.kill((SOURCE_AGENT,), processes)
            await user.deployed.until(user.tenant.namespace, user.commit())  # else the source would put it back
        await mover.until_past("preparing")
        await kills.kill((PLANNER,), processes)
        await user.order_sync()
        await mover.until_past("preparing", "adopting")
        await user.until_it_is_there()
        assert mover.places(user.created) == {place, target}
    await kills.kill(both, processes)
    await mover.until_done()
    await kills.until_all_are_ready()
    assert kills.left == set()
    return target


@pytest.mark.long
async def test_process_when_killed_as_a_move_goes_back_or_nobody_reaches_its_source_then_nothing_is_touched_either(
    stack: HostedStack, user: User, source: Sources, mover: Mover
) -> None:
    (place,) = mover.places(user.created)
    async with unnoticed(user, HELD) as starts:
        run = await started_sync(user, source(config_map("held", HELD), endless_hook()))
        await cancel_move(user, mover, await processes_of(stack, place))
        assert mover.places(user.created) == {place}
        await complete(user.deployed.kube, user.tenant.namespace)
        await user.api.until_phase(HELD, "Succeeded")
        await user.until_it_is_there()
        target = await move_without_source(user, mover, await processes_of(stack, place))
        assert mover.places(user.created) == {target}
    assert starts.count(run["metadata"]["uid"]) == 1
    await until_health(stack, place, "Healthy", OUT_OF_REACH_SECONDS)
