"""Fixtures of tests that share one running stack: what users and operators of it see. Imported by their conftest."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import Mirror, mirrored
from services.common.kubernetes import APP_PROJECT, APPLICATION, SECRET, KubeClient, connect
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from services.kinds.repository_credential.model import REPOSITORY_CREDENTIAL
from services.kinds.sync_run.model import SYNC_RUN
from tests.e2e.api import Api, Cluster, Kinds, fresh_api
from tests.e2e.claims import fresh_class
from tests.e2e.tenant import Tenant, fresh_tenant

__all__ = [
    "api",
    "applications",
    "cluster",
    "deployments",
    "engine_secrets",
    "kinds",
    "kube",
    "other_api",
    "other_tenant",
    "projects",
    "target_class",
    "tenant",
]


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


@pytest.fixture(scope="package")
async def kinds(kube: KubeClient) -> AsyncIterator[Kinds]:
    """Every environment, credential and sync run, live."""
    async with (
        mirrored(kube, MANAGED_ENVIRONMENT) as environments,
        mirrored(kube, REPOSITORY_CREDENTIAL) as credentials,
        mirrored(kube, SYNC_RUN) as sync_runs,
    ):
        yield Kinds(environments, credentials, sync_runs)


@pytest.fixture(scope="package")
async def engine_secrets(kube: KubeClient) -> AsyncIterator[Mirror]:
    """Every Secret, live: also those that Argo CD is given."""
    async with mirrored(kube, SECRET) as mirror:
        yield mirror


@pytest.fixture(scope="package")
def cluster(stack: HostedStack) -> Cluster:
    """A cluster that environments may point at."""
    return Cluster.of(Path(stack.environment["KUBECONFIG"]))


@pytest.fixture
async def target_class(kube: KubeClient) -> AsyncIterator[str]:
    """A DeploymentTargetClass of the test's own, like the one that is shipped."""
    async with fresh_class(kube) as name:
        yield name


@pytest.fixture
async def api(kube: KubeClient, kinds: Kinds, tenant: Tenant) -> AsyncIterator[Api]:
    """The same user's other resources."""
    async with fresh_api(tenant.namespace, kube, kinds) as fresh:
        yield fresh


@pytest.fixture
async def other_api(kube: KubeClient, kinds: Kinds, other_tenant: Tenant) -> AsyncIterator[Api]:
    """Another user's."""
    async with fresh_api(other_tenant.namespace, kube, kinds) as fresh:
        yield fresh
