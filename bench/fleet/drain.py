"""What others notice while an engine instance is emptied: their changes, offered at a rate, before and meanwhile."""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from rich.console import Console
from rich.table import Table

from bench.arrivals import Arrivals, by_path, watching, with_path
from bench.commands import gitopsctl
from bench.measure import ARRIVAL_SECONDS, Create, Result, Timing, fill, spread, through_the_product
from bench.processes import resident_mebibytes
from bench.report import figures
from bench.side_process import SideProcess, beside
from bench.workload import FIELD_MANAGER, create_namespaces
from devstack.components.stack import ENGINE_NAMESPACES
from devstack.harness.hosted import HostedStack
from services.common.errors import GitOpsError
from services.common.kubernetes import KubeClient, connect
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT

AGENTS = ("agent-1", "agent-2")
SERVICES = ("planner", *AGENTS, "watcher")
MOST_TIMES_P99 = 2.0
"""Others' changes may take so many times as long meanwhile."""
MOST_WATCHES = 480_000
"""Of an engine cluster."""
SECONDS_EACH = 5.0
"""That a tenant of the drained instance may take to leave it, with those that move beside it; and a minute for all."""
RESTING_SECONDS = 10.0
"""Of a deployment between two changes: of changes that come faster only the last has to have its effect."""
LOOK_SECONDS = 1.0
HOSTS = "SELECT namespace FROM tenants WHERE engine_instance_id = %s"
LEFT = """
SELECT (SELECT count(*) FROM tenants WHERE engine_instance_id = %(instance)s),
       (SELECT count(*) FROM moves WHERE source = %(instance)s AND step = 'done'),
       (SELECT state = 'drained' FROM engine_instances WHERE id = %(instance)s)
"""
WATCHES = re.compile(r'^apiserver_longrunning_requests\{[^}]*verb="WATCH"[^}]*\} (\d+)', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    workspaces: int
    applications: int
    instances: int
    rate: float
    """Changes a second."""
    seconds: float
    """That changes are offered before the drain, and at least while it goes on."""


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
class Drain:
    """What was measured."""

    before: Result
    during: Result
    emptied: Emptied
    memory: Mapping[str, float]
    """Mebibytes that each agent had at most."""
    watches: int
    """That the API server of the engine cluster served."""
    missing: Sequence[str] = field(default=())
    """Applications that were not there when the fleet was filled."""

    @property
    def moves_per_minute(self) -> float:
        """From the order to the last tenant."""
        return self.emptied.moved * 60 / self.emptied.seconds if self.emptied.seconds else 0.0


def engine_namespaces(count: int) -> list[str]:
    """The stack's own, and so many more that it makes ``count``."""
    return [*ENGINE_NAMESPACES, *(f"bench-argocd-{number}" for number in range(len(ENGINE_NAMESPACES), count))][:count]


def simulator(stack: HostedStack, namespaces: Sequence[str], log: Path) -> AbstractContextManager[SideProcess]:
    """An Argo CD for all of ``namespaces``: the stack's own has no rights in more than two."""
    given = {"ENGINE_NAMESPACES": ",".join(namespaces), "KUBECONFIG": stack.environment["KUBECONFIG"]}
    return beside("devstack.argocd_simulator", given, log)


def watches_in(metrics: str) -> int:
    """Watches that an API server serves, as its metrics tell."""
    return sum(int(count) for count in WATCHES.findall(metrics))


def measure(stack: HostedStack, sizes: Sizes, console: Console) -> Drain:
    """Fill a fleet, offer changes, drain the last instance, and offer changes of the others' tenants meanwhile.

    Raises RuntimeError if something fails that all of this takes.
    """
    namespaces = engine_namespaces(sizes.instances)
    with simulator(stack, namespaces, stack.state.root / "bench-simulator.log") as playing:
        found = asyncio.run(_measure(stack, sizes, namespaces, console))
        playing.require_running()
        return found


async def _measure(stack: HostedStack, sizes: Sizes, namespaces: Sequence[str], console: Console) -> Drain:
    async with (
        await connect(Path(stack.environment["KUBECONFIG"])) as kube,
        watching(kube, [*namespaces], by_path) as arrivals,
    ):
        await _add_instances(stack, kube, namespaces)
        create, made = _noting(through_the_product(kube))
        names = await spread(kube, "fleet", sizes.workspaces, sizes.applications)
        missing = await fill(create, arrivals, names, console.print)
        drained = namespaces[-1]
        there = await asyncio.to_thread(_tenants_on, stack, drained)
        others = [each for each in made if each.tenant not in there]
        _require_enough(others, sizes)
        console.print(f"{len(there)} tenants on {drained}; changes of the others for {sizes.seconds:.0f} s …")
        calm_until = time.monotonic() + sizes.seconds
        before = await offer(kube, arrivals, others, sizes.rate, "before", lambda: time.monotonic() > calm_until)
        console.print(f"draining {drained} …")
        emptying = Emptied(len(there), left=len(there))
        async with _memory_of(stack) as memory:
            drain = asyncio.create_task(_empty(stack, drained, emptying))
            busy_until = time.monotonic() + sizes.seconds
            during = await offer(
                kube, arrivals, others, sizes.rate, "during", lambda: drain.done() and time.monotonic() > busy_until
            )
            await drain
        return Drain(before, during, emptying, memory, await open_watches(kube), missing)


async def offer(
    kube: KubeClient,
    arrivals: Arrivals,
    deployed: Sequence[Deployed],
    rate: float,
    prefix: str,
    is_over: Callable[[], bool],
) -> Result:
    """A change of one deployment after the other, so many a second, whatever becomes of those before.

    Raises RuntimeError if the API server does not take one.
    """
    sent: dict[str, Timing] = {}

    async def change(each: Deployed, number: int) -> None:
        path = f"environments/{prefix}-{number}"
        known_by, at = with_path(each.application, path), time.time()
        patch = {"spec": {"source": {"path": path}}}
        await kube.patch_object(GITOPS_DEPLOYMENT, each.tenant, each.name, patch, field_manager=FIELD_MANAGER)
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


async def open_watches(kube: KubeClient) -> int:
    """Watches that the API server serves now."""
    token = (await kube.configuration.auth_settings()).get("BearerToken")
    headers = {"Authorization": token["value"] or ""} if token else {}
    async with kube.calls.get(f"{kube.configuration.host}/metrics", headers=headers) as answer:
        answer.raise_for_status()
        return watches_in(await answer.text())


async def _add_instances(stack: HostedStack, kube: KubeClient, namespaces: Sequence[str]) -> None:
    """Their namespaces, with agents' rights there; our services; and the instances that the stack does not know."""
    await create_namespaces(kube, list(namespaces))
    await asyncio.to_thread(gitopsctl, stack, "rbac", "apply", "--namespaces", ",".join(namespaces))
    for service in SERVICES:
        await asyncio.to_thread(stack.start, service)
    for name in namespaces:
        if name not in ENGINE_NAMESPACES:
            await asyncio.to_thread(gitopsctl, stack, "engines", "add", name)


def _noting(create: Create) -> tuple[Create, list[Deployed]]:
    """The same creations, each known by its path, and what they have made."""
    made: list[Deployed] = []

    async def noted(tenant: str, name: str) -> tuple[str, str]:
        uid, application = await create(tenant, name)
        made.append(Deployed(tenant, name, application))
        return uid, with_path(application, f"environments/{name}")

    return noted, made


def _tenants_on(stack: HostedStack, instance: str) -> frozenset[str]:
    with psycopg.connect(stack.environment["DATABASE_OWNER_URL"]) as owner:
        return frozenset(namespace for (namespace,) in owner.execute(HOSTS, (instance,)))


def _require_enough(others: Sequence[Deployed], sizes: Sizes) -> None:
    if len(others) < sizes.rate * RESTING_SECONDS:
        raise RuntimeError(
            f"{len(others)} Applications of other instances are too few for {sizes.rate:.0f} changes a second: "
            f"each would be changed again within {RESTING_SECONDS:.0f} s"
        )


async def _empty(stack: HostedStack, instance: str, emptied: Emptied) -> None:
    """By an operator's commands; returns when it is drained, or should have been by now."""
    began = time.monotonic()
    await asyncio.to_thread(gitopsctl, stack, "engines", "drain", instance)
    await asyncio.to_thread(gitopsctl, stack, "engines", "rebalance")
    patience = 60 + SECONDS_EACH * emptied.tenants
    while not emptied.is_drained and time.monotonic() - began < patience:
        await asyncio.to_thread(_look, stack, instance, emptied)
        if emptied.left:
            emptied.seconds = time.monotonic() - began
        await asyncio.sleep(LOOK_SECONDS)


def _look(stack: HostedStack, instance: str, emptied: Emptied) -> None:
    with psycopg.connect(stack.environment["DATABASE_OWNER_URL"]) as owner:
        found = owner.execute(LEFT, {"instance": instance}).fetchone()
    if found is not None:
        emptied.left, emptied.moved, emptied.is_drained = found


@asynccontextmanager
async def _memory_of(stack: HostedStack) -> AsyncIterator[dict[str, float]]:
    """The most that each agent has while the block runs; mebibytes."""
    most = dict.fromkeys(AGENTS, 0.0)

    async def sample() -> None:
        while True:
            pids = await asyncio.to_thread(stack.pids)
            resident = await asyncio.to_thread(resident_mebibytes, {agent: pids[agent] for agent in AGENTS})
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
    if not emptied.is_drained:
        yield f"{emptied.left} of {emptied.tenants} tenants have not left; {emptied.moved} moves are done"
    before, during = figures(found.before).p99, figures(found.during).p99
    if during > MOST_TIMES_P99 * before:
        yield f"p99 of others' changes: {during:.0f} ms during the drain, {before:.0f} ms before"
    if found.watches > MOST_WATCHES:
        yield f"the API server serves {found.watches} watches, more than {MOST_WATCHES}"


def tables_of(found: Drain) -> Iterator[Table]:
    """The figures, for people."""
    changes = Table(
        "others' changes", "n", "per s", "missing", "p50 ms", "p99 ms", "worst ms", title="A drain under load"
    )
    for when, result in (("before", found.before), ("during", found.during)):
        told = figures(result)
        times = (f"{each:.0f}" for each in (told.p50, told.p99, told.worst))
        changes.add_row(when, str(told.count), f"{told.per_second:.1f}", str(told.missing), *times)
    yield changes
    rest = Table("besides", "")
    rest.add_row("tenants moved", f"{found.emptied.moved} in {found.emptied.seconds:.0f} s")
    rest.add_row("moves per minute", f"{found.moves_per_minute:.0f}")
    rest.add_row("watches of the API server", f"{found.watches} of {MOST_WATCHES}")
    for agent, used in found.memory.items():
        rest.add_row(f"{agent}, MiB at most", f"{used:.0f}")
    yield rest
