"""The engine instances that this agent owns: those of its cluster whose partition is assigned to it.

Called by ``engine_stream`` on revocation and assignment, by ``fleet_follower`` when instances have come or gone, and by
``message_handler`` with rows. An instance whose partition comes back after a rebalance keeps its watches. Otherwise,
and when it is retired, they end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import structlog

from services.agent.background_tasks import BackgroundTasks
from services.agent.instances.instance_controller import InstanceController
from services.agent.instances.instance_orders import is_order
from services.agent.objects.fleet import Fleet
from services.agent.observe.observation_sink import ObservationSink
from services.agent.observe.pending_acks import Acknowledge
from services.agent.stream.desired_state import DesiredState
from services.common.messages import EngineResource, Failed

log = structlog.get_logger(__name__)

NewController = Callable[[str, str], InstanceController]


@dataclass(frozen=True, slots=True)
class Assignment:
    """The partitions that are ours until the next rebalance, and their rows."""

    partitions: set[int]
    desired: DesiredState
    """Completely loaded."""


class OwnedInstances:
    """Starts and stops the instances of the assigned partitions, and passes rows to them."""

    def __init__(
        self,
        fleet: Fleet,
        partitions: int,
        reports: ObservationSink,
        new_controller: NewController,
        on_defect: Callable[[BaseException], None],
    ) -> None:
        """``partitions`` of the cluster's topic. ``new_controller`` builds one from an instance's id and namespace."""
        self._fleet, self._partitions = fleet, partitions
        self._reports, self._new_controller = reports, new_controller
        self._instances: dict[str, InstanceController] = {}
        self._assignment: Assignment | None = None
        self._endings = BackgroundTasks(on_defect)

    def not_ready(self) -> str:
        """Why we are not ready; empty if we watch and work for every instance of ours."""
        if self._assignment is None:
            return "no partitions assigned yet, or desired state not recovered"
        missing = (name for name, each in self._instances.items() if not each.listed and not each.is_inaccessible)
        unlisted = sorted(missing)
        return f"watches not listed yet: {', '.join(unlisted)}" if unlisted else ""

    async def assign_partitions(self, partitions: set[int], desired: DesiredState) -> None:
        """Own these partitions, whose rows are loaded: watch their instances and compare everything."""
        self._assignment = Assignment(partitions, desired)
        self._watch_owned(self._assignment)
        self._start_work(self._assignment, self._instances)
        await self._await_endings()

    def follow_fleet(self) -> None:
        """Instances have come or gone: start new ones, and end those that are not ours any more.

        Between two assignments this waits for the next one.
        """
        if self._assignment is not None:
            self._start_work(self._assignment, self._watch_owned(self._assignment))

    async def suspend(self) -> None:
        """Our partitions were revoked. When this returns, nothing of ours acts on any instance."""
        self._assignment = None
        for instance in self._instances.values():
            await instance.suspend()
        await self._await_endings()

    async def stop(self) -> None:
        """End everything."""
        self._assignment = None
        for name in list(self._instances):
            self._end(name)
        await self._await_endings()

    def submit_row(self, row: EngineResource, acknowledge: Acknowledge) -> None:
        """Pass a row to its instance. A row of another cluster is ignored, one of an unknown instance is refused."""
        if self._assignment is None:
            return  # revoked meanwhile: the partition's next owner is sent it again
        instance = self._instance_of(row)
        if instance is not None:
            pass_row(instance, row, acknowledge)
        elif row.deleted or self._fleet.is_elsewhere(row.engine_instance_id):
            acknowledge()
        else:
            self._refuse(row, acknowledge)

    def _watch_owned(self, assignment: Assignment) -> list[str]:
        """Watch the instances that are ours, and no others. Returns those that were not watched before."""
        owned = self._owned(assignment)
        for name, instance in list(self._instances.items()):
            if owned.get(name) != instance.namespace:
                self._end(name)
        new = [name for name in owned if name not in self._instances]
        for name in new:
            self._watch(name)
        log.info("instances assigned", instances=sorted(owned), partitions=sorted(assignment.partitions))
        return new

    def _owned(self, assignment: Assignment) -> dict[str, str]:
        """Namespaces of our instances by id. The connector, not we, decides which partition has an instance's rows."""
        with_rows = assignment.desired.instances()
        return {
            name: namespace
            for name, namespace in self._fleet.namespaces.items()
            if name in with_rows or partition_of_instance(name, self._partitions) in assignment.partitions
        }

    def _start_work(self, assignment: Assignment, names: Iterable[str]) -> None:
        desired = assignment.desired
        for name in names:
            unacknowledged = desired.unacknowledged_rows_of(name)
            start_work(self._instances[name], desired.rows_of(name), unacknowledged, complete=desired.complete)

    def _instance_of(self, row: EngineResource) -> InstanceController | None:
        name = row.engine_instance_id
        if name in self._fleet.namespaces and name not in self._instances:
            log.warning("rows of an instance come by an unexpected partition", instance=name)
            start_work(self._watch(name), ())
        return self._instances.get(name)

    def _watch(self, name: str) -> InstanceController:
        instance = self._instances[name] = self._new_controller(name, self._fleet.namespaces[name])
        instance.start()
        return instance

    def _end(self, name: str) -> None:
        self._endings.start_task(self._instances.pop(name).stop(), f"end of {name}")

    async def _await_endings(self) -> None:
        # Who waits may be cancelled by another rebalance; what ends goes on ending.
        await asyncio.shield(self._endings.wait_for_all())

    def _refuse(self, row: EngineResource, acknowledge: Acknowledge) -> None:
        message = f"there is no engine instance {row.engine_instance_id}, or it is retired"
        log.error("row refused", error=message, name=row.name)
        refusal = Failed(row.digest, permanent=True, message=message)
        self._reports.send_observation(
            row, refusal, lambda arrived: acknowledge() if arrived else self._refuse(row, acknowledge)
        )


def start_work(
    instance: InstanceController,
    rows: Iterable[EngineResource],
    unacknowledged: Iterable[EngineResource] = (),
    *,
    complete: bool = True,
) -> None:
    """Let ``instance`` work on its rows, which were just loaded: orders first, then objects."""
    orders, objects = _split(rows)
    instance.orders.load_orders(orders)
    instance.start_work(objects, _split(unacknowledged)[1], complete=complete)


def pass_row(instance: InstanceController, row: EngineResource, acknowledge: Acknowledge) -> None:
    """Pass a row on.

    An order is acknowledged at once, because the next owner of the instance reads it from the topic.
    """
    if is_order(row):
        instance.orders.withdraw_order(row) if row.deleted else instance.orders.submit_order(row)
        acknowledge()
    elif row.deleted:
        instance.forget_row(row, acknowledge)
    else:
        instance.submit_row(row, acknowledge)


def _split(rows: Iterable[EngineResource]) -> tuple[list[EngineResource], list[EngineResource]]:
    """The orders among ``rows``, and the rows of objects."""
    orders: list[EngineResource] = []
    objects: list[EngineResource] = []
    for row in rows:
        (orders if is_order(row) else objects).append(row)
    return orders, objects


def partition_of_instance(instance: str, partitions: int) -> int:
    """``(String.hashCode() & 0x7fffffff) % partitions``: PartitionRouting with ``hash.function=java``."""
    hashed = 0
    for unit in _utf16(instance):
        hashed = (31 * hashed + unit) & 0xFFFFFFFF
    return (hashed & 0x7FFFFFFF) % partitions


def _utf16(text: str) -> memoryview[int]:
    """Java hashes UTF-16 code units, not characters."""
    return memoryview(text.encode("utf-16-le")).cast("H")
