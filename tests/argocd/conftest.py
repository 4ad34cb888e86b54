"""The whole product with real Argo CD: one running stack, shared by all tests, each in a tenant of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from devstack.git.site import GitSite, site_of
from devstack.harness.hosted import UNHURRIED, HostedStack, hosted
from devstack.harness.mirror import mirrored
from services.common.kubernetes import CONFIG_MAP, KubeClient, connect
from tests.argocd.deployed import Deployed
from tests.argocd.sources import Source
from tests.e2e.api import Cluster
from tests.e2e.fixtures import *  # noqa: F403 - pytest takes fixtures from the names of this module

HEARTBEAT_DEADLINE_SECONDS = 15
SOON = (
    *("--set", "HEALTH_INTERVAL_SECONDS=2"),
    *("--set", "HEALTH_REPORT_SECONDS=5"),
    *("--set", f"HEARTBEAT_DEADLINE_SECONDS={HEARTBEAT_DEADLINE_SECONDS}"),
    *("--set", "REMEDIATION=off"),
)
"""So that an Argo CD that does not do its work is found while a test waits, and one that counts as unheard of since the
planner's clock was ahead is soon heard of; and nothing is done but what tests do."""


@pytest.fixture(scope="package")
def stack(stacks_folder: Path) -> Iterator[HostedStack]:
    """The whole product, with Argo CD, git servers and a second cluster."""
    with hosted(
        stacks_folder / "product", "--argocd", "--clocks", *UNHURRIED, *SOON, output=stacks_folder / "product.out"
    ) as running:
        yield running


@pytest.fixture(scope="package")
def site(stack: HostedStack) -> GitSite:
    """The git servers."""
    return site_of(stack.environment)


@pytest.fixture
def source(site: GitSite) -> Callable[..., Source]:
    """Makes repositories."""
    return partial(Source.create, site)


@pytest.fixture(scope="package")
async def deployed(kube: KubeClient) -> AsyncIterator[Deployed]:
    """What is in the cluster of the tenants' own namespaces."""
    async with mirrored(kube, CONFIG_MAP) as mirror:
        yield Deployed(kube, mirror)


@pytest.fixture(scope="package")
async def far(stack: HostedStack) -> AsyncIterator[Deployed]:
    """What is in the other cluster."""
    kubeconfig = Path(stack.environment["REMOTE_KUBECONFIG"])
    async with await connect(kubeconfig) as client, mirrored(client, CONFIG_MAP) as mirror:
        yield Deployed(client, mirror)


@pytest.fixture(scope="package")
def cluster(stack: HostedStack) -> Cluster:
    """The other cluster as a tenant brings it, with its administrator's token."""
    return Cluster.of(Path(stack.environment["REMOTE_KUBECONFIG"]))
