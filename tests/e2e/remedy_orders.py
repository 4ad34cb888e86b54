"""Orders of remedies in a running stack: what a planner writes for an instance that is ill."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import psycopg
from psycopg import sql

from devstack.harness.hosted import HostedStack
from services.common.messages import REMEDY, Remedy
from services.kinds.shared.resource import Cause
from services.planner.domain.fleet.agent_orders import agent_order
from services.planner.rows.compiled import EngineKey

REAPPLY = sql.SQL("UPDATE engine_instances SET reapply_ordered_at = now() WHERE id = %(id)s")
CLUSTER = sql.SQL("(SELECT engine_cluster FROM engine_instances WHERE id = %(engine_instance_id)s)")


@asynccontextmanager
async def remedy_ordered(stack: HostedStack, instance: str, remedy: Remedy) -> AsyncIterator[int]:
    """Meanwhile its agent has the order of a remedy, with this number: when it was given, in milliseconds.

    A second later than what exists: API servers tell time to the second.
    """
    number = round(datetime.now(UTC).timestamp() * 1000) + 1000
    content = {"number": number, "remedy": remedy.value}
    row = asdict(agent_order(EngineKey(instance, REMEDY, "", str(number), ""), content, Cause(datetime.now(UTC), "")))
    values = [sql.Placeholder(name) for name in row]
    columns = [sql.Identifier(name) for name in row]
    insert = sql.SQL("INSERT INTO engine_resources ({}, updated_at, engine_cluster) VALUES ({}, now(), {})").format(
        sql.SQL(", ").join(columns), sql.SQL(", ").join(values), CLUSTER
    )
    await asyncio.to_thread(_execute, stack, insert, row)
    try:
        yield number
    finally:
        delete = sql.SQL("DELETE FROM engine_resources WHERE kind = %(kind)s AND name = %(name)s")
        await asyncio.to_thread(_execute, stack, delete, row)


async def order_reapplication(stack: HostedStack, instance: str) -> None:
    """Have the provisioner that installed an instance make its configuration and its workloads anew."""
    await asyncio.to_thread(_execute, stack, REAPPLY, {"id": instance})


def _execute(stack: HostedStack, statement: sql.Composable, values: dict[str, Any]) -> None:
    with psycopg.connect(stack.environment["DATABASE_OWNER_URL"]) as owner:
        owner.execute(statement, values)
