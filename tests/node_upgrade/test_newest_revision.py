"""To this release from the one before the newest revision of the database, and back, while tenants go on."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import Mirror
from devstack.harness.operator import initialize_database
from services.common.kubernetes import KubeClient, Manifest
from tests.component.k8s.readme import carry_out, commands
from tests.e2e.tenant import Tenant, fresh_tenant
from tests.node.kubectl import Kubectl, endings, until
from tests.node.load import SERVICES, going_on, our_pods
from tests.node.releases import Release
from tests.node.upgrade import (
    AFTER,
    BEFORE,
    Upgrade,
    apply,
    images,
    require_database_first,
    require_no_gap,
    rolled_out,
    undo,
    upgrade,
)

TWO_OF_EACH = dict.fromkeys(SERVICES, 2)
REFUSED = 2
"""Exit code of a process that does not fit what it finds."""


@dataclass(frozen=True)
class Deployed:
    """A deployment that is there before the upgrade."""

    tenant: Tenant
    created: Manifest
    application: Manifest


@pytest.fixture(scope="module")
async def deployed(kube: KubeClient, deployments: Mirror, applications: Mirror) -> AsyncIterator[Deployed]:
    """By the release from before."""
    async with fresh_tenant(kube, deployments, applications) as tenant:
        created = await tenant.create("from-before")
        yield Deployed(tenant, created, await tenant.application_of(created))


@pytest.fixture(scope="module")
async def upgraded(
    stack: HostedStack,
    kubectl: Kubectl,
    kube: KubeClient,
    deployed: Deployed,
    tmp_path_factory: pytest.TempPathFactory,
) -> Upgrade:
    """To this release, by the README's commands, after what its row of the revision says."""
    await asyncio.to_thread(initialize_database, stack)
    return await upgrade(stack, kubectl, kube, deployed.tenant, tmp_path_factory.mktemp("upgrade"))


def test_upgrade_when_it_crosses_the_newest_revision_then_nothing_is_lost_and_no_pod_is_missing(
    upgraded: Upgrade, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\nupgrade from before the newest revision: {upgraded.load}\n")
    require_no_gap(upgraded)


def test_upgrade_when_it_crosses_the_newest_revision_then_the_database_comes_first(upgraded: Upgrade) -> None:
    require_database_first(upgraded)
    before, after = upgraded.revisions
    assert before < after


@pytest.mark.usefixtures("upgraded")
async def test_deployment_when_it_is_from_before_the_upgrade_then_its_application_stays_and_follows_it(
    deployed: Deployed,
) -> None:
    now = await deployed.tenant.application_of(deployed.created)
    assert now["metadata"]["uid"] == deployed.application["metadata"]["uid"]
    await deployed.tenant.patch("from-before", {"spec": {"source": {"path": "since"}}})
    await deployed.tenant.until_path(deployed.created, "since")


async def test_release_when_it_is_undone_across_the_revision_then_its_planners_stay_until_that_is_undone(
    upgraded: Upgrade, tenant: Tenant, kubectl: Kubectl, capsys: pytest.CaptureFixture[str]
) -> None:
    async with going_on(tenant, tenant.kube) as load:
        undo(kubectl)
        await until("a planner of before has ended", lambda: planner_that_was_refused(kubectl) != "")
        await rolled_out(kubectl, ("watcher", "agent"))
        said = planner_that_was_refused(kubectl)
        undo(kubectl)
        await rolled_out(kubectl)
    with capsys.disabled():
        sys.stdout.write(f"\nundone across the revision, and back: {load}\n")
    before, after = upgraded.revisions
    assert f"database is of revision '{after}', this build needs '{before}'" in said
    assert images(our_pods(kubectl)) == {AFTER}
    assert load.fewest == TWO_OF_EACH


async def test_release_when_one_of_other_code_and_the_same_revision_is_applied_and_this_again_then_nothing_is_lost(
    upgraded: Upgrade,
    first_of_revision: Release,
    stack: HostedStack,
    *,
    tenant: Tenant,
    kubectl: Kubectl,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with going_on(tenant, tenant.kube) as load:
        await apply(first_of_revision, stack, kubectl, tmp_path)
        between = images(our_pods(kubectl))
        # Not undone: the rights are those of the release that was applied last.
        again = commands("Upgrading")[-1]
        await asyncio.to_thread(carry_out, again, upgraded.folder, upgraded.environment, kubectl.program)
        await rolled_out(kubectl)
    with capsys.disabled():
        sys.stdout.write(f"\nback to other code, and forward again: {load}\n")
    assert images(upgraded.pods) == images(our_pods(kubectl)) == {AFTER}
    assert between == {first_of_revision.image}
    assert load.fewest == TWO_OF_EACH


def planner_that_was_refused(kubectl: Kubectl) -> str:
    """What one of the release before said as it ended; nothing if none has ended."""
    of_before = [pod for pod in kubectl.pods_of("planner") if images([pod]) == {BEFORE}]
    ended = [ending for pod in of_before for ending in endings(pod)]
    return next((str(ending.get("message")) for ending in ended if ending["exitCode"] == REFUSED), "")
