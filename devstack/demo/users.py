"""What the demo's users do and see, whoever deploys for them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from devstack.demo.board import Board, Row
from devstack.harness.mirror import Mirror
from services.common.kubernetes import APPLICATION, NAMESPACE, ApiResource, KubeClient, Manifest
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.shared.api_group import FINALIZER

TENANTS = ("team-red", "team-green", "team-blue")
FIELD_MANAGER = "demo-user"

Act = tuple[str, Callable[[], Awaitable[None]]]
"""A title, and what happens."""


async def play(acts: tuple[Act, ...], say: Callable[[str], None]) -> None:
    """All acts in order. Raises Unavailable naming what did not come about."""
    for number, (title, act) in enumerate(acts, 1):
        say(f"{number}. {title}")
        await act()


@dataclass(slots=True)
class Users:
    """Users of several tenants, with their eyes on the API server."""

    kube: KubeClient
    deployments: Mirror
    applications: Mirror
    board: Board

    async def namespace(self, name: str) -> None:
        """Somebody becomes a tenant."""
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await self.kube.create_object(NAMESPACE, manifest, field_manager=FIELD_MANAGER)

    async def create(self, resource: ApiResource, tenant: str, name: str, /, **content: Any) -> Manifest:
        """Write a new resource."""
        manifest = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name, "namespace": tenant},
        } | content
        return await self.kube.create_object(resource, manifest, field_manager=FIELD_MANAGER)

    async def deploy(self, row: Row, source: dict[str, str], **spec: Any) -> Row:
        """Create a deployment that waits by its finalizer when it is deleted."""
        metadata = {"name": row.name, "namespace": row.tenant, "finalizers": [FINALIZER]}
        content = {"type": "automated", "source": source} | spec
        row.sent()
        created = await self.create(GITOPS_DEPLOYMENT, row.tenant, row.name, metadata=metadata, spec=content)
        return self.board.begin(row, created["metadata"]["uid"])

    async def patch(self, row: Row, patch: Manifest) -> Row:
        """Change a deployment."""
        self.board.begin(row, self.uid(row))
        await self.kube.patch_object(GITOPS_DEPLOYMENT, row.tenant, row.name, patch, field_manager=FIELD_MANAGER)
        return row

    async def delete(self, row: Row) -> None:
        """Delete a deployment; returns when its Application and it are gone."""
        uid, identity = self.uid(row), (row.tenant, row.name)
        self.board.begin(row, uid)
        await self.kube.delete_object(GITOPS_DEPLOYMENT, *identity)
        await self.applications.until(
            "the Application is gone", lambda objects: not any(name.endswith(uid) for _, name in objects)
        )
        await self.deployments.until("the CR is released", lambda objects: identity not in objects)
        row.outcome = "gone"

    async def meddle(self, row: Row) -> None:
        """Edit an Application directly; returns when it is as it was."""
        uid = self.uid(row)
        identity = next(key for key in self.applications.objects if key[1].endswith(uid))
        wanted = self.applications.objects[identity]["spec"]["source"]["path"]
        self.board.begin(row, uid)
        intruder = {"spec": {"source": {"path": "somewhere/else"}}}
        edited = await self.kube.patch_object(APPLICATION, *identity, intruder, field_manager="intruder")
        version = int(edited["metadata"]["resourceVersion"])
        await self.applications.until(
            "the Application is as it was",
            lambda objects: (
                int(objects[identity]["metadata"]["resourceVersion"]) > version
                and objects[identity]["spec"]["source"]["path"] == wanted
            ),
        )
        row.outcome = "undone"

    async def until_status(self, row: Row, what: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait until this is true of the status of a deployment; returns it."""
        await self.deployments.until(f"{row.tenant}/{row.name}: {what}", lambda _: holds(self.status(row)), 60)
        return self.status(row)

    async def until_error(self, row: Row, type_: str) -> str:
        """Wait until a condition tells of an error; returns its message."""
        status = await self.until_status(row, f"has {type_}", lambda status: bool(error(status, type_)))
        return error(status, type_)

    def status(self, row: Row) -> dict[str, Any]:
        """Of a deployment, as last seen."""
        status: dict[str, Any] = self.deployments.objects.get((row.tenant, row.name), {}).get("status", {})
        return status

    def uid(self, row: Row) -> str:
        """Of a deployment."""
        return str(self.deployments.objects[row.tenant, row.name]["metadata"]["uid"])


def error(status: dict[str, Any], type_: str) -> str:
    """Message of a condition that holds; empty if it does not."""
    conditions = status.get("conditions") or []
    return next((str(item["message"]) for item in conditions if (item["type"], item["status"]) == (type_, "True")), "")


def state(status: dict[str, Any]) -> str:
    """Sync and health in two words."""
    return f"{status.get('sync', {}).get('status', '')}, {status.get('health', {}).get('status', '')}"
