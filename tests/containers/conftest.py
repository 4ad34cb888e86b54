"""The images of ``compose/`` in a Docker engine, which ``make containers`` starts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from devstack.paths import COMPOSE

IMAGE = "gitops-service:dev"
READY_SECONDS = 600
PROJECT = "label=com.docker.compose.project=gitops-service"


def docker(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Docker's client; what it prints is in the failure."""
    client = shutil.which("docker") or "/usr/bin/docker"
    outcome = subprocess.run([client, *arguments], capture_output=True, text=True, check=False)
    assert outcome.returncode == 0 or not check, f"docker {' '.join(arguments)}: {outcome.stderr}"
    return outcome


def compose(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """``docker compose`` with the project's file; a profile is an option before the command."""
    return docker("compose", "--file", str(COMPOSE / "compose.yaml"), *arguments, check=check)


def left_over() -> str:
    """Containers, volumes and networks of the project."""
    containers = docker("ps", "--all", "--quiet", "--filter", PROJECT).stdout
    volumes = docker("volume", "ls", "--quiet", "--filter", PROJECT).stdout
    return containers + volumes + docker("network", "ls", "--quiet", "--filter", PROJECT).stdout


@pytest.fixture(scope="session", autouse=True)
def _engine() -> None:
    """There is no point in going on without one."""
    if "DOCKER_HOST" not in os.environ or docker("info", check=False).returncode != 0:
        pytest.exit("no Docker engine answers at DOCKER_HOST: run 'make containers'", returncode=2)


@pytest.fixture(scope="session")
def digest(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of the production image, which is read from the archive that is published: what is tested is what ships."""
    archive = tmp_path_factory.mktemp("image") / "image.tar"
    found = export(archive)
    docker("load", "--input", str(archive))
    return found


@pytest.fixture(scope="session")
def image(digest: str) -> str:
    """The production image."""
    return IMAGE


def export(archive: Path, *options: str) -> str:
    """Build and write the production image; returns its digest."""
    command = [sys.executable, "-m", "services.cli", "containers", "export", str(archive), *options]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout.strip()


@pytest.fixture(scope="session")
def stack_image(image: str) -> str:
    """The image of what our services run beside, built."""
    compose("build", "kafka")
    return image
