"""Reports, in the log and by a gauge, which settings that tenancy needs each Argo CD lacks.

It only reports: an agent that refused to start could neither withdraw credentials nor delete anything for existing
tenants. A config map may change at any time, so the inspection is repeated.
"""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from services.agent.instances.engine_requirements import CONFIG, DEFAULT_PROJECT, Found, unmet
from services.common.clock import Clock
from services.common.errors import Permanent, Retry, Wait
from services.common.kubernetes import APP_PROJECT, CONFIG_MAP, ApiResource, KubeClient, Manifest, NotFound
from services.common.telemetry import metrics

log = structlog.get_logger(__name__)

INTERVAL_SECONDS = 300.0


class EngineInspection:
    """Inspects the configuration of the engine instances."""

    def __init__(self, cluster: KubeClient, namespaces: Mapping[str, str], clock: Clock) -> None:
        """``namespaces`` by instance id."""
        self._cluster, self._namespaces, self._clock = cluster, namespaces, clock
        self._reported: dict[str, list[str]] = {}

    async def run(self) -> None:
        """For ever."""
        while True:
            await self.inspect_engines()
            await self._clock.sleep(INTERVAL_SECONDS)

    async def inspect_engines(self) -> None:
        """Inspect each instance once. One that does not answer keeps its last result."""
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
            self._report(name, shortcomings)

    async def _found(self, namespace: str) -> Found:
        config = await self._read(CONFIG_MAP, namespace, CONFIG)
        project = await self._read(APP_PROJECT, namespace, DEFAULT_PROJECT)
        return Found(config if config is None else config.get("data") or {}, project)

    async def _read(self, resource: ApiResource, namespace: str, name: str) -> Manifest | None:
        try:
            return await self._cluster.get_object(resource, namespace, name)
        except NotFound:
            return None

    def _report(self, instance: str, shortcomings: list[str]) -> None:
        metrics.ENGINE_UNMET_REQUIREMENTS.labels(instance).set(len(shortcomings))
        before = self._reported.get(instance, [])
        self._reported[instance] = shortcomings
        if shortcomings == before:
            return
        for shortcoming in shortcomings:
            log.warning("Argo CD is not as tenancy needs it; see k8s/README.md", instance=instance, lacks=shortcoming)
        if not shortcomings:
            log.info("Argo CD is as tenancy needs it", instance=instance)
