"""Compose with the simulator, whose way to a deployment is the shortest; with Argo CD: test_readme.py."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import yaml

from devstack.harness.mirror import mirrored
from services.common.kubernetes import APPLICATION, KubeClient, connect
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from tests.containers.conftest import READY_SECONDS, compose, left_over
from tests.e2e.tenant import Tenant, fresh_tenant

pytestmark = pytest.mark.short


@pytest.fixture(scope="module")
def running(stack_image: str) -> Iterator[float]:
    """The whole stack, every service healthy: after so many seconds, its images built.

    No file of variables is named: compose/.env has the simulator play Argo CD.
    """
    began = time.monotonic()
    try:
        begun = compose("up", "--detach", "--wait", "--wait-timeout", str(READY_SECONDS), check=False)
        assert begun.returncode == 0, begun.stderr[-2000:] + compose("logs", "--tail", "15").stdout
        yield time.monotonic() - began
    finally:
        take_down()


def take_down() -> None:
    """With its data."""
    compose("down", "--volumes", "--timeout", "5")


@pytest.fixture
async def kube(running: float, tmp_path: Path) -> AsyncIterator[KubeClient]:
    """The administrator's client, from the outside."""
    kubeconfig = tmp_path / "kubeconfig"
    compose("cp", "kube-controller-manager:/admin/kubeconfig", str(kubeconfig))
    config = yaml.safe_load(kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:6443"
    kubeconfig.write_text(yaml.safe_dump(config))
    async with await connect(kubeconfig) as client:
        yield client


@pytest.fixture
async def user(kube: KubeClient) -> AsyncIterator[Tenant]:
    """A tenant."""
    async with (
        mirrored(kube, GITOPS_DEPLOYMENT) as deployments,
        mirrored(kube, APPLICATION) as applications,
        fresh_tenant(kube, deployments, applications) as made,
    ):
        yield made


async def test_deployment_when_created_then_it_is_synced_and_when_deleted_then_its_application_goes(
    user: Tenant, running: float, capsys: pytest.CaptureFixture[str]
) -> None:
    began = time.monotonic()
    created = await user.create()
    await user.until_status("deployed", sync__status="Synced", health__status="Healthy")
    await user.delete()
    await user.until_application_gone(created)
    with capsys.disabled():
        sys.stdout.write(f"\nready after {running:.0f} s, deployed and gone after {time.monotonic() - began:.1f} s\n")


@pytest.mark.usefixtures("running")
def test_stack_when_it_is_taken_down_then_nothing_of_it_is_left() -> None:
    assert left_over()
    take_down()
    assert left_over() == ""
