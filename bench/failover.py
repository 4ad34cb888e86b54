"""``python -m bench.failover``: how long changes wait when a process fails and another takes over."""

from __future__ import annotations

import asyncio
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bench.arrivals import Arrivals, watching
from bench.measure import ARRIVAL_SECONDS, Create, spread, through_the_product
from devstack.harness.failures import FAILURES, FROZEN, at_work, inflict
from devstack.harness.hosted import HostedStack, hosted
from devstack.harness.owners import await_shares
from services.common.kubernetes import APPLICATION, KubeClient, connect
from services.common.settings import parse_engine_namespaces

EVERY_SECONDS = 0.25
BESIDES = 8
"""Changes that are made after the first that has its effect."""
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


def main(rounds: Annotated[int, typer.Option(help="How often each fails.")] = 1) -> None:
    """Start a stack of its own with two of everything, let each service fail in each way, print a table."""
    with tempfile.TemporaryDirectory(prefix="gitops-bench-") as folder:
        console.print("starting a stack …")
        options = ("--replicas", "2", "--links")
        with hosted(Path(folder) / "stack", *options, output=Path(folder) / "stack.out") as stack:
            found = asyncio.run(_measure(stack, rounds))
    table = Table("process", "failure", "resumed after s", "worst wait s", "missing")
    for (service, failure), each in found.items():
        resumed, worst = (", ".join(f"{getattr(one, name):.1f}" for one in each) for name in ("resumed", "worst"))
        how = failure if failure in {"killed", FROZEN} else f"cut off from {failure}"
        table.add_row(service, how, resumed, worst, str(sum(one.missing for one in each)))
    console.print(table)


if __name__ == "__main__":
    typer.run(main)
