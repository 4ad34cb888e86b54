"""``gitopsctl containers``: the images of ``compose/`` where there is neither a Docker engine nor a registry."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from devstack.containers import base_images
from devstack.containers.archive import write_archive
from devstack.containers.engine import engine
from devstack.paths import COMPOSE, ROOT
from devstack.toolchain import debian, packages
from devstack.toolchain import install as toolchain
from devstack.toolchain.processes import output_of, run_checked
from devstack.toolchain.progress_bar import reporter

app = typer.Typer(help="Docker on this machine, without a registry.", no_args_is_help=True)

IMAGE = "gitops-service:dev"
"""As compose.yaml calls the production image."""


@app.command(context_settings={"allow_interspersed_args": False})
def run(command: Annotated[list[str], typer.Argument(help="A program and its arguments.")]) -> None:
    """Run COMMAND with a Docker engine of its own, Compose, and images in place of the public ones (root only)."""
    packages.install(packages.ENGINE)
    console = Console(highlight=False)
    with reporter(console) as report:
        tools = toolchain.install(report, argocd=True)
        compose = toolchain.compose(report)
        python = debian.provide_python(report)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gitops-docker-") as config, engine() as address:
        plugins = Path(config) / "cli-plugins"
        plugins.mkdir()
        (plugins / "docker-compose").symlink_to(compose / "docker-compose")
        # What testcontainers would clean up by an image of its own goes with the engine.
        testcontainers = {"TESTCONTAINERS_RYUK_DISABLED": "true", "TESTCONTAINERS_HOST_OVERRIDE": "127.0.0.1"}
        docker = {"DOCKER_HOST": address, "DOCKER_CONFIG": config, **base_images.NAMES, **testcontainers}
        environment = os.environ | docker
        base_images.make(environment, tools, python)
        console.print(f"engine and base images: {time.monotonic() - began:.0f} s")
        code = subprocess.run(command, env=environment, check=False).returncode
    sys.exit(code)


@app.command()
def export(
    target: Annotated[Path, typer.Argument(help="File to write.")],
    fresh: Annotated[bool, typer.Option(help="Use nothing of earlier builds.")] = False,
) -> None:
    """Build the production image, write it to TARGET as an OCI archive, and print its digest."""
    epoch = output_of("git", "-C", str(ROOT), "log", "-1", "--format=%ct").strip()
    environment = os.environ | {"REVISION": revision(ROOT), "VERSION": version("gitops-service")}
    build = ["docker", "compose", "--file", str(COMPOSE / "compose.yaml"), "build"]
    run_checked([*build, *(["--no-cache"] if fresh else []), "watcher"], environment)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(prefix="gitops-image-", suffix=".tar") as saved:
        run_checked(["docker", "save", "--output", saved.name, IMAGE])
        typer.echo(write_archive(Path(saved.name), target, IMAGE, int(epoch)))


def revision(folder: Path) -> str:
    """The commit of a checkout, and whether it is more than that. Raises Unavailable."""
    git = ("git", "-C", str(folder))
    commit = output_of(*git, "rev-parse", "HEAD").strip()
    return f"{commit}-dirty" if output_of(*git, "status", "--porcelain").strip() else commit
