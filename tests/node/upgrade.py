"""From one release to the next by the commands of k8s/README.md, while tenants go on."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template

from rich.console import Console

from devstack.components.node import TEMPLATES
from devstack.harness.hosted import HostedStack
from devstack.paths import ROOT
from devstack.stack.node_addresses import DNS, INFRASTRUCTURE, NODE
from devstack.toolchain import service_image
from devstack.toolchain.progress_bar import reporter
from services.common.kubernetes import KubeClient, Manifest
from tests.component.k8s.readme import carry_out, commands
from tests.e2e.tenant import Tenant
from tests.node.kubectl import OURS, Kubectl
from tests.node.load import SERVICES, Load, going_on
from tests.node.releases import REPOSITORY, TAG, import_next_release

BEFORE, AFTER = service_image.NAME, f"{REPOSITORY}:{TAG}"
JOB = "database-upgrade"
ROLLOUT_SECONDS = 240


@dataclass(frozen=True)
class Upgrade:
    """What was seen of one."""

    load: Load
    migration: Manifest
    pods: list[Manifest]
    folder: Path
    environment: Mapping[str, str]
    """Where commands are typed, and with what."""


async def upgrade(stack: HostedStack, kubectl: Kubectl, kube: KubeClient, tenant: Tenant, folder: Path) -> Upgrade:
    """To the release of these sources, from whichever the node has; ``folder`` is empty."""
    with reporter(Console()) as report:
        archive = service_image.provide_archive(report)
    import_next_release(archive, folder, stack.state.root / "node" / "containerd.sock")
    environment = stack.environment | {"O": str(write_overlay(stack, folder))}
    async with going_on(tenant, kube) as load:
        for command in commands("Upgrading"):
            await asyncio.to_thread(carry_out, command, folder, environment, kubectl.program)
        await rolled_out(kubectl)
    migration = kubectl.get("job", f"--namespace={OURS}", JOB)
    return Upgrade(load, migration, our_pods(kubectl), folder, environment)


def write_overlay(stack: HostedStack, folder: Path) -> Path:
    """As a node with simulated Argo CD has it, with the image of the next release."""
    port = stack.state.recall("ports")["kube-apiserver"]
    values = {"API_PORT": port, "DNS": DNS, "INFRASTRUCTURE": INFRASTRUCTURE, "NODE": NODE, "SIMULATED": "true"}
    (folder / "k8s").symlink_to(ROOT / "k8s")
    overlay = shutil.copytree(TEMPLATES / "overlay", folder / "overlay")
    for file in (path for path in overlay.rglob("*") if path.is_file()):
        file.write_text(Template(file.read_text()).substitute(values))
    release = overlay / "release" / "kustomization.yaml"
    release.write_text(release.read_text().replace(f"newTag: {BEFORE.rpartition(':')[2]}", f"newTag: {TAG}"))
    return overlay


async def rolled_out(kubectl: Kubectl) -> None:
    """Wait until every pod is of the release that is wanted."""
    limit = f"--timeout={ROLLOUT_SECONDS}s"
    for name in SERVICES:
        words = ("rollout", "status", f"--namespace={OURS}", f"deployment/{name}", limit)
        await asyncio.to_thread(kubectl.run, *words, seconds=ROLLOUT_SECONDS + 10)


def our_pods(kubectl: Kubectl) -> list[Manifest]:
    """Of the services that are watched."""
    return [pod for name in SERVICES for pod in kubectl.pods_of(name)]


def images(pods: list[Manifest]) -> set[str]:
    """That their containers are of."""
    return {container["image"] for pod in pods for container in pod["spec"]["containers"]}
