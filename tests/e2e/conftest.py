"""Everything together: one running stack, shared by all end-to-end tests, each in a tenant of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from services.cli.dev.hosted import HostedStack, hosted
from services.cli.mirror import Mirror, mirrored
from services.common.kube import APP_PROJECT, APPLICATION, GITOPS_DEPLOYMENT, KubeClient, connect
from tests.e2e.tenant import Tenant, fresh_tenant


@pytest.fixture(scope="package")
def stack(stacks_folder: Path) -> Iterator[HostedStack]:
    """The whole product."""
    with hosted(stacks_folder / "e2e", output=stacks_folder / "e2e.out") as running:
        yield running


@pytest.fixture(scope="package")
async def kube(stack: HostedStack) -> AsyncIterator[KubeClient]:
    """A client with an administrator's rights: the tests' users and intruders."""
    async with await connect(Path(stack.environment["KUBECONFIG"])) as client:
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


@pytest.fixture(scope="package")
async def projects(kube: KubeClient) -> AsyncIterator[Mirror]:
    """Every AppProject, live."""
    async with mirrored(kube, APP_PROJECT) as mirror:
        yield mirror


@pytest.fixture
async def tenant(kube: KubeClient, deployments: Mirror, applications: Mirror) -> AsyncIterator[Tenant]:
    """A fresh tenant."""
    async with fresh_tenant(kube, deployments, applications) as fresh:
        yield fresh


@pytest.fixture
async def other_tenant(kube: KubeClient, deployments: Mirror, applications: Mirror) -> AsyncIterator[Tenant]:
    """Another one, whom nothing that the first does may concern."""
    async with fresh_tenant(kube, deployments, applications) as fresh:
        yield fresh
