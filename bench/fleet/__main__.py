"""Command line: which part is measured. Exits with 1 if a bound is not kept or something is not done, and says what."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bench.fleet import batches, drain, placement
from devstack.harness.hosted import HostedStack, hosted
from devstack.stack.second_cluster import MOST_ENGINE_CLUSTERS
from services.common.errors import GitOpsError

SIZES = [1, 10, 100, 300]
WAITING = "moves waiting"
WIDTH = 160
"""Columns where there is no terminal, but a file: no cell of a table is broken there."""

console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)


class Part(Enum):
    """What is measured."""

    PLACEMENT = "placement"
    PLANNER = "planner"
    DRAIN = "drain"


@contextmanager
def own_stack(*options: str) -> Iterator[HostedStack]:
    """A stack that ends with the block."""
    with tempfile.TemporaryDirectory(prefix="gitops-bench-") as folder:
        console.print("starting a stack …")
        with hosted(Path(folder) / "stack", *options, output=Path(folder) / "stack.out") as stack:
            yield stack


def measure_placement(workspaces: int, applications: int, instances: int) -> Iterable[str]:
    """Print how even a fleet is; returns the bounds that are not kept."""
    found = placement.measure(workspaces, applications, instances)
    console.print(placement.table_of(found))
    return placement.find_exceeded(found)


def measure_planner(sizes: Sequence[int], tenants_each: int, applications_each: int, times: int) -> Iterable[str]:
    """Print what batches cost; returns those that cost more in a larger fleet, or while many moves wait."""
    with own_stack("--infra") as stack:
        by_size, by_waiting = batches.measure(stack, sizes, tenants_each, applications_each, times)
    console.print(f"for each instance {tenants_each} tenants and {applications_each} Applications")
    console.print(batches.table_of(by_size))
    console.print("in the largest fleet, with as many instances retired, workspaces assigned and tenants pinned")
    console.print(batches.table_of(by_waiting, WAITING))
    return [*batches.find_growing(by_size), *batches.find_growing(by_waiting, WAITING)]


def measure_drain(sizes: drain.Sizes, settings: Sequence[str]) -> Iterable[str]:
    """Print what others notice of a drain; returns what did not get done, and the bounds that are not kept."""
    changed = [option for setting in settings for option in ("--set", setting)]
    with own_stack("--engine-clusters", str(sizes.clusters), *changed) as stack:
        found = drain.measure(stack, sizes, console)
    console.print(drain.table_of(found, sizes))
    console.print(drain.busy_table(found, sizes.rate))
    return drain.find_failures(found)


def main(  # noqa: PLR0913, PLR0917 - one for each option
    part: Annotated[Part, typer.Option(help="What is measured.")],
    workspaces: Annotated[int, typer.Option(help="Tenants, of placement and drain.")] = 10_000,
    applications: Annotated[int, typer.Option(help="Of all of them.")] = 25_000,
    instances: Annotated[int, typer.Option(min=2, help="Likewise.")] = 10,
    clusters: Annotated[
        int, typer.Option(min=1, max=MOST_ENGINE_CLUSTERS, help="Engine clusters with these instances, of a drain.")
    ] = 2,
    rate: Annotated[float, typer.Option(help="Changes a second, of a drain.")] = 50.0,
    seconds: Annotated[float, typer.Option(help="Of changes before a drain, and at least meanwhile.")] = 60.0,
    longest: Annotated[
        float | None, typer.Option(min=1, help="Seconds of a drain that is measured no further than that.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="NAME=VALUE of the services, of a drain, such as MOVES_AT_ONCE=2.")
    ] = None,
    sizes: Annotated[list[int], typer.Option("--size", help="Instances of the fleets of the planner.")] = SIZES,
    tenants_each: Annotated[int, typer.Option(help="Tenants of each of these instances.")] = 40,
    applications_each: Annotated[int, typer.Option(help="Their Applications.")] = 100,
    times: Annotated[int, typer.Option(help="How often each batch is measured.")] = 30,
) -> None:
    """Measure a part of the fleet, and print it as a table."""
    parts: Mapping[Part, Callable[[], Iterable[str]]] = {
        Part.PLACEMENT: lambda: measure_placement(workspaces, applications, instances),
        Part.PLANNER: lambda: measure_planner(sizes, tenants_each, applications_each, times),
        Part.DRAIN: lambda: measure_drain(
            drain.Sizes(workspaces, applications, instances, clusters, rate, seconds, longest), settings or ()
        ),
    }
    try:
        told = list(parts[part]())
    except (GitOpsError, RuntimeError) as error:
        console.print(f"not measured to its end: {error}")
        raise typer.Exit(1) from error
    if told:
        console.print("\n".join(told))
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
