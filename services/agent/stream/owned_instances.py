"""The engine instances that this agent owns: those whose partition is assigned to it.

Called by ``engine_stream`` on revocation and assignment, by ``message_handler`` with rows. An instance keeps its
watches when its partition comes back after a rebalance; otherwise they end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import structlog

from services.agent.instances.instance_controller import InstanceController
from services.agent.observe.observation_sink import ObservationSink
from services.agent.observe.pending_acks import Acknowledge
from services.agent.stream.desired_state import DesiredState
from services.common.messages import EngineResource, Failed

log = structlog.get_logger(__name__)

NewController = Callable[[str, str], InstanceController]


class OwnedInstances:
    """Starts, stops and feeds the instances of the assigned partitions."""

    def __init__(
        self, namespaces: Mapping[str, str], partitions: int, reports: ObservationSink, new_controller: NewController
    ) -> None:
        """``namespaces`` by instance id; ``partitions`` of gitops.engine; ``new_controller`` builds one."""
        self._namespaces, self._partitions = namespaces, partitions
        self._reports, self._new_controller = reports, new_controller
        self._instances: dict[str, InstanceController] = {}
        self._assigned = False

    def not_ready(self) -> str:
        """Empty when every instance of ours is watched and worked for, else what is missing."""
        if not self._assigned:
            return "no partitions assigned yet, or desired state not recovered"
        missing = (name for name, each in self._instances.items() if not each.listed and not each.is_closed)
        unlisted = sorted(missing)
        return f"watches not listed yet: {', '.join(unlisted)}" if unlisted else ""

    async def assign_partitions(self, partitions: set[int], desired: DesiredState) -> None:
        """These partitions are ours, and ``desired`` is complete: watch their instances and compare everything."""
        owned = {name for name in self._namespaces if partition_of_instance(name, self._partitions) in partitions}
        owned |= desired.instances() & self._namespaces.keys()
        for name in self._instances.keys() - owned:
            # Another rebalance ends the assignment, but not this.
            await asyncio.shield(self._instances.pop(name).stop())
        for name in owned - self._instances.keys():
            self._watch(name)
        log.info("instances assigned", instances=sorted(owned), partitions=sorted(partitions))
        for name, instance in self._instances.items():
            unacknowledged = desired.unacknowledged_rows_of(name)
            instance.start_work(desired.rows_of(name), unacknowledged, complete=desired.complete)
        self._assigned = True

    async def suspend(self) -> None:
        """Our partitions were revoked: when this returns nothing of ours acts on any instance."""
        self._assigned = False
        for instance in self._instances.values():
            await instance.suspend()

    async def stop(self) -> None:
        """End everything."""
        self._assigned = False
        while self._instances:
            await self._instances.popitem()[1].stop()

    def submit_row(self, row: EngineResource, acknowledge: Acknowledge) -> None:
        """Pass a row to its instance; one that is not configured is reported and done with."""
        instance = self._instance_of(row)
        if instance is not None:
            instance.forget_row(row, acknowledge) if row.deleted else instance.submit_row(row, acknowledge)
        elif row.deleted:
            acknowledge()
        else:
            self._refuse(row, acknowledge)

    def _instance_of(self, row: EngineResource) -> InstanceController | None:
        name = row.engine_instance_id
        if name in self._namespaces and name not in self._instances:
            # Its rows come by another partition than we would have thought: the connector decides, not we.
            log.warning("rows of an instance come by an unexpected partition", instance=name)
            instance = self._watch(name)
            instance.start_work(())
        return self._instances.get(name)

    def _watch(self, name: str) -> InstanceController:
        instance = self._instances[name] = self._new_controller(name, self._namespaces[name])
        instance.start()
        return instance

    def _refuse(self, row: EngineResource, acknowledge: Acknowledge) -> None:
        message = f"engine instance {row.engine_instance_id} is not among this agent's (ENGINE_NAMESPACES)"
        log.error("row refused", error=message, name=row.name)
        refusal = Failed(row.digest, permanent=True, message=message)
        self._reports.send_observation(
            row, refusal, lambda arrived: acknowledge() if arrived else self._refuse(row, acknowledge)
        )


def partition_of_instance(instance: str, partitions: int) -> int:
    """``(String.hashCode() & 0x7fffffff) % partitions``: PartitionRouting with ``hash.function=java``."""
    hashed = 0
    for unit in _utf16(instance):
        hashed = (31 * hashed + unit) & 0xFFFFFFFF
    return (hashed & 0x7FFFFFFF) % partitions


def _utf16(text: str) -> memoryview[int]:
    """Java hashes UTF-16 code units, not characters."""
    return memoryview(text.encode("utf-16-le")).cast("H")
