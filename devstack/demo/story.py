"""The acts of the demo: from a git commit to what is deployed, by real Argo CD, and back to the user's resource."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import shorten
from typing import Any

import yaml

from devstack.demo.board import DEPLOYED, GONE, SHOWN, Row
from devstack.demo.users import TENANTS, Act, Users, state
from devstack.git.repository import Repository
from devstack.git.site import PRIVATE, PUBLIC, USERNAME, GitSite
from devstack.harness.mirror import Mirror
from services.common.kubernetes import CONFIG_MAP, SECRET, ApiResource, Manifest
from services.kinds.managed_environment.catalogue import CONNECTION
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from services.kinds.repository_credential.model import REPOSITORY_CREDENTIAL
from services.kinds.sync_run.model import SYNC_RUN

SERVICE_ACCOUNT = ApiResource("", "v1", "ServiceAccount", "serviceaccounts")
ACCOUNT_PREFIX = "argocd-manager-"
RED, GREEN, BLUE = TENANTS
ON_REMOTE = ("shop", "site")
"""Deployments that go to the cluster that a tenant brings: each to a namespace of its name."""
BROKEN = "apiVersion: v1\nkind: ConfigMap\n  metadata: {name: [settings\n"
SHORT = 60
"""Characters of a message that are worth a table's cell."""


@dataclass(slots=True)
class Story:
    """Each act sends changes, waits for what must follow, and fails loudly if it does not."""

    users: Users
    site: GitSite
    here: Mirror
    """Config maps of the cluster with the tenants' namespaces."""
    there: Mirror
    """Config maps of the cluster that a tenant brings."""
    accounts: Mirror
    """Service accounts of that cluster."""
    environments: Mirror
    secrets: tuple[Mirror, ...]
    """Of each engine cluster: also those that Argo CD reads."""
    remote_kubeconfig: Path
    with_clusters: list[str] = field(default_factory=list)
    """Tenants that have brought a cluster."""

    def acts(self) -> tuple[Act, ...]:
        """In order, but for the last."""
        return (
            ("A first deployment warms the JVMs up", self.warm_up),
            (
                "Three tenants deploy what is in their repositories: manifests, a kustomize overlay, a Helm chart",
                self.creation,
            ),
            ("All three commit: it is deployed", self.commits),
            (f"{RED} deploys by hand: nothing happens until a GitOpsDeploymentSyncRun", self.manual),
            (f"{BLUE} brings a cluster of its own; we make our account there", self.environment),
            (f"{GREEN}'s other repository is private: refused without a credential", self.private_repository),
            (f"{RED} has a broken manifest, and mends it", self.broken_manifest),
            ("Somebody meddles: with an Application, and with what it deployed", self.drift),
        )

    def ending(self) -> Act:
        """The last one."""
        return ("Everything is deleted: resources, credentials, and our account in the other cluster", self.deletion)

    async def warm_up(self) -> None:
        """One CR through the whole path: what a newly started JVM takes says nothing of the days that follow."""
        await self.users.namespace("warm-up")
        row = Row("warm-up", "web", "create")
        commit = self._repository(row).commit(_files(row, "v1"))
        await self._until_deployed(await self.users.deploy(row, self._source(row)), "v1", commit)

    async def creation(self) -> None:
        """Three CRs at once, until each is Synced and Healthy."""
        for tenant in TENANTS:
            await self.users.namespace(tenant)
        await asyncio.gather(*(self.create(Row(tenant, "web", "create", "CR")) for tenant in TENANTS))

    async def commits(self) -> None:
        """Argo CD looks for new commits every few seconds here."""
        await asyncio.gather(*(self.commit(Row(tenant, "web", "commit", "commit"), "v2") for tenant in TENANTS))

    async def manual(self) -> None:
        """Compared, shown as OutOfSync, and deployed only when asked for."""
        row = Row(RED, "batch", "create, manual")
        commit = self._repository(row).commit(_files(row, "v1"))
        await self.users.deploy(row, self._source(row), type="manual")
        await self.users.until_status(row, "waits", lambda status: state(status).startswith("OutOfSync"))
        self._shown(row, "OutOfSync, waits")
        run = self.users.board.begin(Row(RED, "batch", "sync run", "SyncRun"))
        await self.users.create(SYNC_RUN, RED, "release-1", spec={"gitopsDeploymentName": row.name})
        await self._until_deployed(run, "v1", commit)

    async def environment(self) -> None:
        """A second, real API server; the kubeconfig's token is used once, to make an account with less rights."""
        await self.bring_cluster(BLUE, "shop")

    async def bring_cluster(self, tenant: str, name: str) -> None:
        """An environment ``prod`` of a tenant, and one of :data:`ON_REMOTE` that is deployed there."""
        self.with_clusters.append(tenant)
        access = yaml.safe_load(self.remote_kubeconfig.read_text())
        url = access["clusters"][0]["cluster"]["server"]
        row = self.users.board.begin(Row(tenant, "prod", "environment", "environment"))
        await self._secret(tenant, "prod-access", "managed-environment", kubeconfig=yaml.safe_dump(access))
        spec = {"apiURL": url, "credentialsSecret": "prod-access", "allowInsecureSkipTLSVerify": False}
        environment = spec | {"createNewServiceAccount": True, "clusterResources": True}
        row.sent()
        await self.users.create(MANAGED_ENVIRONMENT, tenant, row.name, spec=environment)
        destination = {"environment": row.name, "namespace": name}
        options = {"syncOptions": ["CreateNamespace=true"]}
        await self.create(Row(tenant, name, "create on prod", "CR"), destination=destination, syncPolicy=options)
        identity = (tenant, row.name)
        await self.environments.until("the environment is connected", lambda objects: _is_connected(objects[identity]))
        row.reach(SHOWN)
        row.outcome = "connected"

    async def private_repository(self) -> None:
        """Git over https with a password."""
        row = Row(GREEN, "secret", "create")
        commit = self._repository(row, PRIVATE).commit(_files(row, "v1"))
        await self.users.deploy(row, self._source(row, PRIVATE))
        self._shown(row, await self.users.until_error(row, "ComparisonError"))
        credential = self.users.board.begin(Row(GREEN, "secret", "credential", "credential"))
        await self._secret(GREEN, "login", "repository-credential", username=USERNAME, password=self.site.password)
        spec = {"repository": self._source(row, PRIVATE)["repoURL"], "secret": "login"}
        await self.users.create(REPOSITORY_CREDENTIAL, GREEN, "login", spec=spec)
        await self._until_deployed(credential, "v1", commit)

    async def broken_manifest(self) -> None:
        """Argo CD's own words reach the user."""
        row = Row(RED, "broken", "create")
        self._repository(row).commit({f"app/{row.name}.yaml": BROKEN})
        await self.users.deploy(row, self._source(row))
        self._shown(row, await self.users.until_error(row, "ComparisonError"))
        await self.commit(Row(RED, "broken", "mending commit", "commit"), "v2")

    async def drift(self) -> None:
        """Our agent undoes the one, Argo CD the other."""
        await self.users.meddle(Row(BLUE, "web", "edited by hand", "drift"))
        identity = (BLUE, "web")
        uid = self.here.objects[identity]["metadata"]["uid"]
        row = self.users.board.begin(Row(*identity, "resource lost", "drift"))
        await self.users.kube.delete_object(CONFIG_MAP, *identity)
        await self.here.until(
            "it is there again", lambda objects: objects.get(identity, {}).get("metadata", {}).get("uid", uid) != uid
        )
        row.reach(DEPLOYED)
        row.outcome = "undone"

    async def deletion(self) -> None:
        """Each deployment waits by its finalizer until nothing is left of it; then go the credentials."""
        rows = [Row(*identity, "delete", "deletion") for identity in sorted(self.users.deployments.objects)]
        await asyncio.gather(*(self._delete(row) for row in rows))
        row = self.users.board.begin(Row(BLUE, "prod", "delete", "environment's deletion"))
        for resource, tenant, name in (
            (SYNC_RUN, RED, "release-1"),
            (REPOSITORY_CREDENTIAL, GREEN, "login"),
            *((MANAGED_ENVIRONMENT, tenant, "prod") for tenant in self.with_clusters),
            (SECRET, GREEN, "login"),
            *((SECRET, tenant, "prod-access") for tenant in self.with_clusters),
        ):
            await self.users.kube.delete_object(resource, tenant, name)
        await self.accounts.until(
            "our account is gone from the other cluster",
            lambda accounts: not any(name.startswith(ACCOUNT_PREFIX) for _, name in accounts),
        )
        for secrets in self.secrets:
            await secrets.until("Argo CD has no credentials of tenants", _without_credentials)
        row.reach(GONE)
        row.outcome = "gone"

    async def create(self, row: Row, **spec: Any) -> None:
        """A repository and a deployment of it; returns when that is deployed, and shown."""
        commit = self._repository(row).commit(_files(row, "v1"))
        await self._until_deployed(await self.users.deploy(row, self._source(row), **spec), "v1", commit)

    async def commit(self, row: Row, value: str) -> None:
        """Another value for a deployment's repository; returns when that is deployed, and shown."""
        self.users.board.begin(row)
        commit = self._opened(row).commit(_files(row, value))
        await self._until_deployed(row, value, commit)

    async def _delete(self, row: Row) -> None:
        async with asyncio.TaskGroup() as both:
            both.create_task(self._until_value(row, None))
            both.create_task(self.users.delete(row))

    async def _until_deployed(self, row: Row, value: str, commit: str) -> None:
        """Both the resource in the cluster and the user's own resource say so."""
        deployed = asyncio.create_task(self._until_value(row, value))
        status = await self.users.until_status(
            row,
            f"is healthy at {commit}",
            lambda status: state(status) == "Synced, Healthy" and status["sync"]["revision"] == commit,
        )
        self._shown(row, state(status))
        await deployed

    async def _until_value(self, row: Row, value: str | None) -> None:
        """What is deployed says so; None if nothing may be there."""
        cluster, namespace = self.deployed_to(row.tenant, row.name)
        await cluster.until(
            f"{namespace}/{row.name} says {value}",
            lambda objects: objects.get((namespace, row.name), {}).get("data", {}).get("value") == value,
        )
        row.reach(DEPLOYED if value else GONE)

    def deployed_to(self, tenant: str, name: str) -> tuple[Mirror, str]:
        """The cluster and the namespace in which a deployment's config map is."""
        return (self.there, name) if name in ON_REMOTE else (self.here, tenant)

    def _shown(self, row: Row, outcome: str) -> None:
        row.reach(SHOWN)
        row.outcome = shorten(outcome.rpartition("desc = ")[2], SHORT, placeholder=" …")

    async def _secret(self, tenant: str, name: str, type_: str, **data: str) -> None:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
        await self.users.create(SECRET, tenant, name, type=f"managed-gitops.redhat.com/{type_}", data=encoded)

    def _repository(self, row: Row, visibility: str = PUBLIC) -> Repository:
        return self.site.create(f"{row.tenant}-{row.name}", visibility)

    def _opened(self, row: Row) -> Repository:
        return Repository(self.site.repositories / PUBLIC / f"{row.tenant}-{row.name}.git")

    def _source(self, row: Row, visibility: str = PUBLIC) -> dict[str, str]:
        return {"repoURL": f"{self.site.https_url}/{visibility}/{row.tenant}-{row.name}.git", "path": "app"}


def _is_connected(environment: Manifest) -> bool:
    conditions = environment.get("status", {}).get("conditions") or []
    return any((item["type"], item["status"]) == (CONNECTION, "True") for item in conditions)


def _without_credentials(secrets: Mapping[tuple[str, str], Manifest]) -> bool:
    """Whether there is none that Argo CD was given by an agent."""
    return not any("databaseID" in secret["metadata"].get("labels", {}) for secret in secrets.values())


def _files(row: Row, value: str) -> dict[str, str | None]:
    """A repository that comes to one config map: plain manifests, and two that Argo CD has to make manifests of."""
    match (row.tenant, row.name):
        case (tenant, "web") if tenant == GREEN:
            return _overlay(row, value)
        case (tenant, "web") if tenant == BLUE:
            return _chart(row, value)
        case _:
            return {f"app/{row.name}.yaml": _config_map(row, value)}


def _overlay(row: Row, value: str) -> dict[str, str | None]:
    """Of kustomize, with a base beside it."""
    return {
        "base/kustomization.yaml": "resources: [settings.yaml]\n",
        "base/settings.yaml": _config_map(row, "of the base"),
        "app/kustomization.yaml": "resources: [../base]\npatches: [{path: settings.yaml}]\n",
        "app/settings.yaml": _config_map(row, value),
    }


def _chart(row: Row, value: str) -> dict[str, str | None]:
    """Of Helm."""
    return {
        "app/Chart.yaml": f"apiVersion: v2\nname: {row.name}\nversion: 1.0.0\n",
        "app/values.yaml": f"value: {value}\n",
        "app/templates/settings.yaml": _config_map(row, "{{ .Values.value }}"),
    }


def _config_map(row: Row, value: str) -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {row.name}\ndata:\n  value: {value}\n"
