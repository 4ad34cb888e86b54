"""Measures one engine instance: a few calls to its API server, and a look at the known Applications.

Objects that cannot be read, or do not exist, give no signal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog

from services.agent.health.applications import Refreshes, applications_signal
from services.agent.health.certificates import Certificates
from services.agent.health.heartbeat import Heartbeat
from services.agent.health.signals import HeartbeatSignal, Signals, Workload
from services.agent.health.workloads import workloads_of
from services.agent.objects.engine_state import EngineState
from services.agent.objects.live import LiveObject
from services.agent.objects.managed_kinds import ObjectKey
from services.common.argocd_names import CONFIG, CONTROLLER, NAME_LABEL, REDIS, REPO_SERVER
from services.common.clock import Clock
from services.common.errors import Permanent, Retry, Wait
from services.common.kubernetes import (
    CONFIG_MAP,
    DEPLOYMENT,
    POD,
    STATEFUL_SET,
    ApiResource,
    KubeClient,
    Manifest,
    NotFound,
    Rejected,
)

log = structlog.get_logger(__name__)

OWNERS = {CONTROLLER: STATEFUL_SET, REPO_SERVER: DEPLOYMENT, REDIS: DEPLOYMENT}
"""A Redis in high availability, or an external one, has another name: it gives no signal."""
PODS = f"{NAME_LABEL} in ({CONTROLLER},{REPO_SERVER},{REDIS})"


class Probe:
    """The probe of one instance."""

    def __init__(
        self,
        cluster: KubeClient,
        namespace: str,
        applications: Mapping[ObjectKey, LiveObject],
        engine: EngineState,
        clock: Clock,
        *,
        heartbeat: Heartbeat | None,
        wanted_version: Callable[[], str],
        is_in_service: Callable[[], bool],
    ) -> None:
        """``applications`` and ``engine`` are kept up to date by others. ``heartbeat`` is optional.

        ``wanted_version`` returns the version that the instance was ordered with, empty if none. ``is_in_service``
        returns whether tenants may be on the instance.
        """
        self._cluster, self._namespace, self._clock = cluster, namespace, clock
        self._applications, self._engine, self._heartbeat = applications, engine, heartbeat
        self._wanted_version, self._certificates = wanted_version, Certificates(cluster, namespace, clock)
        self._is_in_service, self._refreshes = is_in_service, Refreshes()

    async def measure(self) -> Signals:
        """Measure once. Raises nothing that a server causes."""
        engine, began, error = self._engine, self._clock.time(), ""
        workloads: tuple[Workload, ...] = ()
        is_inaccessible = False
        try:
            is_inaccessible = await self._is_forbidden()
            workloads = await self._workloads()
        except Retry as failure:
            error = str(failure)
        seconds = self._clock.time() - began
        heartbeat = None if error else await self._beat()
        return Signals(
            api_error=error,
            api_seconds=seconds,
            is_inaccessible=is_inaccessible or engine.is_inaccessible,
            refusal=engine.refusal,
            workloads=workloads,
            is_in_service=self._is_in_service(),
            has_heartbeat=self._heartbeat is not None,
            heartbeat=heartbeat,
            applications=applications_signal(
                self._applications, self._refreshes, self._clock.now(), engine.compares_within
            ),
            version=engine.version,
            wanted_version=self._wanted_version(),
            certificates=() if error else await self._certificates.look(),
        )

    async def _is_forbidden(self) -> bool:
        """Whether not even the configuration may be read, as when the namespace is gone with the agent's rights.

        Raises Retry.
        """
        try:
            await self._cluster.get_object(CONFIG_MAP, self._namespace, CONFIG)
        except (NotFound, Wait):
            return False
        except Rejected:
            return True
        return False

    async def _workloads(self) -> tuple[Workload, ...]:
        """The workloads. Raises Retry."""
        owners = {name: await self._owner(resource, name) for name, resource in OWNERS.items()}
        pods: list[Manifest] = []
        try:
            async for page in self._cluster.list_pages(POD, self._namespace, selector=PODS):
                pods += page.items
        except (Rejected, Wait):
            pods = []
        return tuple(workloads_of(owners, pods, self._clock.now()))

    async def _owner(self, resource: ApiResource, name: str) -> Manifest | None:
        try:
            return await self._cluster.get_object(resource, self._namespace, name)
        except (Rejected, NotFound):
            return None

    async def _beat(self) -> HeartbeatSignal | None:
        if self._heartbeat is None:
            return None
        try:
            return await self._heartbeat.beat()
        except (Retry, Wait, Permanent) as error:
            log.warning("heartbeat not looked at", namespace=self._namespace, error=str(error))
            return None
