"""One running stack in which what is ill is helped within seconds, and a provisioner installs engine instances.

The simulator is their Argo CD. Its own two instances, in ring general, are installed by hand.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from devstack.components.steps import SIMULATOR_RBAC
from devstack.harness.hosted import UNHURRIED, HostedStack, hosted
from devstack.paths import ROOT
from devstack.setup.argocd_requirements import requirements
from services.common.kubernetes import Manifest
from services.common.package_data import RBAC
from services.planner.domain.fleet.pools.pool_rows import namespace_of
from tests.component.agent.worker import Worker
from tests.e2e.fixtures import *  # noqa: F403 - pytest takes fixtures from the names of this module
from tests.e2e.operators import until_seen

PROFILE_LARGE = ROOT / "k8s" / "provisioner" / "large" / "kustomization.yaml"
OLD_VERSION, VERSION = "3.1.16", "3.2.11"
PROVISIONER, SIMULATOR = "services.agent.provisioning", "devstack.argocd_simulator"
CANARIES, EARLY = ([f"default-{ring}-{number}" for number in range(1, 21)] for ring in ("canary", "early"))
"""Ids of the instances that the planner adds, and of some more."""
LARGE = "large"
"""The profile that is shipped, here of the old version."""
PROFILES = {LARGE: [yaml.safe_load(each["patch"]) for each in yaml.safe_load(PROFILE_LARGE.read_text())["patches"]]}
"""Patches by name."""
SETTINGS = {
    "HEARTBEAT_REPOSITORY": "https://git.example.com/heartbeat.git",
    "HEARTBEAT_DEADLINE_SECONDS": "15",
    "HEALTH_INTERVAL_SECONDS": "0.5",
    "HEALTH_REPORT_SECONDS": "1",
    "SHRINK_PATIENCE": "PT5S",
    "REMEDY_AFTER": "PT2S",
    "REMEDY_COOL_DOWN": "PT4S",
    "REPLACE_AFTER": "PT2S",
    "RECOVERED_AFTER": "PT2S",
    "ROLLOUT_INTERVAL": "PT0.5S",
}


@pytest.fixture(scope="package")
def stack(stacks_folder: Path) -> Iterator[HostedStack]:
    """The whole product."""
    given = [option for name, value in SETTINGS.items() for option in ("--set", f"{name}={value}")]
    with hosted(stacks_folder / "growing", *UNHURRIED, *given, output=stacks_folder / "growing.out") as running:
        yield running


@pytest.fixture(scope="package")
async def provisioner(stack: HostedStack, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[None]:
    """And what plays Argo CD in the namespaces that it will make."""
    folder = tmp_path_factory.mktemp("provisioner")
    installations = folder / "installations"
    installations.mkdir()
    for version in (OLD_VERSION, VERSION):
        (installations / f"{version}.yaml").write_text(yaml.safe_dump_all(rendered()))
    for profile, patches in PROFILES.items():
        (installations / f"{OLD_VERSION}-{profile}.yaml").write_text(yaml.safe_dump_all(rendered(patches)))
    given = stack.environment | {"INSTALLATIONS": str(installations), "PROVISIONING_INTERVAL_SECONDS": "2"}
    with ExitStack() as ending:
        worker = Worker(given, folder / "provisioner.log", PROVISIONER)
        ending.callback(worker.stop)
        ending.callback(simulator(stack, folder / "simulator.log", *map(namespace_of, (*CANARIES, *EARLY))).stop)
        await _until_ready(worker)
        yield


async def _until_ready(worker: Worker) -> None:
    async def look() -> tuple[bool, str]:
        return worker.is_ready, worker.log.read_text()[-2000:]

    await until_seen(look, lambda seen: seen[0])


def simulator(stack: HostedStack, log: Path, *namespaces: str) -> Worker:
    """Plays Argo CD in these namespaces, also when they come only later."""
    return Worker(stack.environment | {"ENGINE_NAMESPACES": ",".join(namespaces)}, log, SIMULATOR)


def rendered(patches: Iterable[Manifest] = ()) -> list[Manifest]:
    """An installation without pods: settings, and the rights of agents and of the simulator."""
    roles = [*yaml.safe_load_all((RBAC / "agent.yaml").read_text()), *yaml.safe_load_all(SIMULATOR_RBAC.read_text())]
    changes = {each["metadata"]["name"]: each["data"] for each in patches if each["kind"] == "ConfigMap"}
    settings = [_with_data(each, changes.get(each["metadata"]["name"], {})) for each in requirements()]
    return [*settings, *(each for each in roles if each["kind"] in {"Role", "RoleBinding"})]


def _with_data(manifest: Manifest, data: Manifest) -> Manifest:
    return manifest | {"data": manifest["data"] | data} if data else manifest
