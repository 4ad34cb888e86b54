"""One running stack with two engine clusters, shared by all tests of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from devstack.harness.hosted import UNHURRIED, WATCHFUL, HostedStack, hosted
from devstack.harness.mirror import Mirror, mirrored
from devstack.stack.second_cluster import KUBECONFIG_VARIABLE
from services.common.kubernetes import APP_PROJECT, APPLICATION, SECRET, KubeClient, connect
from tests.e2e.fixtures import *  # noqa: F403 - pytest takes fixtures from the names of this module
from tests.e2e.held import Held


@pytest.fixture(scope="package")
def stack(stacks_folder: Path) -> Iterator[HostedStack]:
    """The whole product."""
    folder, output = stacks_folder / "engine-clusters", stacks_folder / "engine-clusters.out"
    with hosted(folder, "--engine-clusters", "2", *UNHURRIED, *WATCHFUL, output=output) as running:
        yield running


@pytest.fixture(scope="package")
def first(applications: Mirror, projects: Mirror, engine_secrets: Mirror) -> Held:
    """Of the first cluster, which the workspace is in, too."""
    return Held(applications, projects, engine_secrets)


@pytest.fixture(scope="package")
async def second_kube(stack: HostedStack) -> AsyncIterator[KubeClient]:
    """A client of the second cluster."""
    async with await connect(Path(stack.environment[KUBECONFIG_VARIABLE])) as client:
        yield client


@pytest.fixture(scope="package")
async def second(second_kube: KubeClient) -> AsyncIterator[Held]:
    """Of the second."""
    async with (
        mirrored(second_kube, APPLICATION) as applications,
        mirrored(second_kube, APP_PROJECT) as projects,
        mirrored(second_kube, SECRET) as secrets,
    ):
        yield Held(applications, projects, secrets)
