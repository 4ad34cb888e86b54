"""One node with our services as pods, shared by all tests here."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from rich.console import Console

from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import Mirror, mirrored
from devstack.toolchain import install as toolchain
from devstack.toolchain.progress_bar import reporter
from services.common.kubernetes import APPLICATION, KubeClient, connect
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from tests.e2e.tenant import Tenant, fresh_tenant
from tests.node.kubectl import Kubectl
from tests.node.stacks import stack_with_node


@pytest.fixture(scope="package")
def node(stacks_folder: Path) -> Iterator[HostedStack]:
    """The stack with its node."""
    with stack_with_node(stacks_folder / "node") as running:
        yield running


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
