"""An operator of the fleet: gives orders as ``gitopsctl engines`` does, and waits for what a planner decides."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from uuid import uuid4

from chaos.identity import WORKSPACE
from chaos.plan.operations import DrainInstance, FleetOperation, MoveTenant, ReplaceInstance, UndrainInstance
from devstack.harness.hosted import HostedStack
from services.cli.database_connection import connected
from services.cli.fleet.fleet_orders import OUTCOME, send_order
from services.cli.guards.kept_orphans import kept_orphans, send_approvals
from services.common.backoff import Backoff
from services.common.errors import InvalidConfiguration, Retry, Unavailable
from services.common.kafka import DEFAULT_ENGINE_CLUSTER
from services.common.messages import (
    AddEngineInstance,
    CancelMove,
    DrainEngineInstance,
    FleetOrder,
    Order,
    RebalanceFleet,
    RetireEngineInstance,
    UndrainEngineInstance,
)
from services.common.messages import MoveTenant as MoveOrder
from services.planner.rows.fleet import DEFAULT_ENGINE

PATIENCE_SECONDS = 900.0
"""As that of users."""
REPEATED_SECONDS = 20.0
APPROVED_EVERY_SECONDS = 10.0
EMPTIED_SECONDS = 60.0
"""In which all tenants leave an instance, or it is not given up."""
ALLOWED_SECONDS = 20.0
"""In which a tenant may be moved again, unless an instance drains for longer."""
CAPACITY = 2500
NAME = "chaos"
READY = "SELECT id FROM engine_instances WHERE id = %s AND state NOT IN ('provisioning', 'failed')"
INSTANCE = "SELECT id FROM engine_instances WHERE namespace = %s AND state <> 'retired'"

PLACEMENT = "SELECT engine_instance_id FROM tenants WHERE namespace = %s AND former_since = 0"
PLACED_SECONDS = 10.0
"""In which a tenant that has just come is on an instance, unless a planner does not work."""


class FleetOperator:
    """Of a stack."""

    def __init__(self, stack: HostedStack, engine_namespaces: Sequence[str], prefix: str) -> None:
        """``engine_namespaces``: those of the instances; ``prefix``: how tenants' namespaces begin."""
        self._url, self._log = stack.environment["DATABASE_OWNER_URL"], stack.log
        self._engine_namespaces, self._prefix = engine_namespaces, prefix
        self._added = count()

    async def carry_out(self, operation: FleetOperation) -> bool:
        """Whether a planner has accepted it. Raises Unavailable."""
        match operation:
            case MoveTenant():
                return await self._move(operation)
            case DrainInstance(_, instance):
                return await self._drain(await self._id(instance))
            case UndrainInstance(_, instance):
                return await self._undrain(await self._id(instance))
            case ReplaceInstance(_, instance):
                return await self._replace(instance)

    async def accept_everywhere(self) -> None:
        """Have all instances take tenants again. Raises Unavailable."""
        for instance in range(len(self._engine_namespaces)):
            await self._order(UndrainEngineInstance(await self._id(instance)))

    async def approve_orphans(self) -> None:
        """Endlessly approve that what agents keep goes: so much of it, or all that is left on an instance."""
        while True:
            with suppress(Retry, InvalidConfiguration, Unavailable):
                await asyncio.to_thread(self._approve_kept)
            await asyncio.sleep(APPROVED_EVERY_SECONDS)

    def _approve_kept(self) -> None:
        if found := [each for each in kept_orphans(self._url) if not each.is_approved]:
            send_approvals(self._log, found)

    async def _move(self, wanted: MoveTenant) -> bool:
        """Whether the tenant is moved: it is tried again while that is refused, as it is while an instance drains."""
        over = time.monotonic() + ALLOWED_SECONDS
        while time.monotonic() < over:
            if await self._try_move(wanted):
                return True
            await asyncio.sleep(1)
        return False

    async def _try_move(self, wanted: MoveTenant) -> bool:
        namespace = f"{self._prefix}-{wanted.tenant:03d}"
        instances = [await self._id(instance) for instance in range(len(self._engine_namespaces))]
        here = await self._until_found(PLACEMENT, namespace, PLACED_SECONDS)
        target = next(each for each in instances if each != here)
        moving = asyncio.create_task(self._outcome(MoveOrder(WORKSPACE, namespace, target)))
        if wanted.cancelled_after is not None:
            await asyncio.sleep(wanted.cancelled_after)
            await self._order(CancelMove(WORKSPACE, namespace))
        return await moving in ("accepted", "unchanged")  # a rebalance may have ordered the same

    async def _drain(self, instance: str) -> bool:
        is_accepted = await self._order(DrainEngineInstance(instance))
        await self._order(RebalanceFleet())
        return is_accepted

    async def _undrain(self, instance: str) -> bool:
        is_accepted = await self._order(UndrainEngineInstance(instance))
        await self._order(RebalanceFleet())
        return is_accepted

    async def _replace(self, instance: int) -> bool:
        former = await self._id(instance)
        await self._drain(former)
        if not await self._is_retired(former):
            await self._undrain(former)
            return False
        added = AddEngineInstance(
            id=f"{self._prefix}-added-{next(self._added)}",
            engine_cluster=DEFAULT_ENGINE_CLUSTER,
            namespace=self._engine_namespaces[instance],
            engine=DEFAULT_ENGINE,
            engine_class="shared",
            dedicated_to="",
            ring="general",
            capacity=CAPACITY,
        )
        is_accepted = await self._order(added)
        if is_accepted and not await self._until_found(READY, added.id, PATIENCE_SECONDS):
            raise Unavailable(f"{added.id} takes no tenants after {PATIENCE_SECONDS:g} s")
        await self._order(RebalanceFleet())
        return is_accepted

    async def _is_retired(self, instance: str) -> bool:
        """Once it is: that is refused as long as anything is on it, such as a tenant whose move was taken back."""
        over = time.monotonic() + EMPTIED_SECONDS
        while time.monotonic() < over:
            if await self._order(RetireEngineInstance(instance)):
                return True
            await asyncio.sleep(1)
            await self._order(RebalanceFleet())
        return False

    async def _id(self, instance: int) -> str:
        """Of the instance that is in one of the namespaces now."""
        namespace = self._engine_namespaces[instance]
        if found := await self._until_found(INSTANCE, namespace, PATIENCE_SECONDS):
            return found
        raise Unavailable(f"no instance is in {namespace}")

    async def _order(self, order: Order) -> bool:
        return await self._outcome(order) == "accepted"

    async def _outcome(self, order: Order) -> str:
        given = FleetOrder(uuid4(), NAME, datetime.now(UTC), order)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    with suppress(Unavailable):
                        await asyncio.to_thread(send_order, self._log, given)
                    # Given again, an order changes nothing.
                    if outcome := await self._until_found(OUTCOME, given.id, REPEATED_SECONDS):
                        return outcome
        except TimeoutError:
            raise Unavailable(f"no planner decides within {PATIENCE_SECONDS:g} s on {order}") from None

    async def _until_found(self, query: str, argument: object, seconds: float) -> str:
        """The one value that a query finds in so long; empty: it finds none."""
        delays, over = Backoff(first=0.05, limit=2), time.monotonic() + seconds
        while time.monotonic() < over:
            with suppress(Retry, InvalidConfiguration):  # the database is away, or is just being restored
                if found := await asyncio.to_thread(self._find, query, argument):
                    return found
            await asyncio.sleep(delays.next_delay())
        return ""

    def _find(self, query: str, argument: object) -> str:
        with connected(self._url) as database:
            row = database.execute(query, (argument,)).fetchone()
        return str(row[0]) if row is not None else ""
