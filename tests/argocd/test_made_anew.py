"""Deleted and made anew under the same name, while the other end is away: a name is not an identity."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from devstack.git.site import PRIVATE, USERNAME, GitSite
from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import Mirror, mirrored
from services.common.kubernetes import Manifest
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from services.kinds.repository_credential.model import REPOSITORY_CREDENTIAL
from tests.argocd.deployed import HEALTHY, Deployed
from tests.argocd.sources import NAME, Sources, config_map
from tests.argocd.test_environments import SERVICE_ACCOUNT
from tests.argocd.test_outages import without
from tests.argocd.test_replacement import AGENTS
from tests.e2e.api import Api, Cluster, decoded
from tests.e2e.tenant import Tenant, application_name, create_namespace, find

HOST = "127.0.0.1"
CLEANED_UP_SECONDS = 240
"""Longer than the longest pause between two attempts to reach a cluster."""


@dataclass
class Line:
    """The only way to a cluster, which can be cut."""

    target: int
    port: int = 0
    _server: asyncio.Server | None = None
    _connections: set[asyncio.StreamWriter] = field(default_factory=set)

    async def join(self) -> None:
        """Let connections through."""
        self._server = await asyncio.start_server(self._connect, HOST, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """Refuse new connections and abort those there are."""
        assert self._server is not None
        self._server.close()
        for writer in self._connections:
            writer.transport.abort()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(HOST, self.target)
        ends = {writer, back}
        self._connections |= ends
        try:
            await asyncio.gather(_copy(reader, back), _copy(there, writer))
        finally:
            self._connections -= ends


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass  # cut
    finally:
        writer.close()


@dataclass(frozen=True)
class Engine:
    """What lies before Argo CD."""

    applications: Mirror
    projects: Mirror
    secrets: Mirror

    def project_of(self, deployment: Manifest) -> str:
        """Name of the AppProject of a deployment."""
        application = find(self.applications.objects, application_name(deployment)) or {}
        return str(application["spec"]["project"])

    def cluster_secret(self, server: Cluster, deployment: Manifest) -> str:
        """Name of the secret of a cluster that is for the tenant of this deployment; "" if there is none."""
        project = self.project_of(deployment)
        secrets = {name: decoded(item) for (_, name), item in self.secrets.objects.items()}
        of_tenant = {name: data["server"] for name, data in secrets.items() if data.get("project") == project}
        return next((name for name, url in of_tenant.items() if url.startswith(f"{server.url}?")), "")

    def listed_by_project(self, deployment: Manifest) -> set[str]:
        """Clusters that the AppProject of a deployment lists."""
        project = find(self.projects.objects, self.project_of(deployment)) or {}
        return {item.get("name", "") for item in project["spec"]["destinations"]}

    async def until_bound(self, name: str, *deployments: Manifest) -> None:
        """Wait until the Applications of these deployments name this cluster, or none."""
        for name_of_application in map(application_name, deployments):
            await self.applications.until(
                f"{name_of_application} goes to '{name}'",
                lambda objects, application=name_of_application: (  # type: ignore[misc]
                    (live := find(objects, application)) is not None
                    and live["spec"]["destination"].get("name", "") == name
                ),
                CLEANED_UP_SECONDS,
            )


@pytest.fixture
def engine(applications: Mirror, projects: Mirror, engine_secrets: Mirror) -> Engine:
    """Of all tenants."""
    return Engine(applications, projects, engine_secrets)


@pytest.fixture
def own_cluster(stack: HostedStack) -> Cluster:
    """A second cluster to bring: the one of the workspace."""
    return Cluster.of(Path(stack.environment["KUBECONFIG"]))


@dataclass(frozen=True)
class Both:
    """The two clusters, and a namespace that is in both."""

    far: Deployed
    own: Deployed
    namespace: str


@pytest.fixture
async def both(far: Deployed, deployed: Deployed) -> Both:
    """With a fresh namespace."""
    name = f"there-{uuid.uuid4().hex[:8]}"
    for cluster in (far, deployed):
        await create_namespace(cluster.kube, name)
    return Both(far, deployed, name)


@pytest.fixture
async def line(cluster: Cluster) -> AsyncIterator[Line]:
    """To the first cluster."""
    line = Line(urlsplit(cluster.url).port or 0)
    await line.join()
    yield line
    await line.cut()


@dataclass(frozen=True)
class First:
    """The environment that is made first, and what it has made."""

    cluster: Cluster
    secret: str
    account: tuple[str, str]
    accounts: Mirror
    deployment: Manifest


@pytest.fixture
async def first(
    *, line: Line, tenant: Tenant, api: Api, source: Sources, cluster: Cluster, both: Both, engine: Engine
) -> AsyncIterator[First]:
    """It works, has an account in its cluster, and a deployment is there."""
    reached = replace(cluster, url=f"https://{HOST}:{line.port}")
    await api.secret("kubeconfig", "managed-environment", kubeconfig=reached.kubeconfig())
    made = await api.environment(apiURL=reached.url, createNewServiceAccount=True)
    await api.until_connection("Succeeded")
    destination = {"environment": "prod", "namespace": both.namespace}
    deployment = await tenant.create(source=source().spec(), destination=destination)
    await tenant.until_status("deployed", **HEALTHY)
    account = ("kube-system", f"argocd-manager-{made['metadata']['uid']}")
    async with mirrored(both.far.kube, SERVICE_ACCOUNT, "kube-system") as accounts:
        assert account in accounts.objects
        yield First(reached, engine.cluster_secret(reached, deployment), account, accounts, deployment)


@pytest.fixture
async def second(line: Line, first: First, api: Api, own_cluster: Cluster, engine: Engine) -> str:
    """The cluster secret of another environment of that name, made while the first one's cluster is away."""
    await line.cut()
    await delete_environment(api)
    await api.secret("other", "managed-environment", kubeconfig=own_cluster.kubeconfig())
    await api.environment(apiURL=own_cluster.url, credentialsSecret="other")
    await api.until_connection("Succeeded")
    return engine.cluster_secret(own_cluster, first.deployment)


async def test_environment_when_made_anew_while_the_first_is_away_then_deployments_never_go_to_the_first(
    *, tenant: Tenant, source: Sources, api: Api, first: First, second: str, engine: Engine, both: Both, line: Line
) -> None:
    where = first.deployment["spec"]["destination"]
    late = await tenant.create("late", source=source(config_map("late", "late")).spec(), destination=where)
    await engine.until_bound(second, first.deployment, late)
    assert second in engine.listed_by_project(late)
    await both.own.until(both.namespace, "first")
    await both.own.until(both.namespace, "late", "late")

    # The second one goes as well: what was bound to it must not fall back to the one that had the name before.
    await delete_environment(api)
    await engine.until_bound("", first.deployment, late)
    assert engine.cluster_secret(first.cluster, first.deployment) == first.secret  # it waits to be cleaned up

    await line.join()
    await first.accounts.until("its account is gone", lambda all_: first.account not in all_, CLEANED_UP_SECONDS)
    await engine.secrets.until("so is its secret", lambda all_: find(all_, first.secret) is None)
    await engine.until_bound("", first.deployment, late)
    await engine.projects.until(
        "the project lists neither", lambda _: not engine.listed_by_project(late) & {first.secret, second}
    )
    in_first = {name for namespace, name in both.far.config_maps.objects if namespace == both.namespace}
    assert (in_first, both.far.value(both.namespace)) == ({NAME}, "first")


async def test_credential_when_made_anew_for_another_repository_while_agents_are_away_then_only_that_is_opened(
    stack: HostedStack, api: Api, tenant: Tenant, source: Sources, site: GitSite, engine_secrets: Mirror
) -> None:
    first, second = source(visibility=PRIVATE), source(visibility=PRIVATE)

    def opened() -> set[str]:
        """The repositories of the two for which Argo CD has a login."""
        urls = {decoded(item).get("url", "") for item in engine_secrets.objects.values()}
        return {each.https for each in (first, second) if each.https in urls}

    await api.secret("login", "repository-credential", username=USERNAME, password=site.password)
    await tenant.create(source=first.spec())
    await api.credential(repository=first.https)
    await tenant.until_status("deployed", **HEALTHY)
    assert opened() == {first.https}
    async with without(stack, *AGENTS):
        await api.delete(REPOSITORY_CREDENTIAL, "login")
        await api.credential(repository=second.https)
    await engine_secrets.until("only the second is opened", lambda _: opened() == {second.https}, CLEANED_UP_SECONDS)


async def delete_environment(api: Api) -> None:
    """Delete ``prod``, and wait until it is not there."""
    await api.delete(MANAGED_ENVIRONMENT, "prod")
    await api.kinds.environments.until("prod is gone", lambda objects: (api.namespace, "prod") not in objects)
