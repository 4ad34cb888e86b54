"""From one release to the next as k8s/README.md has it, and back, while tenants go on."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console

from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import Mirror
from devstack.toolchain import service_image
from devstack.toolchain.progress_bar import reporter
from services.common.kubernetes import KubeClient, Manifest
from tests.component.k8s.readme import carry_out, commands
from tests.e2e.tenant import Tenant, fresh_tenant
from tests.node.kubectl import OURS, Kubectl, restarts
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


@pytest.fixture(scope="module")
async def upgraded(
    stack: HostedStack,
    kubectl: Kubectl,
    kube: KubeClient,
    deployments: Mirror,
    applications: Mirror,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Upgrade]:
    """To the next release, by the README's commands."""
    folder = tmp_path_factory.mktemp("upgrade")
    own = stack.state.root / "node"
    with reporter(Console()) as report:
        archive = service_image.provide_archive(report)
    import_next_release(archive, folder, own / "containerd.sock")
    (folder / "k8s").symlink_to(own / "k8s")
    overlay = shutil.copytree(own / "overlay", folder / "overlay")
    release = overlay / "release" / "kustomization.yaml"
    release.write_text(release.read_text().replace(f"newTag: {BEFORE.rpartition(':')[2]}", f"newTag: {TAG}"))
    environment = stack.environment | {"O": str(overlay)}
    async with fresh_tenant(kube, deployments, applications) as tenant:
        async with going_on(tenant, kube) as load:
            for command in commands("Upgrading"):
                await asyncio.to_thread(carry_out, command, folder, environment, kubectl.program)
            await rolled_out(kubectl)
        migration = kubectl.get("job", f"--namespace={OURS}", JOB)
        yield Upgrade(load, migration, our_pods(kubectl), folder, environment)


async def rolled_out(kubectl: Kubectl) -> None:
    """Wait until every pod is of the release that is wanted."""
    limit = f"--timeout={ROLLOUT_SECONDS}s"
    for name in SERVICES:
        words = ("rollout", "status", f"--namespace={OURS}", f"deployment/{name}", limit)
        await asyncio.to_thread(kubectl.run, *words, seconds=ROLLOUT_SECONDS + 10)


def our_pods(kubectl: Kubectl) -> list[Manifest]:
    return [pod for name in SERVICES for pod in kubectl.pods_of(name)]


def images(pods: list[Manifest]) -> set[str]:
    return {container["image"] for pod in pods for container in pod["spec"]["containers"]}


def test_upgrade_when_every_command_is_typed_then_nothing_is_lost_and_no_pod_is_missing(
    upgraded: Upgrade, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\nupgrade: {upgraded.load}\n")
    assert images(upgraded.pods) == {AFTER}
    assert upgraded.load.fewest == dict.fromkeys(SERVICES, 2)
    assert {restarts(pod) for pod in upgraded.pods} == {0}


def test_upgrade_when_it_begins_then_the_database_comes_first(upgraded: Upgrade) -> None:
    assert images([upgraded.migration["spec"]["template"]]) == {AFTER}
    migrated = upgraded.migration["status"]["completionTime"]
    assert all(migrated <= pod["metadata"]["creationTimestamp"] for pod in upgraded.pods)


async def test_release_when_it_is_undone_then_the_one_before_is_back_and_nothing_is_lost(
    upgraded: Upgrade, tenant: Tenant, kube: KubeClient, kubectl: Kubectl, capsys: pytest.CaptureFixture[str]
) -> None:
    async with going_on(tenant, kube) as load:
        for name in SERVICES:
            kubectl.run("rollout", "undo", f"--namespace={OURS}", f"deployment/{name}")
        await rolled_out(kubectl)
    with capsys.disabled():
        sys.stdout.write(f"\nrollback: {load}\n")
    assert images(our_pods(kubectl)) == {BEFORE}
    assert load.fewest == dict.fromkeys(SERVICES, 2)
    # So that the next upgrade is possible: the undone rollout owns the image.
    carry_out(f"{commands('Upgrading')[-1]} --dry-run=server", upgraded.folder, upgraded.environment, kubectl.program)
