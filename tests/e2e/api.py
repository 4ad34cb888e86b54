"""The other kinds of the API as a user writes them, and what they show."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from devstack.harness.mirror import Mirror
from services.common.kubernetes import SECRET, ApiResource, KubeClient, Manifest, NotFound
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from services.kinds.repository_credential.model import REPOSITORY_CREDENTIAL
from services.kinds.sync_run.model import SYNC_RUN
from tests.e2e.tenant import USER, condition

GROUP = "managed-gitops.redhat.com"
CONNECTION = "ConnectionInitializationSucceeded"


@dataclass(frozen=True)
class Kinds:
    """Live copies of what all users wrote."""

    environments: Mirror
    credentials: Mirror
    sync_runs: Mirror


@dataclass(frozen=True)
class Api:
    """One user's namespace, all kinds but GitOpsDeployment."""

    namespace: str
    kube: KubeClient
    kinds: Kinds

    async def environment(self, name: str = "prod", **spec: Any) -> Manifest:
        """Create a managed environment."""
        ordinary = {"credentialsSecret": "kubeconfig", "allowInsecureSkipTLSVerify": False}
        return await self._create(MANAGED_ENVIRONMENT, name, ordinary | spec)

    async def credential(self, name: str = "login", **spec: Any) -> Manifest:
        """Create a repository credential."""
        return await self._create(REPOSITORY_CREDENTIAL, name, {"secret": "login"} | spec)

    async def sync_run(self, name: str, deployment: str = "web", **spec: Any) -> Manifest:
        """Ask for a sync."""
        return await self._create(SYNC_RUN, name, {"gitopsDeploymentName": deployment} | spec)

    async def secret(self, name: str, type_: str, **data: str) -> Manifest:
        """Create a Secret; ``type_`` without our group is one of ours."""
        manifest = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": self.namespace},
            "type": type_ if type_ == "Opaque" else f"{GROUP}/{type_}",
            "data": encoded(**data),
        }
        return await self.kube.create_object(SECRET, manifest, field_manager=USER)

    async def change_secret(self, name: str, **data: str) -> None:
        """Change some of a Secret's content."""
        await self.kube.patch_object(SECRET, self.namespace, name, {"data": encoded(**data)}, field_manager=USER)

    async def delete(self, resource: ApiResource, name: str) -> None:
        """Delete anything."""
        await self.kube.delete_object(resource, self.namespace, name)

    async def until_connection(self, reason: str, name: str = "prod", timeout_seconds: float = 120) -> dict[str, Any]:
        """Wait until an environment's connection has this reason."""
        return await self._until(self.kinds.environments, name, CONNECTION, reason, timeout_seconds)

    async def until_credential(self, reason: str, name: str = "login") -> dict[str, Any]:
        """Wait until a credential's error condition has this reason."""
        return await self._until(self.kinds.credentials, name, "ErrorOccurred", reason)

    async def until_phase(self, run: str, phase: str, timeout_seconds: float = 120) -> dict[str, Any]:
        """Wait until a sync run is that far."""
        await self.kinds.sync_runs.until(
            f"{self.namespace}/{run} is {phase}; it is {self.operation(run)}",
            lambda _: self.operation(run).get("phase") == phase,
            timeout_seconds,
        )
        return self.operation(run)

    async def until_ended(self, run: str) -> dict[str, Any]:
        """Wait until a sync run is over, however."""
        await self.kinds.sync_runs.until(
            f"{self.namespace}/{run} has ended; it is {self.operation(run)}",
            lambda _: bool(self.operation(run).get("finishedAt")),
        )
        return self.operation(run)

    async def until_sync_error(self, run: str, text: str) -> None:
        """Wait until a sync run's error says so."""
        await self.kinds.sync_runs.until(
            f"{self.namespace}/{run} says {text}",
            lambda _: text in condition(self._status(self.kinds.sync_runs, run), "ErrorOccurred").get("message", ""),
        )

    def operation(self, run: str) -> dict[str, Any]:
        """The operation that a sync run shows."""
        part: dict[str, Any] = self._status(self.kinds.sync_runs, run).get("operation", {})
        return part

    def conditions(self, mirror: Mirror, name: str) -> dict[str, tuple[str, str]]:
        """Status and reason by type."""
        listed = self._status(mirror, name).get("conditions") or []
        return {item["type"]: (item["status"], item["reason"]) for item in listed}

    def _status(self, mirror: Mirror, name: str) -> dict[str, Any]:
        found: dict[str, Any] = mirror.objects.get((self.namespace, name), {}).get("status", {})
        return found

    async def _until(
        self, mirror: Mirror, name: str, type_: str, reason: str, timeout_seconds: float = 120
    ) -> dict[str, Any]:
        await mirror.until(
            f"{self.namespace}/{name}: {type_} is {reason}; it shows {self._status(mirror, name)}",
            lambda _: condition(self._status(mirror, name), type_).get("reason") == reason,
            timeout_seconds,
        )
        return condition(self._status(mirror, name), type_)

    async def _create(self, resource: ApiResource, name: str, spec: dict[str, Any]) -> Manifest:
        manifest = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": spec,
        }
        return await self.kube.create_object(resource, manifest, field_manager=USER)


@asynccontextmanager
async def fresh_api(namespace: str, kube: KubeClient, kinds: Kinds) -> AsyncIterator[Api]:
    """What a user may write besides deployments; all of it is deleted at the end."""
    yield Api(namespace, kube, kinds)
    for resource, mirror in (
        (SYNC_RUN, kinds.sync_runs),
        (MANAGED_ENVIRONMENT, kinds.environments),
        (REPOSITORY_CREDENTIAL, kinds.credentials),
    ):
        for home, name in list(mirror.objects):
            if home == namespace:
                with suppress(NotFound):
                    await kube.delete_object(resource, namespace, name)


def encoded(**data: str) -> dict[str, str]:
    """A Secret's ``data``."""
    return {name: base64.b64encode(value.encode()).decode() for name, value in data.items()}


def decoded(secret: Manifest) -> dict[str, str]:
    """The content of a Secret, as far as it is text."""
    return {
        name: base64.b64decode(value).decode(errors="replace") for name, value in (secret.get("data") or {}).items()
    }


@dataclass(frozen=True)
class Cluster:
    """A cluster to deploy to: here the stack's own, seen from outside."""

    url: str
    authority: str
    """Certificate, base64."""
    token: str

    @classmethod
    def of(cls, kubeconfig: Path) -> Cluster:
        """The cluster of a kubeconfig with a token."""
        content = yaml.safe_load(kubeconfig.read_text())
        cluster = content["clusters"][0]["cluster"]
        authority = cluster.get("certificate-authority-data") or base64.b64encode(
            Path(cluster["certificate-authority"]).read_bytes()
        ).decode("ascii")
        return cls(cluster["server"], authority, content["users"][0]["user"]["token"])

    def kubeconfig(self, token: str | None = None, **user: Any) -> str:
        """A kubeconfig as users write it; ``user`` adds to its user entry."""
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": self.url, "certificate-authority-data": self.authority}}],
            "users": [{"name": "u", "user": {"token": self.token if token is None else token} | user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        return yaml.safe_dump(content)
