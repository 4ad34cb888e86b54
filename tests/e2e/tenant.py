"""A user of the product as end-to-end tests see one, and how to find things in what the API server holds."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from devstack.harness.mirror import Mirror, Objects
from services.common.errors import Unavailable
from services.common.kubernetes import NAMESPACE, KubeClient, Manifest, NotFound
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT

USER = "e2e-user"
AT_ONCE = 8
"""Deletions."""

LEAVING_SECONDS = 240
"""Longer than a deletion that must be forced, and than those of hundreds on a busy machine."""


@dataclass(frozen=True)
class Tenant:
    """A user with a namespace of their own, and what they can see."""

    namespace: str
    kube: KubeClient
    deployments: Mirror
    applications: Mirror

    async def create(self, name: str = "web", *, finalizers: tuple[str, ...] = (), **spec: Any) -> Manifest:
        """Create a GitOpsDeployment; ``spec`` overrides parts of an ordinary one."""
        manifest = deployment(self.namespace, name, finalizers=finalizers, **spec)
        return await self.kube.create_object(GITOPS_DEPLOYMENT, manifest, field_manager=USER)

    async def patch(self, name: str, patch: Manifest) -> Manifest:
        """Change a GitOpsDeployment."""
        return await self.kube.patch_object(GITOPS_DEPLOYMENT, self.namespace, name, patch, field_manager=USER)

    async def delete(self, name: str = "web") -> None:
        """Delete a GitOpsDeployment."""
        await self.kube.delete_object(GITOPS_DEPLOYMENT, self.namespace, name)

    def status(self, name: str = "web") -> dict[str, Any]:
        """The status of a GitOpsDeployment as last seen."""
        found: dict[str, Any] = self.deployments.objects.get((self.namespace, name), {}).get("status", {})
        return found

    async def until_status(
        self, what: str, name: str = "web", timeout_seconds: float = 120, **expected: Any
    ) -> dict[str, Any]:
        """Wait until the status has these values; keys are dotted paths with ``__`` for the dot."""
        await self.deployments.until(
            f"{self.namespace}/{name}: {what}; status is {self.status(name)}",
            lambda _: all(_at(self.status(name), path.split("__")) == value for path, value in expected.items()),
            timeout_seconds,
        )
        return self.status(name)

    async def until_condition(
        self, type_: str, status: str, name: str = "web", timeout_seconds: float = 120, *, message: str = ""
    ) -> dict[str, Any]:
        """Wait for a condition of the status; ``message`` is a part of its own."""

        def shown() -> dict[str, Any]:
            return condition(self.status(name), type_)

        try:
            await self.deployments.until(
                f"{self.namespace}/{name} has condition {type_}={status} with '{message}'",
                lambda _: shown().get("status") == status and message in shown().get("message", ""),
                timeout_seconds,
            )
        except Unavailable as error:
            raise Unavailable(f"{error}; it is {shown()}") from None
        return shown()

    async def until_no_error(self, name: str = "web") -> None:
        """Wait until the status says that there is no error, or nothing of one."""
        await self.deployments.until(
            f"{self.namespace}/{name} shows no error; status is {self.status(name)}",
            lambda _: condition(self.status(name), "ErrorOccurred").get("status") != "True",
        )

    async def application_of(self, created: Manifest, timeout_seconds: float = 120) -> Manifest:
        """Wait for the Application of a GitOpsDeployment."""
        name = application_name(created)
        await self.applications.until(
            f"{name} exists", lambda objects: find(objects, name) is not None, timeout_seconds
        )
        found = find(self.applications.objects, name)
        assert found is not None
        return found

    async def until_application_gone(self, created: Manifest, timeout_seconds: float = 120) -> None:
        """Wait until a GitOpsDeployment has no Application."""
        name = application_name(created)
        await self.applications.until(f"{name} is gone", lambda objects: find(objects, name) is None, timeout_seconds)

    def operation(self, created: Manifest) -> dict[str, Any]:
        """What Argo CD says of the last sync of a GitOpsDeployment, {} if it says nothing."""
        application = find(self.applications.objects, application_name(created)) or {}
        state: dict[str, Any] = application.get("status", {}).get("operationState", {})
        return state

    async def until_operation(self, created: Manifest, phase: str, message: str = "") -> None:
        """Wait until Argo CD says so of the last sync of a GitOpsDeployment; ``message`` is how its own begins."""
        await self.applications.until(
            f"{application_name(created)} is {phase}, '{message}'; it is {self.operation(created)}",
            lambda _: (
                self.operation(created).get("phase") == phase
                and self.operation(created).get("message", "").startswith(message)
            ),
        )

    async def until_path(self, created: Manifest, path: str, timeout_seconds: float = 120) -> None:
        """Wait until the Application of a GitOpsDeployment is there and has its manifests from ``path``."""
        name = application_name(created)
        await self.applications.until(
            f"{name} has path {path}",
            lambda objects: (live := find(objects, name)) is not None and live["spec"]["source"]["path"] == path,
            timeout_seconds,
        )

    async def leave(self, timeout_seconds: float = LEAVING_SECONDS) -> None:
        """Delete every GitOpsDeployment, and wait until nothing of them is left."""
        own = {
            name: item for (namespace, name), item in self.deployments.objects.items() if namespace == self.namespace
        }
        pending = iter(own)

        async def delete_pending() -> None:
            for name in pending:
                with suppress(NotFound):
                    await self.delete(name)

        await asyncio.gather(*(delete_pending() for _ in range(AT_ONCE)))
        await self.deployments.until(
            f"{self.namespace} is empty",
            lambda objects: all(namespace != self.namespace for namespace, _ in objects),
            timeout_seconds,
        )
        for item in own.values():
            await self.until_application_gone(item, timeout_seconds)


def path(value: str) -> Manifest:
    """A change of where the manifests of a GitOpsDeployment are."""
    return {"spec": {"source": {"path": value}}}


@asynccontextmanager
async def fresh_tenant(
    kube: KubeClient, deployments: Mirror, applications: Mirror, namespace: str = ""
) -> AsyncIterator[Tenant]:
    """A tenant of one test's own; what it leaves is gone afterwards, so that later tests meet an ordinary system."""
    tenant = Tenant(namespace or fresh_namespace(), kube, deployments, applications)
    await create_namespace(kube, tenant.namespace)
    try:
        yield tenant
    finally:
        await tenant.leave()


def fresh_namespace() -> str:
    """A name that no tenant has."""
    return f"tenant-{uuid.uuid4().hex[:10]}"


async def create_namespace(kube: KubeClient, name: str) -> None:
    """Create a namespace."""
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await kube.create_object(NAMESPACE, manifest, field_manager=USER)


def deployment(namespace: str, name: str = "web", *, finalizers: tuple[str, ...] = (), **spec: Any) -> Manifest:
    """An ordinary GitOpsDeployment with parts of its spec overridden; a part set to None is left out."""
    source = {"repoURL": f"https://git.example.com/{namespace}/config.git", "path": f"apps/{name}"} | spec.pop(
        "source", {}
    )
    return {
        "apiVersion": GITOPS_DEPLOYMENT.api_version,
        "kind": GITOPS_DEPLOYMENT.kind,
        "metadata": {"name": name, "namespace": namespace, "finalizers": list(finalizers)},
        "spec": {"type": "automated", "source": source} | spec,
    }


def application_name(created: Manifest) -> str:
    """Name of the Application of a GitOpsDeployment."""
    return f"gitopsdepl-{created['metadata']['uid']}"


def find(objects: Objects, name: str) -> Manifest | None:
    """The object of that name in whichever namespace it is."""
    return next((item for (_, other), item in objects.items() if other == name), None)


def condition(status: dict[str, Any], type_: str) -> dict[str, Any]:
    """One condition of a status, {} if it is not there."""
    return next((item for item in status.get("conditions") or [] if item["type"] == type_), {})


def _at(value: Any, path: list[str]) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value
