"""``python -m bench.restart``: what a new change waits while a service starts again beside many resources."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bench.arrivals import Arrivals, watching
from bench.measure import ARRIVAL_SECONDS, Create, Result, Timing, burst, spread, through_the_product
from bench.processes import resident_mebibytes
from bench.report import figures, hops
from devstack.harness.hosted import HostedStack, hosted
from devstack.harness.journey import Journeys, Passage
from services.common.kubernetes import connect
from services.common.settings import parse_engine_namespaces

SERVICES = ("planner", "agent-1", "agent-2", "watcher")
EVERY_SECONDS = 0.25
AFTERWARDS = 40
"""Changes that are made once the service is ready again."""

console = Console(highlight=False)


@dataclass(frozen=True, slots=True)
class Restart:
    """How a restart went; seconds since the new process was started."""

    ready: float
    first_new: float
    """Until a change that was made since then had its effect."""
    changes: Mapping[str, float]
    hops: Mapping[str, Mapping[str, float]]
    memory: Mapping[str, float]
    """Resident mebibytes of each process when the last change had its effect."""


async def restart(
    stack: HostedStack, service: str, create: Create, arrivals: Arrivals, tenant: str, passages: list[Passage]
) -> Restart:
    """Kill ``service`` and start it again, with a change of ``tenant`` every quarter of a second."""
    await asyncio.to_thread(stack.kill, service)
    started, sent = time.time(), dict[str, tuple[str, float]]()
    starting, left = asyncio.create_task(asyncio.to_thread(stack.start, service)), AFTERWARDS
    ready = 0.0
    while left:
        at = time.time()
        uid, awaited = await create(tenant, f"{service}-{len(sent):04d}")
        sent[awaited] = uid, at
        if starting.done():
            ready, left = ready or time.time() - started, left - 1
        await asyncio.sleep(EVERY_SECONDS)
    missing = await arrivals.wait(list(sent), ARRIVAL_SECONDS)
    timings = [Timing(uid, at, arrivals.seen[name]) for name, (uid, at) in sent.items() if name in arrivals.seen]
    first = min(timing.seen for timing in timings) - started
    result = Result(timings, time.time() - started, missing)
    return Restart(ready, first, asdict(figures(result)), hops(result, passages), resident_mebibytes(stack.pids()))


def main(
    resources: Annotated[int, typer.Option(help="GitOpsDeployments that exist.")] = 25_000,
    tenants: Annotated[int, typer.Option(help="Tenants they belong to.")] = 100,
    services: Annotated[list[str], typer.Option("--service", help="Services to restart.")] = list(SERVICES),  # noqa: B006
) -> None:
    """Start a stack of its own, fill it, restart each service, print a table."""
    with tempfile.TemporaryDirectory(prefix="gitops-bench-") as folder:
        console.print("starting a stack …")
        with hosted(Path(folder) / "stack", "--infra", output=Path(folder) / "stack.out") as stack:
            restarts = asyncio.run(_measure(stack, resources, tenants, services))
    table = Table(
        "restart of", "ready after s", "first new change s", "n", "missing", "p50 s", "worst s", "p99 of hops s", "MiB"
    )
    for service, each in restarts.items():
        row: list[Any] = [f"{each.ready:.1f}", f"{each.first_new:.1f}", each.changes["count"], each.changes["missing"]]
        row += [f"{each.changes[name] / 1000:.2f}" for name in ("p50", "worst")]
        row += [", ".join(f"{hop['p99'] / 1000:.2f}" for hop in each.hops.values()), f"{each.memory[service]:.0f}"]
        table.add_row(service, *map(str, row))
    console.print(table)


async def _measure(stack: HostedStack, resources: int, tenants: int, services: list[str]) -> dict[str, Restart]:
    namespaces = list(parse_engine_namespaces(stack.environment["ENGINE_NAMESPACES"]).values())
    async with (
        await connect(Path(stack.environment["KUBECONFIG"])) as kube,
        watching(kube, namespaces) as arrivals,
    ):
        for service in SERVICES:
            await asyncio.to_thread(stack.start, service)
        create = through_the_product(kube)
        console.print(f"creating {resources} GitOpsDeployments of {tenants} tenants …")
        filled = await burst(create, arrivals, await spread(kube, "full", tenants, resources))
        console.print(f"{len(filled.timings)} in {filled.seconds:.0f} s, missing {len(filled.missing)}")
        [(quiet, _)] = await spread(kube, "quiet", 1, 1)
        restarts, passages = {}, list[Passage]()
        journeys = Journeys(
            stack.environment["KAFKA_BOOTSTRAP_SERVERS"], stack.environment["SCHEMA_REGISTRY_URL"], passages.append
        )
        journeys.start()
        try:
            for service in services:
                console.print(f"restarting {service} …")
                restarts[service] = await restart(stack, service, create, arrivals, quiet, passages)
                console.print(restarts[service])
        finally:
            journeys.stop()
        return restarts


if __name__ == "__main__":
    typer.run(main)
