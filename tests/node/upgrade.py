"""From one release to the next by the commands of k8s/README.md, while tenants go on."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template

from devstack.components.node import TEMPLATES
from devstack.harness.hosted import HostedStack
from devstack.paths import ROOT
from devstack.stack.node_addresses import DNS, INFRASTRUCTURE, NODE
from devstack.toolchain import service_image
from services.common.kubernetes import KubeClient, Manifest
from services.planner.database.requirements import head
from tests.component.k8s.readme import carry_out, commands
from tests.e2e.tenant import Tenant
from tests.node.kubectl import OURS, Kubectl, restarts
from tests.node.load import SERVICES, Load, going_on, our_pods
from tests.node.releases import NEXT, Release, import_release

BEFORE, AFTER = service_image.NAME, NEXT.image
JOB = "database-upgrade"
ROLLOUT_SECONDS = 240


@dataclass(frozen=True)
class Upgrade:
    """What was seen of one."""

    load: Load
    revisions: tuple[str, str]
    """Of the database, before and after."""
    migration: Manifest
    pods: list[Manifest]
    folder: Path
    environment: Mapping[str, str]
    """Where commands are typed, and with what."""


async def upgrade(stack: HostedStack, kubectl: Kubectl, kube: KubeClient, tenant: Tenant, folder: Path) -> Upgrade:
    """To the release of these sources, from whichever the node has; ``folder`` is empty."""
    environment = stack.environment | {"O": str(overlay_of(NEXT, stack, folder))}
    before = revision(folder, environment, kubectl)
    async with going_on(tenant, kube) as load:
        for command in commands("Upgrading"):
            await asyncio.to_thread(carry_out, command, folder, environment, kubectl.program)
        await rolled_out(kubectl)
    migration = kubectl.get("job", f"--namespace={OURS}", JOB)
    revisions = (before, revision(folder, environment, kubectl))
    return Upgrade(load, revisions, migration, our_pods(kubectl), folder, environment)


async def apply(release: Release, stack: HostedStack, kubectl: Kubectl, folder: Path) -> None:
    """Have its pods, on the revision of the database that there is; ``folder`` is empty."""
    environment = stack.environment | {"O": str(overlay_of(release, stack, folder))}
    await asyncio.to_thread(carry_out, commands("Upgrading")[-1], folder, environment, kubectl.program)
    await rolled_out(kubectl)


def require_no_gap(upgraded: Upgrade) -> None:
    """Every pod is of the new release, and never was one missing, or started again."""
    assert images(upgraded.pods) == {AFTER}
    assert upgraded.load.fewest == dict.fromkeys(SERVICES, 2)
    assert {restarts(pod) for pod in upgraded.pods} == {0}


def require_database_first(upgraded: Upgrade) -> None:
    """The new release's Job had ended before there was any pod of it."""
    assert images([upgraded.migration["spec"]["template"]]) == {AFTER}
    migrated = upgraded.migration["status"]["completionTime"]
    assert all(migrated <= pod["metadata"]["creationTimestamp"] for pod in upgraded.pods)
    assert upgraded.revisions[1] == head()


def revision(folder: Path, environment: Mapping[str, str], kubectl: Kubectl) -> str:
    """That the database is of."""
    return carry_out("gitopsctl database current", folder, environment, kubectl.program).strip()


def overlay_of(release: Release, stack: HostedStack, folder: Path) -> Path:
    """A node's with simulated Argo CD, with that release's image, which the node gets; ``folder`` is empty."""
    import_release(release, folder, stack.state.root / "node" / "containerd.sock")
    port = stack.state.recall("ports")["kube-apiserver"]
    values = {
        "API_PORT": port,
        "DNS": DNS,
        "INFRASTRUCTURE": INFRASTRUCTURE,
        "NODE": NODE,
        "SIMULATED": "true",
        "TRANSPORT": "in-clear",
    }
    (folder / "k8s").symlink_to(release.sources / "k8s")
    overlay = shutil.copytree(release.sources / TEMPLATES.relative_to(ROOT) / "overlay", folder / "overlay")
    for file in (path for path in overlay.rglob("*") if path.is_file()):
        file.write_text(Template(file.read_text()).substitute(values))
    named = overlay / "release" / "kustomization.yaml"
    named.write_text(named.read_text().replace(f"newTag: {BEFORE.rpartition(':')[2]}", f"newTag: {release.tag}"))
    return overlay


def undo(kubectl: Kubectl) -> None:
    """As k8s/README.md has it."""
    for name in SERVICES:
        kubectl.run("rollout", "undo", f"--namespace={OURS}", f"deployment/{name}")


async def rolled_out(kubectl: Kubectl, services: Iterable[str] = SERVICES) -> None:
    """Wait until every pod of theirs is of the release that is wanted."""
    limit = f"--timeout={ROLLOUT_SECONDS}s"
    for name in services:
        words = ("rollout", "status", f"--namespace={OURS}", f"deployment/{name}", limit)
        await asyncio.to_thread(kubectl.run, *words, seconds=ROLLOUT_SECONDS + 10)


def images(pods: list[Manifest]) -> set[str]:
    """That their containers are of."""
    return {container["image"] for pod in pods for container in pod["spec"]["containers"]}
