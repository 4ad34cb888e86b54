"""``python -m bench.promotions``: how long it takes until a Snapshot is deployed, through the whole system.

With the simulators of Argo CD and of the build service, so that what is measured is ours. A round makes a Snapshot, an
Environment and a PromotionRun to it at the same moment: from then until all GitOpsDeployments of the binding are there,
and until the run has succeeded. At the end an application of many components is promoted once.
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

SMALL, LARGE = "promotions-small", "promotions-large"
"""Namespaces."""
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
    await deployments.until(f"{wanted} GitOpsDeployments", lambda objects: len(objects) == wanted, 120)
    there = time.monotonic() - began
    if await shop.until_complete(name) != SUCCESS:
        raise RuntimeError(f"{name}: {shop.status(name)}")
    return Round(there, time.monotonic() - began)


async def rounds(kube: KubeClient, namespace: str, components: Sequence[str], count: int) -> list[Round]:
    """So many, one after the other; the first one, which warms everything up, is left out if there are more."""
    async with (
        mirrored(kube, GITOPS_DEPLOYMENT, namespace) as deployments,
        opened_shop(kube, namespace, PretendedRepositories(), components) as shop,
    ):
        found = [await promote(shop, deployments, number) for number in range(count)]
    return found[1:] or found


async def measure(stack: HostedStack, count: int, components: int) -> Mapping[str, Sequence[Round]]:
    """By what is promoted."""
    async with await connect(Path(stack.environment["KUBECONFIG"])) as kube:
        await create_namespaces(kube, [SMALL, LARGE])
        small = await rounds(kube, SMALL, COMPONENTS, count + 1)
        large = await rounds(kube, LARGE, [f"component-{number}" for number in range(components)], 1)
    return {f"{len(COMPONENTS)} components": small, f"{components} components": large}


def main(
    count: Annotated[int, typer.Option("--rounds", help="Promotions of an application of two components.")] = 50,
    components: Annotated[int, typer.Option(help="Of the application that is promoted once.")] = 100,
) -> None:
    """Print how long promotions take, until they deploy and until they are complete."""
    with tempfile.TemporaryDirectory(prefix="gitops-bench-") as folder:
        console.print("starting a stack …")
        with hosted(Path(folder) / "stack", output=Path(folder) / "stack.out") as stack:
            found = asyncio.run(measure(stack, count, components))
    table = Table("seconds since the Snapshot", "promotions", "deployments p50", "p99", "complete p50", "p99")
    for name, each in found.items():
        there, complete = [one.deployments for one in each], [one.complete for one in each]
        figures = (percentile(values, share) for values in (there, complete) for share in (0.5, 0.99))
        table.add_row(name, str(len(each)), *(f"{figure:.2f}" for figure in figures))
    console.print(table)


if __name__ == "__main__":
    typer.run(main)
