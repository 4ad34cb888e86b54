"""``python -m bench.failover``: how long changes wait when a process fails and another takes over."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bench.arrivals import Arrivals, watching
from bench.measure import ARRIVAL_SECONDS, Create, spread, through_the_product
from devstack.harness.failures import FAILURES, FROZEN, KILLED, at_work, inflict
from devstack.harness.hosted import HostedStack, hosted
from devstack.harness.owners import await_shares
from services.common.kubernetes import APPLICATION, KubeClient, connect
from services.common.settings import parse_engine_namespaces

EVERY_SECONDS = 0.25
BESIDES = 8
"""Changes that are made after the first that has its effect."""
RESUMED_SECONDS = {"planner": 10.0, "agent": 10.0, "watcher": 15.0}
"""Within which a change that is made after the failure of a process of a service has its effect."""
CALM_SECONDS = 5.0
"""Between two failures: groups settle."""

console = Console(highlight=False)


@dataclass(frozen=True, slots=True)
class Failover:
    """Seconds."""

    resumed: float
    """From the failure until a change that was made since then had its effect."""
    worst: float
    """Of the changes made since then, the longest wait."""
    missing: int


async def fail_over(
    stack: HostedStack, victim: str, failure: str, create: Create, arrivals: Arrivals, tenant: str
) -> Failover:
    """Let ``victim`` fail, make changes until they take effect again, and undo the failure."""
    sent, left = dict[str, float](), BESIDES
    failed_at = time.time()
    undo = await asyncio.to_thread(inflict, stack, victim, failure)
    try:
        while left and time.time() - failed_at < ARRIVAL_SECONDS:
            at = time.time()
            _, awaited = await create(tenant, f"{victim}-{failure}-{int(at * 1000)}")
            sent[awaited] = at
            left -= any(name in arrivals.seen for name in sent)
            await asyncio.sleep(EVERY_SECONDS)
        missing = await arrivals.wait(list(sent), ARRIVAL_SECONDS)
    finally:
        await asyncio.to_thread(undo)
    seen = {name: arrivals.seen[name] for name in sent if name in arrivals.seen}
    waits = [at - sent[name] for name, at in seen.items()]
    return Failover(min(seen.values(), default=0) - failed_at, max(waits, default=0), len(missing))


async def _engine_of(kube: KubeClient, namespaces: list[str], name: str) -> str:
    for namespace in namespaces:
        async for page in kube.list_pages(APPLICATION, namespace):
            if any(item["metadata"]["name"] == name for item in page.items):
                return namespace
    raise RuntimeError(f"no Application {name}")


async def _measure(stack: HostedStack, rounds: int) -> dict[tuple[str, str], list[Failover]]:
    namespaces = list(parse_engine_namespaces(stack.environment["ENGINE_NAMESPACES"]).values())
    found: dict[tuple[str, str], list[Failover]] = {failure: [] for failure in FAILURES}
    async with (
        await connect(Path(stack.environment["KUBECONFIG"])) as kube,
        watching(kube, namespaces) as arrivals,
    ):
        create, [(tenant, _)] = through_the_product(kube), await spread(kube, "failover", 1, 1)
        _, first = await create(tenant, "first")
        await arrivals.wait([first], ARRIVAL_SECONDS)
        engine = await _engine_of(kube, namespaces, first)
        for _ in range(rounds):
            for service, failure in FAILURES:
                await asyncio.to_thread(await_shares, stack, service)
                await asyncio.sleep(CALM_SECONDS)
                victim = await asyncio.to_thread(at_work, stack, service, tenant, engine)
                each = await fail_over(stack, victim, failure, create, arrivals, tenant)
                console.print(f"{victim} {failure}: {each}")
                found[service, failure].append(each)
    return found


def find_slow(found: Mapping[tuple[str, str], Sequence[Failover]]) -> Iterator[str]:
    """What is not as promised, in lines: changes that waited longer than RESUMED_SECONDS, or had no effect."""
    for (service, failure), each in found.items():
        limit = RESUMED_SECONDS[service]
        for one in each:
            if one.missing:
                yield f"{service}, {described(failure)}: {one.missing} changes had no effect"
            elif one.worst > limit:
                yield f"{service}, {described(failure)}: a change waited {one.worst:.1f} s, more than {limit:.0f} s"


def described(failure: str) -> str:
    """What has happened to the process."""
    return failure if failure in {KILLED, FROZEN} else f"cut off from {failure}"


def main(rounds: Annotated[int, typer.Option(help="How often each fails.")] = 1) -> None:
    """Start a stack of its own with two of everything, let each service fail in each way, print a table.

    Exits with 1 if changes take effect again later than after 10 s, or 15 s of a watcher, or not at all.
    """
    with tempfile.TemporaryDirectory(prefix="gitops-bench-") as folder:
        console.print("starting a stack …")
        options = ("--replicas", "2", "--links")
        with hosted(Path(folder) / "stack", *options, output=Path(folder) / "stack.out") as stack:
            found = asyncio.run(_measure(stack, rounds))
    table = Table("process", "failure", "resumed after s", "worst wait s", "missing")
    for (service, failure), each in found.items():
        resumed, worst = (", ".join(f"{getattr(one, name):.1f}" for one in each) for name in ("resumed", "worst"))
        table.add_row(service, described(failure), resumed, worst, str(sum(one.missing for one in each)))
    console.print(table)
    if slow := list(find_slow(found)):
        console.print("\n".join(slow))
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
