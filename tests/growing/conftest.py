"""One running stack whose engine instances are installed by a provisioner, with the simulator as their Argo CD."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from devstack.components.steps import SIMULATOR_RBAC
from devstack.harness.hosted import UNHURRIED, HostedStack, hosted
from devstack.setup.argocd_requirements import requirements
from services.common.kubernetes import Manifest
from services.common.package_data import RBAC
from tests.component.agent.worker import Worker
from tests.e2e.fixtures import *  # noqa: F403 - pytest takes fixtures from the names of this module

VERSION = "3.2.11"
PROVISIONER, SIMULATOR = "services.agent.provisioning", "devstack.argocd_simulator"
INSTANCES = ("default-canary-1", "default-canary-2")
NAMESPACES = tuple(f"gitops-service-argocd-{name}" for name in INSTANCES)
SETTINGS = {
    "HEARTBEAT_REPOSITORY": "https://git.example.com/heartbeat.git",
    "HEARTBEAT_DEADLINE_SECONDS": "3600",  # the simulator compares an Application once, whoever asks it to again
    "HEALTH_INTERVAL_SECONDS": "0.5",
    "SHRINK_PATIENCE": "PT5S",
}


@pytest.fixture(scope="package")
def stack(stacks_folder: Path) -> Iterator[HostedStack]:
    """The whole product."""
    given = [option for name, value in SETTINGS.items() for option in ("--set", f"{name}={value}")]
    with hosted(stacks_folder / "growing", *UNHURRIED, *given, output=stacks_folder / "growing.out") as running:
        yield running


@pytest.fixture(scope="package")
def provisioner(stack: HostedStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """And what plays Argo CD in the namespaces that it will make."""
    folder = tmp_path_factory.mktemp("provisioner")
    installations = folder / "installations"
    installations.mkdir()
    (installations / f"{VERSION}.yaml").write_text(yaml.safe_dump_all(rendered()))
    given = stack.environment | {"INSTALLATIONS": str(installations), "PROVISIONING_INTERVAL_SECONDS": "2"}
    watched = stack.environment | {"ENGINE_NAMESPACES": ",".join(NAMESPACES)}
    with ExitStack() as ending:
        worker = Worker(given, folder / "provisioner.log", PROVISIONER)
        ending.callback(worker.stop)
        ending.callback(Worker(watched, folder / "simulator.log", SIMULATOR).stop)
        yield worker


def rendered() -> list[Manifest]:
    """An installation without pods: settings, and the rights of agents and of the simulator."""
    roles = [*yaml.safe_load_all((RBAC / "agent.yaml").read_text()), *yaml.safe_load_all(SIMULATOR_RBAC.read_text())]
    return [*requirements(), *(each for each in roles if each["kind"] in {"Role", "RoleBinding"})]
