"""The newest order of a remedy of one instance: executed until it is done, and reported.

An order is a row. The next owner of the instance finds it and executes it again, which changes nothing. A newer order,
or the deletion of the row, ends the execution. A lost report does no harm: a planner waits for each remedy for a
limited time.
"""

from __future__ import annotations

from typing import Protocol

import structlog

from services.agent.background_tasks import BackgroundTasks
from services.agent.observe.observation_sink import MESSAGE_CHARACTERS, ObservationSink
from services.agent.remedies.remedy_order import RemedyOrder, number_in, order_of
from services.common.clock import Clock
from services.common.errors import Permanent, Retry, Wait
from services.common.messages import Applied, EngineResource, Failed
from services.common.messages.observation import ObservationEvent

log = structlog.get_logger(__name__)

AGAIN_SECONDS = 5.0


class Actions(Protocol):
    """What a remedy can do."""

    async def carry_out(self, order: RemedyOrder) -> None:
        """Execute the order, as far as it is not done. Raises Permanent, Retry and Wait."""


class Remedies:
    """The remedies of one instance. Nothing is done unless this agent owns it."""

    def __init__(
        self, instance: str, actions: Actions, reports: ObservationSink, clock: Clock, tasks: BackgroundTasks
    ) -> None:
        self._instance, self._actions, self._reports, self._clock = instance, actions, reports, clock
        self._tasks = tasks
        self._newest: EngineResource | None = None
        self._working = False

    def submit_row(self, row: EngineResource) -> None:
        """Execute a new order. A known one changes nothing."""
        if self._newest is not None and (number_in(row.name) or 0) <= (number_in(self._newest.name) or 0):
            return
        self._newest = row
        self._begin()

    def forget_row(self, row: EngineResource) -> None:
        """Stop executing an order whose row is gone."""
        if self._newest is not None and row.name == self._newest.name:
            self._newest = None
            self._tasks.cancel_all()

    def start(self) -> None:
        """Start: the instance is ours now."""
        self._working = True
        self._begin()

    async def suspend(self) -> None:
        """Stop: the instance is no longer ours. When this returns, no call is in flight."""
        self._working, self._newest = False, None
        self._tasks.cancel_all()
        await self._tasks.wait_for_all()

    def _begin(self) -> None:
        if self._working and self._newest is not None:
            self._tasks.cancel_all()
            self._tasks.start_task(self._carry_out(self._newest), f"remedy of {self._instance}")

    async def _carry_out(self, row: EngineResource) -> None:
        try:
            order = order_of(row)
            log.warning("a remedy is ordered", instance=self._instance, remedy=order.remedy.value, number=order.number)
            while not await self._attempt(order):
                await self._clock.sleep(AGAIN_SECONDS)
        except Permanent as error:
            log.warning("a remedy cannot be carried out", instance=self._instance, error=str(error))
            self._report(row, Failed(row.digest, permanent=True, message=str(error)[:MESSAGE_CHARACTERS]))
        else:
            self._report(row, Applied(row.digest))

    async def _attempt(self, order: RemedyOrder) -> bool:
        """Try once; returns whether the order is done. Raises Permanent."""
        try:
            await self._actions.carry_out(order)
        except (Retry, Wait) as error:
            log.warning("a remedy is not carried out yet", instance=self._instance, error=str(error))
            return False
        return True

    def _report(self, row: EngineResource, event: ObservationEvent) -> None:
        try:
            self._reports.send_observation(row, event, lambda _: None)
        except Retry as error:
            log.warning("a remedy is not told", instance=self._instance, error=str(error))
