"""One node with our services as pods, shared by all tests here. It must leave nothing on the machine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from rich.console import Console

from devstack.harness.hosted import HostedStack, hosted
from devstack.harness.mirror import Mirror, mirrored
from devstack.node import network, remains, requirements
from devstack.node.commands import run
from devstack.toolchain import install as toolchain
from devstack.toolchain.progress_bar import reporter
from services.common.errors import StartupError
from services.common.kubernetes import APPLICATION, KubeClient, connect
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from tests.e2e.tenant import Tenant, fresh_tenant
from tests.node.kubectl import Kubectl

OWN = ("gitops-", "kube-proxy", "10.244.", "10.245.", "10.96.")
"""What a node's links, routes and tables of the packet filter have in their names."""


def traces(folder: Path) -> dict[str, object]:
    """What there is on the machine of what a node makes or changes."""
    commands = (("ip", "link"), ("ip", "route"), ("nft", "list", "ruleset"))
    lines = [line for argv in commands for line in run(*argv).splitlines()]
    return {
        "network": [line for line in lines if any(part in line for part in OWN)],
        "settings": network.current_settings(),
        "of pods": remains.found(folder / "node"),
    }


@pytest.fixture(scope="package")
def node(stacks_folder: Path) -> Iterator[HostedStack]:
    """The stack with its node; what is missing for it fails every test with one line."""
    try:
        requirements.require()
    except StartupError as error:
        pytest.fail(str(error), pytrace=False)
    folder = stacks_folder / "node"
    before = traces(folder)
    with hosted(folder, "--pods", output=stacks_folder / "node.out") as running:
        yield running
    assert traces(folder) == before


@pytest.fixture(scope="package")
def kubectl(node: HostedStack) -> Kubectl:
    """For the node's cluster."""
    with reporter(Console()) as report:
        program = toolchain.kubectl(report) / "kubectl"
    return Kubectl(program, Path(node.environment["KUBECONFIG"]))


@pytest.fixture(scope="package")
async def kube(node: HostedStack) -> AsyncIterator[KubeClient]:
    """A client with an administrator's rights."""
    async with await connect(Path(node.environment["KUBECONFIG"])) as client:
        yield client


@pytest.fixture(scope="package")
async def deployments(kube: KubeClient) -> AsyncIterator[Mirror]:
    """Every GitOpsDeployment, live."""
    async with mirrored(kube, GITOPS_DEPLOYMENT) as mirror:
        yield mirror


@pytest.fixture(scope="package")
async def applications(kube: KubeClient) -> AsyncIterator[Mirror]:
    """Every Application, live."""
    async with mirrored(kube, APPLICATION) as mirror:
        yield mirror


@pytest.fixture
async def tenant(kube: KubeClient, deployments: Mirror, applications: Mirror) -> AsyncIterator[Tenant]:
    """A fresh tenant."""
    async with fresh_tenant(kube, deployments, applications) as fresh:
        yield fresh
