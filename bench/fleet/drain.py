"""What others notice while an engine instance is emptied: their changes, offered at a rate, before and meanwhile."""

from __future__ import annotations

import asyncio
import itertools
import math
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import psycopg
from rich import box
from rich.console import Console
from rich.table import Table

from bench.arrivals import Arrivals, by_path, watching, with_path
from bench.commands import gitopsctl
from bench.fleet.engine_clusters import (
    EngineCluster,
    Watches,
    add_instances,
    engine_clusters,
    open_watches,
    simulator,
)
from bench.measure import ARRIVAL_SECONDS, Create, Result, Timing, fill, spread, through_the_product
from bench.processes import cpu_seconds, resident_mebibytes
from bench.report import figures
from bench.side_process import SideProcess
from bench.workload import FIELD_MANAGER
from devstack.harness.hosted import HostedStack
from services.common.errors import GitOpsError, Retry
from services.common.kubernetes import KubeClient, connect
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT

MOST_TIMES_P99 = 2.0
"""Others' changes may take so many times as long meanwhile."""
MOST_WATCHES = 480_000
"""Of an engine cluster."""
SECONDS_EACH = 5.0
"""That a tenant of the drained instance may take to leave it, with those that move beside it; and a minute for all."""
RESTING_SECONDS = 10.0
"""Of a deployment between two changes: of changes that come faster only the last has to have its effect."""
WARM_UP_SECONDS = 120.0
"""Of changes that nobody measures: while Connect is being compiled a change takes ten times as long, and whatever the
drain does would be within the bound."""
LOOK_SECONDS = 1.0
TOLD_SECONDS = 60.0
"""Between two lines about how far a drain is."""
AGAIN_SECONDS = 1.0
"""After which a change is offered again that the API server did not take."""
HOSTS = "SELECT namespace FROM tenants WHERE engine_instance_id = %s"
LEFT = """
SELECT (SELECT count(*) FROM tenants WHERE engine_instance_id = %(instance)s),
       (SELECT count(*) FROM moves WHERE source = %(instance)s AND step = 'done'),
       (SELECT state = 'drained' FROM engine_instances WHERE id = %(instance)s)
"""
LARGE_INSTANCE = 2_500
"""Tenants: as many as have room on an instance if each has one Application."""
BENCH = "this program"
"""Which offers the changes, and watches every Application."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    workspaces: int
    applications: int
    instances: int
    clusters: int
    """Engine clusters: each instance is in one."""
    rate: float
    """Changes a second."""
    seconds: float
    """That changes are offered before the drain, and at least while it goes on."""
    longest: float | None = None
    """Seconds after which a drain is not waited for; None for one that is."""


@dataclass(frozen=True, slots=True)
class Deployed:
    """A deployment that has its Application."""

    tenant: str
    name: str
    application: str


@dataclass(slots=True)
class Emptied:
    """How far a drain is."""

    tenants: int
    """That were there."""
    moved: int = 0
    left: int = 0
    is_drained: bool = False
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Busy:
    """CPU seconds that a process took each second."""

    before: float
    during: float


@dataclass(frozen=True, slots=True)
class Drain:
    """What was measured."""

    before: Result
    during: Result
    emptied: Emptied
    busy: Mapping[str, Busy]
    """By process."""
    memory: Mapping[str, float]
    """Mebibytes that each agent had at most."""
    watches: Mapping[str, Watches]
    """By engine cluster."""
    is_cut_short: bool = False
    """The drain was not to be waited for to its end."""
    missing: Sequence[str] = field(default=())
    """Applications that were not there when the fleet was filled."""

    @property
    def moves_per_minute(self) -> float:
        """From the order to the last tenant."""
        return self.emptied.moved * 60 / self.emptied.seconds if self.emptied.seconds else 0.0


def measure(stack: HostedStack, sizes: Sizes, console: Console) -> Drain:
    """Fill a fleet, offer changes, drain the last instance, and offer changes of the others' tenants meanwhile.

    Raises RuntimeError if something fails that all of this takes.
    """
    return asyncio.run(_measure(stack, sizes, console))


async def _measure(stack: HostedStack, sizes: Sizes, console: Console) -> Drain:
    clusters = engine_clusters(sizes.clusters, sizes.instances)
    async with AsyncExitStack() as context:
        kubes = [await context.enter_async_context(await connect(each.kubeconfig(stack))) for each in clusters]
        arrivals = Arrivals()
        for kube, cluster in zip(kubes, clusters, strict=True):
            await context.enter_async_context(watching(kube, [*cluster.instances], by_path, arrivals))
        watches_of_own = await open_watches(kubes)
        simulators = [context.enter_context(simulator(stack, each)) for each in clusters if each.added]
        for kube, cluster in zip(kubes, clusters, strict=True):
            await add_instances(stack, kube, cluster)
        users = kubes[0]
        create, made = _noting(through_the_product(users))
        names = await spread(users, "fleet", sizes.workspaces, sizes.applications)
        missing = await fill(create, arrivals, names, console.print)
        drained = clusters[-1].instances[-1]
        there = await asyncio.to_thread(_tenants_on, stack, drained)
        others = [each for each in made if each.tenant not in there]
        _require_enough(others, sizes)
        offering = partial(offer, users, arrivals, others, sizes.rate)
        metered = partial(_metered, stack, simulators)
        console.print(f"{len(there)} tenants on {drained}; changes of the others, which warm up first …")
        await offering("warm-up", _after(WARM_UP_SECONDS))
        before, busy_before = await metered(offering("before", _after(sizes.seconds)))
        console.print(f"draining {drained} …")
        async with _memory_of(stack, [agent for each in clusters for agent in each.agents]) as memory:
            is_long_enough, emptied = _after(sizes.seconds), Emptied(len(there), left=len(there))
            drain = asyncio.create_task(_empty(stack, drained, emptied, sizes.longest, console))
            during, busy_during = await metered(offering("during", lambda: drain.done() and is_long_enough()))
            await drain
        watches = _watches(clusters, watches_of_own, await open_watches(kubes))
        for playing in simulators:
            playing.require_running()
        busy = {name: Busy(cores, busy_during.get(name, 0.0)) for name, cores in busy_before.items()}
        is_cut_short = sizes.longest is not None and not emptied.is_drained
        return Drain(before, during, emptied, busy, memory, watches, is_cut_short, missing)


def _after(seconds: float) -> Callable[[], bool]:
    """Whether so much time has gone by since."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() > end


def _watches(clusters: Sequence[EngineCluster], of_own: Sequence[int], of_all: Sequence[int]) -> dict[str, Watches]:
    return {
        cluster.name: Watches(own, all_, len(cluster.added))
        for cluster, own, all_ in zip(clusters, of_own, of_all, strict=True)
    }


async def offer(
    kube: KubeClient,
    arrivals: Arrivals,
    deployed: Sequence[Deployed],
    rate: float,
    prefix: str,
    is_over: Callable[[], bool],
) -> Result:
    """A change of one deployment after the other, so many a second, whatever becomes of those before.

    Raises RuntimeError if the API server takes one neither at once nor before the deployment's next turn.
    """
    sent: dict[str, Timing] = {}
    patience = min(len(deployed) / rate, ARRIVAL_SECONDS)

    async def change(each: Deployed, number: int) -> None:
        path = f"environments/{prefix}-{number}"
        known_by, at = with_path(each.application, path), time.time()
        patch = {"spec": {"source": {"path": path}}}
        await _until_taken(
            lambda: kube.patch_object(GITOPS_DEPLOYMENT, each.tenant, each.name, patch, field_manager=FIELD_MANAGER),
            patience,
        )
        sent[known_by] = Timing(each.application, at, 0.0)

    began = time.time()
    try:
        async with asyncio.TaskGroup() as writing:
            for number in itertools.count():
                if is_over():
                    break
                writing.create_task(change(deployed[number % len(deployed)], number))
                await asyncio.sleep(max(0.0, began + (number + 1) / rate - time.time()))
    except* GitOpsError as failed:
        raise RuntimeError(f"a change was not taken: {failed.exceptions[0]}") from failed
    seconds = time.time() - began
    missing = await arrivals.wait(list(sent), ARRIVAL_SECONDS)
    timings = [
        Timing(each.uid, each.sent, arrivals.seen[known_by])
        for known_by, each in sent.items()
        if known_by in arrivals.seen
    ]
    return Result(timings, seconds, missing)


async def _until_taken(change: Callable[[], Awaitable[object]], patience: float) -> None:
    """Offer it again, as a user's client does: that is part of how long it takes. Raises Retry after ``patience``."""
    end = time.monotonic() + patience
    while True:
        try:
            await change()
        except Retry:
            if time.monotonic() > end:
                raise
            await asyncio.sleep(AGAIN_SECONDS)
        else:
            return


def _noting(create: Create) -> tuple[Create, list[Deployed]]:
    """The same creations, each known by its path, and what they have made."""
    made: list[Deployed] = []

    async def noted(tenant: str, name: str) -> tuple[str, str]:
        uid, application = await create(tenant, name)
        made.append(Deployed(tenant, name, application))
        return uid, with_path(application, f"environments/{name}")

    return noted, made


async def _metered(
    stack: HostedStack, simulators: Sequence[SideProcess], offering: Awaitable[Result]
) -> tuple[Result, dict[str, float]]:
    """What was offered, and CPU seconds that each process took a second meanwhile."""
    pids = await asyncio.to_thread(stack.pids)
    pids |= {f"simulator {number}": each.pid for number, each in enumerate(simulators, 1)}
    began, of_own, of_others = time.monotonic(), time.process_time(), await asyncio.to_thread(cpu_seconds, pids)
    offered = await offering
    taken = await asyncio.to_thread(cpu_seconds, pids)
    seconds = time.monotonic() - began
    busy = {name: (taken[name] - of_others[name]) / seconds for name in pids}
    return offered, busy | {BENCH: (time.process_time() - of_own) / seconds}


def _tenants_on(stack: HostedStack, instance: str) -> frozenset[str]:
    with psycopg.connect(stack.environment["DATABASE_OWNER_URL"]) as owner:
        return frozenset(namespace for (namespace,) in owner.execute(HOSTS, (instance,)))


def _require_enough(others: Sequence[Deployed], sizes: Sizes) -> None:
    if len(others) < sizes.rate * RESTING_SECONDS:
        raise RuntimeError(
            f"{len(others)} Applications of other instances are too few for {sizes.rate:.0f} changes a second: "
            f"each would be changed again within {RESTING_SECONDS:.0f} s"
        )


async def _empty(stack: HostedStack, instance: str, emptied: Emptied, longest: float | None, console: Console) -> None:
    """By an operator's commands; returns when it is drained, or should have been by now, or after ``longest``."""
    began = told = time.monotonic()
    await asyncio.to_thread(gitopsctl, stack, "engines", "drain", instance)
    console.print((await asyncio.to_thread(gitopsctl, stack, "engines", "rebalance")).strip())
    patience = min(60 + SECONDS_EACH * emptied.tenants, longest or math.inf)
    while not emptied.is_drained and time.monotonic() - began < patience:
        await asyncio.to_thread(_look, stack, instance, emptied)
        if emptied.left:
            emptied.seconds = time.monotonic() - began
        if time.monotonic() - told > TOLD_SECONDS:
            told = time.monotonic()
            console.print(f"{emptied.left} of {emptied.tenants} tenants left after {told - began:.0f} s …")
        await asyncio.sleep(LOOK_SECONDS)


def _look(stack: HostedStack, instance: str, emptied: Emptied) -> None:
    with psycopg.connect(stack.environment["DATABASE_OWNER_URL"]) as owner:
        found = owner.execute(LEFT, {"instance": instance}).fetchone()
    if found is not None:
        emptied.left, emptied.moved, emptied.is_drained = found


@asynccontextmanager
async def _memory_of(stack: HostedStack, agents: Sequence[str]) -> AsyncIterator[dict[str, float]]:
    """The most that each agent has while the block runs; mebibytes."""
    most = dict.fromkeys(agents, 0.0)

    async def sample() -> None:
        while True:
            pids = await asyncio.to_thread(stack.pids)
            resident = await asyncio.to_thread(resident_mebibytes, {agent: pids[agent] for agent in agents})
            most.update({agent: max(most[agent], used) for agent, used in resident.items()})
            await asyncio.sleep(LOOK_SECONDS)

    sampling = asyncio.create_task(sample())
    try:
        yield most
    finally:
        sampling.cancel()


def find_failures(found: Drain) -> Iterator[str]:
    """What did not get done, and bounds that are not kept, in lines."""
    if found.missing:
        yield f"{len(found.missing)} Applications did not appear while the fleet was filled: {found.missing[0]} …"
    for when, changes in (("before", found.before), ("during", found.during)):
        if changes.missing:
            yield f"{when} the drain {len(changes.missing)} changes had no effect: {changes.missing[0]} …"
        elif not changes.timings:
            yield f"{when} the drain no change was made"
    emptied = found.emptied
    if not emptied.is_drained and not found.is_cut_short:
        yield f"{emptied.left} of {emptied.tenants} tenants have not left; {emptied.moved} moves are done"
    yield from _find_exceeded(found)


def _find_exceeded(found: Drain) -> Iterator[str]:
    before, during = figures(found.before).p99, figures(found.during).p99
    if during > MOST_TIMES_P99 * before:
        yield f"p99 of others' changes: {during:.0f} ms during the drain, {before:.0f} ms before"
    for cluster, watches in found.watches.items():
        if watches.of_all > MOST_WATCHES:
            yield f"the API server of {cluster} serves {watches.of_all} watches, more than {MOST_WATCHES}"


def table_of(found: Drain, sizes: Sizes) -> Table:
    """The figures, as the documentation shows them."""
    title = (
        f"{sizes.workspaces:,} tenants with {sizes.applications:,} Applications on {sizes.instances} instances "
        f"in {sizes.clusters} engine clusters, one of which is drained under {sizes.rate:g} changes a second"
    )
    table = Table("measured", "figure", title=title, box=box.MARKDOWN)
    for row in _rows(found):
        table.add_row(*row)
    return table


def _rows(found: Drain) -> Iterator[tuple[str, str]]:
    for when, result in (("before the drain", found.before), ("meanwhile", found.during)):
        told = figures(result)
        yield (
            f"others' changes {when}: p50, p99, worst",
            f"{told.p50:.0f}, {told.p99:.0f}, {told.worst:.0f} ms of {told.count:,}; {told.missing} lost",
        )
    emptied = found.emptied
    yield "tenants that left the instance", f"{emptied.moved:,} of {emptied.tenants:,} in {emptied.seconds:.0f} s"
    yield "moves a minute", f"{found.moves_per_minute:.0f}"
    if found.moves_per_minute:
        yield f"an instance of {LARGE_INSTANCE:,} tenants drained", f"{LARGE_INSTANCE / found.moves_per_minute:.0f} min"
    for agent, used in found.memory.items():
        yield f"{agent}: memory at most", f"{used:.0f} MiB"
    for cluster, watches in found.watches.items():
        yield f"watches of cluster {cluster}", _watches_in_words(watches)


def _watches_in_words(watches: Watches) -> str:
    if watches.each <= 0:
        return f"{watches.of_all:,} of {MOST_WATCHES:,}"
    most = (MOST_WATCHES - watches.of_all) / watches.each + watches.added
    return f"{watches.of_all:,}, {watches.each:.1f} for each instance added: {MOST_WATCHES:,} with {most:,.0f} of them"


def busy_table(found: Drain, rate: float) -> Table:
    """What the processors were busy with."""
    title = f"CPU seconds a second, of {os.cpu_count()} processors, and CPU ms of each change before the drain"
    table = Table("process", "before", "meanwhile", "ms each", title=title, box=box.MARKDOWN)
    total = Busy(sum(each.before for each in found.busy.values()), sum(each.during for each in found.busy.values()))
    busiest = sorted(found.busy.items(), key=lambda named: named[1].before, reverse=True)
    for process, busy in [*busiest, ("all", total)]:
        table.add_row(process, f"{busy.before:.2f}", f"{busy.during:.2f}", f"{busy.before * 1000 / rate:.1f}")
    return table
