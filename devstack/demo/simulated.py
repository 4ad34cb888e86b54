"""The acts of the small demo, where a simulator plays Argo CD: what becomes of a change on its way through us."""

from __future__ import annotations

from dataclasses import dataclass

from devstack.demo.board import Row
from devstack.demo.users import TENANTS, Act, Users, state

DEPLOYMENTS = ("web", "api")
CAUSE = "change"


@dataclass(slots=True)
class SimulatedStory:
    """Each act sends changes, waits for what must follow, and fails loudly if it does not."""

    users: Users

    def acts(self) -> tuple[Act, ...]:
        """In order."""
        return (
            ("A first deployment warms the JVMs up", self.warm_up),
            ("Three tenants create two deployments each", self.creation),
            ("team-red moves web to another folder", self.update),
            ("team-green asks for the impossible, and is told why", self.refusal),
            ("Somebody edits team-blue's Application behind our back", self.drift),
            ("team-blue deletes api and waits until it is gone", self.deletion),
        )

    async def warm_up(self) -> None:
        """One CR through the whole path: what a newly started JVM takes says nothing of the days that follow."""
        await self.users.namespace("warm-up")
        await self._until_synced(await self._create(Row("warm-up", "first", "create")))

    async def creation(self) -> None:
        """Six CRs, created as fast as they can be written, until each is Synced."""
        for tenant in TENANTS:
            await self.users.namespace(tenant)
        rows = [await self._create(Row(tenant, name, "create", CAUSE)) for tenant in TENANTS for name in DEPLOYMENTS]
        for row in rows:
            await self._until_synced(row)

    async def update(self) -> None:
        """Change a path; done when the engine reports that it compared with the new one."""
        path = "environments/web-canary"
        row = Row("team-red", "web", "update", CAUSE)
        await self.users.patch(row, {"spec": {"source": {"path": path}}})
        await self.users.until_status(
            row, f"deploys {path}", lambda status: status.get("reconciledState", {})["source"]["path"] == path
        )
        row.outcome = f"deploys {path}"

    async def refusal(self) -> None:
        """A path that may not be; done when the condition says so."""
        row = Row("team-green", "web", "bad update", CAUSE)
        await self.users.patch(row, {"spec": {"source": {"path": "/"}}})
        row.outcome = await self.users.until_error(row, "ErrorOccurred")

    async def drift(self) -> None:
        """Edit an Application directly; done when it is as it was."""
        await self.users.meddle(Row("team-blue", "web", "drift", CAUSE))

    async def deletion(self) -> None:
        """Delete a CR that waits by its finalizer; done when Application and CR are gone."""
        await self.users.delete(Row("team-blue", "api", "delete", CAUSE))

    async def _create(self, row: Row) -> Row:
        url = f"https://git.example.com/{row.tenant}/config.git"
        return await self.users.deploy(row, {"repoURL": url, "path": f"environments/{row.name}"})

    async def _until_synced(self, row: Row) -> None:
        status = await self.users.until_status(
            row, "is Synced", lambda status: status.get("sync", {}).get("status") == "Synced"
        )
        row.outcome = state(status)
