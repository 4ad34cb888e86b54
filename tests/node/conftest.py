"""One node with our services as pods, shared by all tests here."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from rich.console import Console

from devstack.harness.hosted import HostedStack
from devstack.toolchain import install as toolchain
from devstack.toolchain.progress_bar import reporter
from services.common.kubernetes import KubeClient, connect
from tests.e2e.conftest import applications, deployments, tenant
from tests.node.kubectl import Kubectl
from tests.node.stacks import stack_with_node

__all__ = ["applications", "deployments", "tenant"]

AT_ONCE = 200
"""Calls that the tests have under way at most: twenty tenants leave at the same time, each with eight."""


@pytest.fixture(scope="package")
def stack(stacks_folder: Path) -> Iterator[HostedStack]:
    """With its node."""
    with stack_with_node(stacks_folder / "node") as running:
        yield running


@pytest.fixture(scope="package")
async def kube(stack: HostedStack) -> AsyncIterator[KubeClient]:
    """A client with an administrator's rights, for many tenants at once."""
    async with await connect(Path(stack.environment["KUBECONFIG"]), connections=AT_ONCE) as client:
        yield client


@pytest.fixture(scope="package")
def kubectl(stack: HostedStack) -> Kubectl:
    """For the node's cluster."""
    with reporter(Console()) as report:
        program = toolchain.kubectl(report) / "kubectl"
    return Kubectl(program, Path(stack.environment["KUBECONFIG"]))
