"""From the commit before to this one as k8s/README.md has it, and back, while tenants go on.

Both are of one revision of the database, so that the way back is open; tests/node_upgrade crosses one. A commit that
brings a revision is upgraded to from itself, by another image.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import Mirror
from services.common.kubernetes import KubeClient
from tests.component.k8s.readme import carry_out, commands
from tests.e2e.tenant import Tenant, fresh_tenant
from tests.node.kubectl import Kubectl
from tests.node.load import SERVICES, going_on, our_pods
from tests.node.releases import Release, extract, last_of_same_revision
from tests.node.upgrade import (
    Upgrade,
    apply,
    images,
    require_database_first,
    require_no_gap,
    rolled_out,
    undo,
    upgrade,
)

pytestmark = pytest.mark.short


@pytest.fixture(scope="module")
def before(stacks_folder: Path) -> Release:
    """The release that is upgraded from."""
    commit = last_of_same_revision()
    return Release(extract(commit, stacks_folder), f"before-{commit[:8]}")


@pytest.fixture(scope="module")
async def upgraded(
    before: Release,
    stack: HostedStack,
    *,
    kubectl: Kubectl,
    kube: KubeClient,
    deployments: Mirror,
    applications: Mirror,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Upgrade]:
    """To the next release, by the README's commands."""
    await apply(before, stack, kubectl, tmp_path_factory.mktemp("before"))
    async with fresh_tenant(kube, deployments, applications) as tenant:
        yield await upgrade(stack, kubectl, kube, tenant, tmp_path_factory.mktemp("upgrade"))


def test_upgrade_when_every_command_is_typed_then_nothing_is_lost_and_no_pod_is_missing(
    before: Release, upgraded: Upgrade, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\nupgrade from {before.tag}: {upgraded.load}\n")
    require_no_gap(upgraded)


def test_upgrade_when_it_begins_then_the_database_comes_first(upgraded: Upgrade) -> None:
    require_database_first(upgraded)


async def test_release_when_it_is_undone_then_the_one_before_is_back_and_nothing_is_lost(
    before: Release,
    upgraded: Upgrade,
    tenant: Tenant,
    kube: KubeClient,
    kubectl: Kubectl,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with going_on(tenant, kube) as load:
        undo(kubectl)
        await rolled_out(kubectl)
    with capsys.disabled():
        sys.stdout.write(f"\nrollback to {before.tag}: {load}\n")
    assert images(our_pods(kubectl)) == {before.image}
    assert load.fewest == dict.fromkeys(SERVICES, 2)
    # So that the next upgrade is possible: the undone rollout owns the image.
    carry_out(f"{commands('Upgrading')[-1]} --dry-run=server", upgraded.folder, upgraded.environment, kubectl.program)
