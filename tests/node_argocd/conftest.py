"""One node with our services and Argo CD as pods, shared by all tests here. Nothing of ours travels in clear."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from devstack.git.site import site_of
from devstack.harness.hosted import HostedStack
from devstack.stack.node_addresses import GIT, NODE
from services.common.kubernetes import Manifest
from tests.argocd.sources import Source
from tests.e2e.conftest import applications, deployments, kube, tenant
from tests.node.conftest import kubectl
from tests.node.stacks import stack_with_node

__all__ = ["applications", "deployments", "kube", "kubectl", "tenant"]


@pytest.fixture(scope="package")
def stack(stacks_folder: Path) -> Iterator[HostedStack]:
    """With its node, and real Argo CD on it; encrypted, as ``k8s/`` has it."""
    with stack_with_node(stacks_folder / "node-argocd", "--argocd", "--tls") as running:
        yield running


@pytest.fixture
def source(stack: HostedStack) -> Callable[..., Source]:
    """Makes repositories, with the address that pods have for them."""
    site = site_of(stack.environment)

    def create(*manifests: Manifest) -> Source:
        made = Source.create(site, *manifests)
        return replace(made, https=made.https.replace(site.https_url, f"https://{NODE}:{GIT}"))

    return create
