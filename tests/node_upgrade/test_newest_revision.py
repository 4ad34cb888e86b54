"""To this release from the one before the newest revision of the database, while tenants go on."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from devstack.harness.hosted import HostedStack
from services.common.kubernetes import KubeClient
from tests.e2e.tenant import Tenant
from tests.node.kubectl import Kubectl, restarts
from tests.node.upgrade import AFTER, images, upgrade


async def test_upgrade_when_it_crosses_the_newest_revision_then_nothing_is_lost_and_what_was_deployed_stays(
    stack: HostedStack,
    kubectl: Kubectl,
    kube: KubeClient,
    tenant: Tenant,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    created = await tenant.create("from-before")
    application = await tenant.application_of(created)
    upgraded = await upgrade(stack, kubectl, kube, tenant, tmp_path)
    with capsys.disabled():
        sys.stdout.write(f"\nupgrade from before the newest revision: {upgraded.load}\n")
    assert images(upgraded.pods) == {AFTER}
    assert {restarts(pod) for pod in upgraded.pods} == {0}
    assert (await tenant.application_of(created))["metadata"]["uid"] == application["metadata"]["uid"]
    await tenant.patch("from-before", {"spec": {"source": {"path": "since"}}})
    await tenant.until_path(created, "since")
