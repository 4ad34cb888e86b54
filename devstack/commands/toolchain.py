"""``gitopsctl toolchain``: the programs of the local stack."""

from __future__ import annotations

import dataclasses
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from devstack.toolchain import install as toolchain
from devstack.toolchain import packages as distribution
from devstack.toolchain.cache import cache_root
from devstack.toolchain.progress_bar import reporter


class For(StrEnum):
    """What takes packages of the distribution."""

    CONTAINERS = "containers"
    NODE = "node"


NEEDS = {For.CONTAINERS: distribution.ENGINE, For.NODE: distribution.NODE}

app = typer.Typer(help="The programs that the local stack runs.", no_args_is_help=True)


@app.command()
def install(
    link: Annotated[Path | None, typer.Option(help="Folder to fill with a link to each component.")] = None,
    argocd: Annotated[bool, typer.Option(help="Argo CD with kustomize and helm, for stacks with --argocd.")] = True,
    argocd_version: Annotated[list[str] | None, typer.Option(help="Another version of it, too.")] = None,
    tls: Annotated[bool, typer.Option("--tls", help="A PostgreSQL with TLS, for stacks with --tls.")] = False,
) -> None:
    """Download and build what is missing, so that 'dev up' need not."""
    console = Console(highlight=False)
    with reporter(console) as report:
        versions = (argocd_version or ()) if argocd else ()
        tools = toolchain.install(report, argocd=argocd, versions=versions, tls=tls)
    console.print(f"installed below {cache_root()}")
    if link is not None:
        link.mkdir(parents=True, exist_ok=True)
        for field in dataclasses.fields(tools):
            if isinstance(target := getattr(tools, field.name), Path):
                (link / field.name).symlink_to(target)


@app.command()
def packages(wanted: Annotated[list[For], typer.Argument(metavar="containers|node…", help="For what.")]) -> None:
    """Install what is missing of the distribution's packages (root, on Debian or Ubuntu)."""
    for each in wanted:
        distribution.install(NEEDS[each])


@app.command()
def lock() -> None:
    """Resolve toolchain/maven.toml into toolchain/maven.lock, for whoever changes a version."""
    from devstack.toolchain.maven_lock import write_lock  # noqa: PLC0415 - pulls in a resolver nothing else needs

    count = write_lock(toolchain.MAVEN_WANTED, toolchain.MAVEN_LOCK)
    Console(highlight=False).print(f"{toolchain.MAVEN_LOCK}: {count} files")
