"""Tells an operator, in the log and by a gauge, what each Argo CD lacks of what tenancy needs of it.

It tells and does no more: an agent that refused to start would neither withdraw credentials nor delete, for tenants who
are there already, and a config map may change at any time after a start. So it is looked at again and again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import structlog

from services.agent.clock import Clock, pause
from services.agent.cluster import Cluster
from services.agent.engine_requirements import CONFIG, DEFAULT_PROJECT, Found, unmet
from services.common.errors import Permanent, Retry, Wait
from services.common.kube import APP_PROJECT, CONFIG_MAP, Manifest, NotFound, Resource
from services.common.telemetry import metrics

log = structlog.get_logger(__name__)

INTERVAL = timedelta(minutes=5)


class EngineInspection:
    """Looks at the configuration of the engine instances."""

    def __init__(self, cluster: Cluster, namespaces: Mapping[str, str], clock: Clock) -> None:
        """``namespaces`` by instance id."""
        self._cluster, self._namespaces, self._clock = cluster, namespaces, clock
        self._told: dict[str, list[str]] = {}

    async def run(self) -> None:
        """For ever."""
        while True:
            await self.look()
            await pause(self._clock, INTERVAL)

    async def look(self) -> None:
        """Once at each. What does not answer is told of by others, who need it more; it keeps its last verdict."""
        found: dict[str, Found] = {}
        verdicts: dict[str, list[str]] = {}
        for name, namespace in self._namespaces.items():
            try:
                found[name] = await self._found(namespace)
            except Permanent as error:
                verdicts[name] = [f"the agent may not see it: {error}"]
            except (Retry, Wait):
                continue
        for name, shortcomings in (verdicts | unmet(found)).items():
            self._tell(name, shortcomings)

    async def _found(self, namespace: str) -> Found:
        config = await self._read(CONFIG_MAP, namespace, CONFIG)
        project = await self._read(APP_PROJECT, namespace, DEFAULT_PROJECT)
        return Found(config if config is None else config.get("data") or {}, project)

    async def _read(self, resource: Resource, namespace: str, name: str) -> Manifest | None:
        try:
            return await self._cluster.get(resource, namespace, name)
        except NotFound:
            return None

    def _tell(self, instance: str, shortcomings: list[str]) -> None:
        metrics.ENGINE_UNMET_REQUIREMENTS.labels(instance).set(len(shortcomings))
        before = self._told.get(instance, [])
        self._told[instance] = shortcomings
        if shortcomings == before:
            return
        for shortcoming in shortcomings:
            log.warning("Argo CD is not as tenancy needs it; see k8s/README.md", instance=instance, lacks=shortcoming)
        if not shortcomings:
            log.info("Argo CD is as tenancy needs it", instance=instance)
