"""``python -m bench.promotions``: how long it takes until a Snapshot is deployed, through the whole system.

With the simulators of Argo CD and of the build service, so that what is measured is ours. A round makes a Snapshot, an
Environment and a PromotionRun to it at the same moment: from then until all GitOpsDeployments of the binding are there,
and until the run has succeeded. Then the same in a namespace with many Snapshots, where nothing may take much longer,
and at the end an application of many components is promoted once.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bench.report import percentile
from bench.workload import create_namespaces
from devstack.appstudio.gitops_repositories import PretendedRepositories
from devstack.appstudio.shop import COMPONENTS, Shop, opened_shop
from devstack.harness.hosted import HostedStack, hosted
from devstack.harness.mirror import Mirror, mirrored
from services.common.kubernetes import KubeClient, connect
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT

SMALL, CROWDED, LARGE = "promotions-small", "promotions-crowded", "promotions-large"
"""Namespaces."""
MOST_GROWTH, NOISE_SECONDS = 1.5, 0.2
"""Half of all promotions take no more than so many times as long among many Snapshots, and a little."""
AT_ONCE = 50
"""Snapshots that are created side by side."""
PATIENCE_SECONDS = 900
"""After thousands of Snapshots: a tenant's changes are sent at the rate that it has, in their order."""
SUCCESS = "Success"

console = Console(highlight=False)


@dataclass(frozen=True)
class Round:
    """Seconds since the Snapshot was made."""

    deployments: float
    """Until all GitOpsDeployments of the binding were there."""
    complete: float
    """Until the run had succeeded."""


async def promote(shop: Shop, deployments: Mirror, number: int) -> Round:
    """One round. Raises RuntimeError if the run fails."""
    name = f"round-{number}"
    began, before = time.monotonic(), len(deployments.objects)
    await shop.snapshot(name)
    await shop.environment(name)
    await shop.promote(name, name, manualPromotion={"targetEnvironment": name})
    wanted = before + len(shop.components)
    what = f"{wanted} GitOpsDeployments"
    await deployments.until(what, lambda objects: len(objects) == wanted, PATIENCE_SECONDS)
    there = time.monotonic() - began
    if await shop.until_complete(name) != SUCCESS:
        raise RuntimeError(f"{name}: {shop.status(name)}")
    return Round(there, time.monotonic() - began)


async def crowd(shop: Shop, snapshots: int) -> None:
    """Make so many."""
    for first in range(0, snapshots, AT_ONCE):
        async with asyncio.TaskGroup() as group:
            for number in range(first, min(snapshots, first + AT_ONCE)):
                group.create_task(shop.snapshot(f"before-{number}"))


async def rounds(
    kube: KubeClient, namespace: str, components: Sequence[str], count: int, snapshots: int = 0
) -> list[Round]:
    """So many, one after the other, where there are as many ``snapshots``.

    The first one, which warms everything up, is left out if there are more.
    """
    async with (
        mirrored(kube, GITOPS_DEPLOYMENT, namespace) as deployments,
        opened_shop(kube, namespace, PretendedRepositories(), components) as shop,
    ):
        await crowd(shop, snapshots)
        found = [await promote(shop, deployments, number) for number in range(count)]
    return found[1:] or found


async def measure(stack: HostedStack, count: int, components: int, snapshots: int) -> Mapping[str, Sequence[Round]]:
    """By what is promoted."""
    async with await connect(Path(stack.environment["KUBECONFIG"]), connections=AT_ONCE) as kube:
        await create_namespaces(kube, [SMALL, CROWDED, LARGE])
        small = await rounds(kube, SMALL, COMPONENTS, count + 1)
        crowded = await rounds(kube, CROWDED, COMPONENTS, count + 1, snapshots)
        large = await rounds(kube, LARGE, [f"component-{number}" for number in range(components)], 1)
    return {
        f"{len(COMPONENTS)} components": small,
        f"{len(COMPONENTS)} components, {snapshots} Snapshots": crowded,
        f"{components} components": large,
    }


def find_slower(few: Sequence[Round], many: Sequence[Round]) -> list[str]:
    """What takes longer among many Snapshots."""
    compared = {
        "deployments p50": [percentile([one.deployments for one in each], 0.5) for each in (few, many)],
        "complete p50": [percentile([one.complete for one in each], 0.5) for each in (few, many)],
    }
    return [
        f"{name}: {before:.2f} s, and {after:.2f} s among many Snapshots"
        for name, (before, after) in compared.items()
        if after > MOST_GROWTH * before + NOISE_SECONDS
    ]


def main(
    count: Annotated[int, typer.Option("--rounds", help="Promotions of an application of two components.")] = 50,
    components: Annotated[int, typer.Option(help="Of the application that is promoted once.")] = 100,
    snapshots: Annotated[int, typer.Option(help="Of a namespace that is full of them: its quota is 10,000.")] = 9_900,
) -> None:
    """Print how long promotions take, until they deploy and until they are complete.

    Exits with 1 if they take longer where there are many Snapshots.
    """
    with tempfile.TemporaryDirectory(prefix="gitops-bench-") as folder:
        console.print("starting a stack …")
        with hosted(Path(folder) / "stack", output=Path(folder) / "stack.out") as stack:
            found = asyncio.run(measure(stack, count, components, snapshots))
    table = Table("seconds since the Snapshot", "promotions", "deployments p50", "p99", "complete p50", "p99")
    for name, each in found.items():
        there, complete = [one.deployments for one in each], [one.complete for one in each]
        figures = (percentile(values, share) for values in (there, complete) for share in (0.5, 0.99))
        table.add_row(name, str(len(each)), *(f"{figure:.2f}" for figure in figures))
    console.print(table)
    few, many, _ = found.values()
    if slower := find_slower(few, many):
        console.print("\n".join(slower))
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
