"""Moves a tenant by the commands that operators type, and looks at how far it is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psycopg
from typer.testing import Result

from devstack.components.stack import ENGINE_NAMESPACES
from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import Mirror
from services.common.kubernetes import Manifest
from tests.e2e.operators import of_instances
from tests.e2e.tenant import Tenant, application_name

MOVED_SECONDS = 600
"""Of a test that kills somebody in each step, and waits until they run again, on a busy machine."""
STEP_LOOK_SECONDS = 0.01
"""A step of a small tenant takes a few hundredths of a second."""
OVER = ("done", "cancelled")
STEP = "SELECT step FROM moves WHERE namespace = %s ORDER BY ordered_at DESC, id LIMIT 1"
EVACUATED = """
INSERT INTO moves (id, tenant_id, workspace, namespace, partition, source, target, step, is_cancelled, reported,
                   message, actor, ordered_at, step_since, path)
SELECT gen_random_uuid(), id, workspace, namespace, partition, engine_instance_id, %s, 'ordered', false, '{}',
       '', 'remediation', now(), now(), 'forced'
  FROM tenants WHERE namespace = %s
"""


@dataclass(frozen=True)
class Mover:
    """Of one tenant."""

    stack: HostedStack
    tenant: Tenant
    applications: Mirror

    async def typed(self, *arguments: str) -> Result:
        """A command about engine instances."""
        return await asyncio.to_thread(of_instances, self.stack, *arguments)

    def places(self, created: Manifest) -> set[str]:
        """Namespaces of the Applications of a deployment."""
        return {namespace for namespace, name in self.applications.objects if name == application_name(created)}

    async def target(self, created: Manifest) -> str:
        """The id of an instance of the stack that is not that of a deployment."""
        listed = json.loads((await self.typed("list", "-o", "json")).stdout)
        accepting = {each["namespace"]: str(each["id"]) for each in listed if each["state"] == "accepting"}
        return next(accepting[each] for each in ENGINE_NAMESPACES if each not in self.places(created))

    async def order(self, created: Manifest) -> str:
        """To any other instance, which is returned."""
        target = await self.target(created)
        await self.order_to(target)
        return target

    async def order_part(self, created: Manifest) -> str:
        """Likewise, of what a split tenant has on the instance of this deployment, which is not the tenant's own."""
        (place,) = self.places(created)
        target = await self.target(created)
        await self.order_to(target, f"@{place}")
        return target

    async def order_to(self, target: str, part: str = "") -> None:
        """To an instance."""
        name = self.tenant.namespace + part
        ordered = await self.typed("move", name, "--to", target)
        assert (ordered.exit_code, ordered.stdout) == (0, f"local/{name}: accepted\n"), ordered.output

    async def evacuate(self, created: Manifest) -> str:
        """To any other instance, which is returned, by the row that a planner writes when an instance is down.

        Where remedies are off, no planner does.
        """
        target = await self.target(created)
        async with self._database() as database:
            await database.execute(EVACUATED, (target, self.tenant.namespace))
        return target

    async def steps(self) -> AsyncIterator[str]:
        """The steps of the newest move as they are seen, until it is over. Raises TimeoutError."""
        seen = ""
        async with asyncio.timeout(MOVED_SECONDS):
            while seen not in OVER:
                with suppress(psycopg.OperationalError):  # the database was killed by who looks on
                    async with self._database() as database:
                        async for step in self._steps_after(seen, database):
                            seen = step
                            yield step
                await asyncio.sleep(STEP_LOOK_SECONDS)

    async def _steps_after(self, seen: str, database: psycopg.AsyncConnection) -> AsyncGenerator[str]:
        while seen not in OVER:
            step = await self._step(database)
            if step != seen:
                yield step
            seen = step
            await asyncio.sleep(STEP_LOOK_SECONDS)

    async def step(self) -> str:
        """The step that the newest move is at."""
        async with self._database() as database:
            return await self._step(database)

    async def until_past(self, *early: str) -> None:
        """Until the newest move is at none of these steps."""
        async for step in self.steps():
            if step not in ("ordered", "reserved", *early):
                return

    async def until_done(self) -> None:
        """Until it is over; it must have come to its end."""
        async for step in self.steps():
            assert step != "cancelled", await self._move()
        assert (await self._move())["step"] == "done"

    @asynccontextmanager
    async def _database(self) -> AsyncIterator[psycopg.AsyncConnection]:
        url = self.stack.environment["DATABASE_OWNER_URL"]
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as database:
            yield database

    async def _step(self, database: psycopg.AsyncConnection) -> str:
        found = await (await database.execute(STEP, (self.tenant.namespace,))).fetchone()
        assert found is not None, "no move was ordered"
        return str(found[0])

    async def _move(self) -> dict[str, Any]:
        listed = json.loads((await self.typed("moves", "--all", "-o", "json")).stdout)
        found: dict[str, Any] = [each for each in listed if each["namespace"] == self.tenant.namespace][-1]
        return found
