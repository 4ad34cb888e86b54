"""The acts of the demo: each sends a change, waits for what must follow, and fails loudly if it does not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from services.cli.demo.board import Board, Row
from services.cli.mirror import Mirror, Objects
from services.common.api import FINALIZER
from services.common.kube import APPLICATION, GITOPS_DEPLOYMENT, NAMESPACE, KubeClient, Manifest

TENANTS = ("team-red", "team-green", "team-blue")
DEPLOYMENTS = ("web", "api")
FIELD_MANAGER = "demo-user"
CLOCK_GRAIN = timedelta(milliseconds=1)
"""Kafka's timestamps are whole milliseconds: one taken just after the change may seem to lie just before it."""


@dataclass(slots=True)
class Story:
    """The demo's users, with their eyes on the API server."""

    kube: KubeClient
    deployments: Mirror
    applications: Mirror
    board: Board

    async def play(self, say: Callable[[str], None]) -> None:
        """All acts in order. Raises Unavailable naming what did not come about."""
        acts: tuple[tuple[str, Callable[[], Awaitable[None]]], ...] = (
            ("A first deployment warms the JVMs up", self.warm_up),
            ("Three tenants create two deployments each", self.creation),
            ("team-red moves web to another folder", self.update),
            ("team-green asks for the impossible, and is told why", self.refusal),
            ("Somebody edits team-blue's Application behind our back", self.drift),
            ("team-blue deletes api and waits until it is gone", self.deletion),
        )
        for number, (title, act) in enumerate(acts, 1):
            say(f"{number}. {title}")
            await act()

    async def warm_up(self) -> None:
        """One CR through the whole path: what a newly started JVM takes says nothing of the days that follow."""
        await self._namespace("warm-up")
        await self._until_synced(await self._create("warm-up", "first"))

    async def creation(self) -> None:
        """Six CRs, created as fast as they can be written, until each is Synced."""
        for tenant in TENANTS:
            await self._namespace(tenant)
        rows = [await self._create(tenant, name) for tenant in TENANTS for name in DEPLOYMENTS]
        for row in rows:
            await self._until_synced(row)

    async def update(self) -> None:
        """Change a path; done when the engine reports that it compared with the new one."""
        path = "environments/web-canary"
        row = await self._patch("team-red", "web", {"spec": {"source": {"path": path}}}, "update")
        await self.deployments.until(
            "the status shows the new path", lambda objects: _reconciled_path(objects, row) == path
        )
        row.outcome = f"deploys {path}"

    async def refusal(self) -> None:
        """A path that may not be; done when the condition says so."""
        row = await self._patch("team-green", "web", {"spec": {"source": {"path": "/"}}}, "bad update")
        await self.deployments.until("a condition names the mistake", lambda objects: bool(_error(objects, row)))
        row.outcome = _error(self.deployments.objects, row)

    async def drift(self) -> None:
        """Edit an Application directly; done when it is as it was."""
        uid = self.deployments.objects["team-blue", "web"]["metadata"]["uid"]
        identity = next(key for key in self.applications.objects if key[1].endswith(uid))
        wanted = self.applications.objects[identity]["spec"]["source"]["path"]
        row = Row("team-blue", "web", "drift", _now())
        self.board.begin(uid, row)
        intruder = {"spec": {"source": {"path": "somewhere/else"}}}
        edited = await self.kube.patch(APPLICATION, *identity, intruder, field_manager="intruder")
        version = int(edited["metadata"]["resourceVersion"])

        def repaired(objects: Objects) -> bool:
            live = objects[identity]
            return int(live["metadata"]["resourceVersion"]) > version and live["spec"]["source"]["path"] == wanted

        await self.applications.until("the Application is as it was", repaired)
        row.outcome = "undone"

    async def deletion(self) -> None:
        """Delete a CR that waits by its finalizer; done when Application and CR are gone."""
        identity = ("team-blue", "api")
        uid = self.deployments.objects[identity]["metadata"]["uid"]
        row = Row(*identity, "delete", _now())
        self.board.begin(uid, row)
        await self.kube.delete(GITOPS_DEPLOYMENT, *identity)
        await self.applications.until(
            "the Application is gone", lambda objects: not any(name.endswith(uid) for _, name in objects)
        )
        await self.deployments.until("the CR is released", lambda objects: identity not in objects)
        row.outcome = "gone"

    async def _namespace(self, name: str) -> None:
        await self.kube.create(NAMESPACE, _namespace(name), field_manager=FIELD_MANAGER)

    async def _create(self, tenant: str, name: str) -> Row:
        since = _now()
        created = await self.kube.create(GITOPS_DEPLOYMENT, _deployment(tenant, name), field_manager=FIELD_MANAGER)
        row = Row(tenant, name, "create", since)
        self.board.begin(created["metadata"]["uid"], row)
        return row

    async def _until_synced(self, row: Row) -> None:
        await self.deployments.until(
            f"{row.tenant}/{row.deployment} is Synced", lambda objects: _sync(objects, row) == "Synced"
        )
        row.outcome = "Synced, " + _health(self.deployments.objects, row)

    async def _patch(self, tenant: str, name: str, patch: Manifest, change: str) -> Row:
        row = Row(tenant, name, change, _now())
        self.board.begin(self.deployments.objects[tenant, name]["metadata"]["uid"], row)
        await self.kube.patch(GITOPS_DEPLOYMENT, tenant, name, patch, field_manager=FIELD_MANAGER)
        return row


def _now() -> datetime:
    return datetime.now(UTC) - CLOCK_GRAIN


def _namespace(name: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _deployment(tenant: str, name: str) -> Manifest:
    return {
        "apiVersion": GITOPS_DEPLOYMENT.api_version,
        "kind": GITOPS_DEPLOYMENT.kind,
        "metadata": {"name": name, "namespace": tenant, "finalizers": [FINALIZER]},
        "spec": {
            "type": "automated",
            "source": {"repoURL": f"https://git.example.com/{tenant}/config.git", "path": f"environments/{name}"},
        },
    }


def _status(objects: Objects, row: Row) -> dict[str, Any]:
    status: dict[str, Any] = objects.get((row.tenant, row.deployment), {}).get("status", {})
    return status


def _sync(objects: Objects, row: Row) -> str:
    return str(_status(objects, row).get("sync", {}).get("status", ""))


def _health(objects: Objects, row: Row) -> str:
    return str(_status(objects, row).get("health", {}).get("status", ""))


def _reconciled_path(objects: Objects, row: Row) -> str:
    return str(_status(objects, row).get("reconciledState", {}).get("source", {}).get("path", ""))


def _error(objects: Objects, row: Row) -> str:
    conditions = _status(objects, row).get("conditions") or []
    errors = [item for item in conditions if item["type"] == "ErrorOccurred" and item["status"] == "True"]
    return str(errors[0]["message"]) if errors else ""
