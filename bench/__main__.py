"""``make bench``: sequential latency and a burst, with the API server's own floor measured in the same run."""

from __future__ import annotations

import asyncio
import json
import platform
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from bench.arrivals import Arrivals, watching
from bench.measure import (
    Result,
    beside_a_noisy_tenant,
    burst,
    by_a_bare_client,
    sequential,
    spread,
    through_the_product,
)
from bench.processes import cpu_seconds, resident_mebibytes
from bench.report import as_json, cpu_per_item, hops, print_report
from devstack.harness.hosted import HostedStack, hosted
from devstack.harness.journey import Journeys, Passage
from devstack.paths import ROOT
from services.common.kubernetes import KubeClient, connect
from services.common.settings import parse_engine_namespaces
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT

SERVICES = ("planner", "agent-1", "agent-2", "watcher")
SIMULATOR = "argocd-simulator"
WARM_UP = 20
"""Creations before anything is measured: JIT, caches and connections are not what a busy day looks like."""

REST_SECONDS = 10.0

RESULTS = ROOT / "bench" / "results"

console = Console(highlight=False)


@dataclass(slots=True)
class Run:
    """One run against one stack: what was measured so far."""

    stack: HostedStack
    kube: KubeClient
    arrivals: Arrivals
    simulator: bool
    measurements: dict[str, Any] = field(default_factory=dict)
    hops: dict[str, Any] = field(default_factory=dict)
    cpu: dict[str, Any] = field(default_factory=dict)
    idle: dict[str, float] = field(default_factory=dict)
    """Share of a core that each process takes when nothing is asked of it."""
    passages: list[Passage] = field(default_factory=list)

    async def floor(self, name: str, measure: Callable[..., Any], names: list[tuple[str, str]], namespace: str) -> None:
        """Measure a bare client; the services must not run yet, or they would act on its CRs."""
        result: Result = await measure(by_a_bare_client(self.kube, namespace), self.arrivals, names)
        self.measurements[name] = as_json(result)

    async def rest(self) -> None:
        """Measure what every process takes at rest: polling is not the cost of a deployment."""
        pids = self.stack.pids()
        before = cpu_seconds(pids)
        await asyncio.sleep(REST_SECONDS)
        after = cpu_seconds(pids)
        self.idle = {name: (after[name] - before[name]) / REST_SECONDS for name in before}

    async def product(self, name: str, measure: Callable[..., Any], names: list[tuple[str, str]]) -> None:
        """Measure the product, with the CPU time of every process."""
        pids = self.stack.pids()
        before = cpu_seconds(pids)
        result: Result = await measure(through_the_product(self.kube), self.arrivals, names)
        idle = {process: share * result.seconds for process, share in self.idle.items()}
        self.cpu[name] = cpu_per_item(before, cpu_seconds(pids), idle, len(names))
        self.measurements[name] = as_json(result)
        self.hops[name] = hops(result, self.passages)

    async def noise(self, noisy: int, quiet: int, floor: str | None = None) -> None:
        """Measure a quiet tenant while another creates ``noisy`` CRs; the floor if it is given its namespace."""
        prefix = "" if floor is None else "floor-"
        create = through_the_product(self.kube) if floor is None else by_a_bare_client(self.kube, floor)
        names = await spread(self.kube, f"{prefix}quiet", 1, quiet)
        result = await beside_a_noisy_tenant(self.kube, create, self.arrivals, names, (f"{prefix}noisy", noisy))
        self.measurements[f"{prefix}beside {noisy} creations of another tenant"] = as_json(result)

    async def clear(self, prefix: str) -> None:
        """Delete the CRs of the namespaces that begin with ``prefix``: the services would take them for work."""
        async for page in self.kube.list_pages(GITOPS_DEPLOYMENT):
            found = [item["metadata"] for item in page.items if item["metadata"]["namespace"].startswith(prefix)]
            await asyncio.gather(
                *(self.kube.delete_object(GITOPS_DEPLOYMENT, item["namespace"], item["name"]) for item in found)
            )

    def report(self) -> dict[str, Any]:
        """Everything measured."""
        return {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": platform.platform(),
            "settings": {"flush_to_disk": False, "status_written_by_simulator": self.simulator},
            "measurements": self.measurements,
            "hops": self.hops,
            "cpu_ms_per_deployment": self.cpu,
            "idle_share_of_a_core": self.idle,
            "memory_mebibytes": resident_mebibytes(self.stack.pids()),
        }


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    sequential: int
    burst: int
    tenants: int
    noise: int


def main(  # noqa: PLR0917 - one for each option
    creations: Annotated[int, typer.Option(help="Sequential creations.")] = 200,
    burst_size: Annotated[int, typer.Option("--burst", help="Creations of the burst.")] = 1000,
    tenants: Annotated[int, typer.Option(help="Tenants of the burst.")] = 100,
    noise: Annotated[int, typer.Option(help="Creations of a noisy tenant beside a quiet one.")] = 5000,
    simulator: Annotated[bool, typer.Option(help="Let the simulator write statuses meanwhile.")] = False,
    tls: Annotated[bool, typer.Option(help="Nothing in clear between the components.")] = False,
    output: Annotated[Path, typer.Option(help="Folder of the JSON report.")] = RESULTS,
) -> None:
    """Start a stack of its own, measure, print tables, write JSON."""
    with tempfile.TemporaryDirectory(prefix="gitops-bench-") as folder:
        console.print("starting a stack …")
        options = ("--infra", *(["--tls"] if tls else []))
        with hosted(Path(folder) / "stack", *options, output=Path(folder) / "stack.out") as stack:
            report = asyncio.run(_measure(stack, Sizes(creations, burst_size, tenants, noise), simulator))
    print_report(console, report)
    output.mkdir(parents=True, exist_ok=True)
    path = output / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    path.write_text(json.dumps(report, indent=1))
    console.print(f"written to {path}")
    if any(row["missing"] for row in report["measurements"].values()):
        raise typer.Exit(1)


async def _measure(stack: HostedStack, sizes: Sizes, simulator: bool) -> Mapping[str, Any]:
    namespaces = list(parse_engine_namespaces(stack.environment["ENGINE_NAMESPACES"]).values())
    async with (
        await connect(Path(stack.environment["KUBECONFIG"])) as kube,
        watching(kube, namespaces) as arrivals,
    ):
        run = Run(stack, kube, arrivals, simulator)
        await _floors(run, sizes, namespaces[0])
        for service in (*SERVICES, *((SIMULATOR,) if simulator else ())):
            await asyncio.to_thread(stack.start, service)
        journeys = Journeys(stack.log, stack.log, run.passages.append)
        journeys.start()
        try:
            await _products(run, sizes)
        finally:
            journeys.stop()
        return run.report()


async def _floors(run: Run, sizes: Sizes, namespace: str) -> None:
    console.print("floor: the same API writes by a bare client …")
    await run.floor(
        "floor, sequential", sequential, await spread(run.kube, "floor-seq", 10, sizes.sequential), namespace
    )
    await run.floor("floor, burst", burst, await spread(run.kube, "floor-burst", sizes.tenants, sizes.burst), namespace)
    await run.noise(sizes.noise, sizes.sequential // 2, floor=namespace)
    await run.clear("floor-")


async def _products(run: Run, sizes: Sizes) -> None:
    await sequential(through_the_product(run.kube), run.arrivals, await spread(run.kube, "warm", 10, WARM_UP))
    await run.rest()
    console.print(f"sequential: {sizes.sequential} creations …")
    await run.product("sequential", sequential, await spread(run.kube, "seq", 10, sizes.sequential))
    console.print(f"burst: {sizes.burst} creations over {sizes.tenants} tenants …")
    await run.product("burst", burst, await spread(run.kube, "burst", sizes.tenants, sizes.burst))
    console.print(f"a quiet tenant while another creates {sizes.noise} …")
    await run.noise(sizes.noise, sizes.sequential // 2)


if __name__ == "__main__":
    typer.run(main)
