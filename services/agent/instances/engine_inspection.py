"""Inspects each instance's Argo CD: logs and measures what it lacks, and decides whether it may be used.

The agent deploys nothing new on an instance that is refused, and says so on the resources. It still withdraws
credentials, narrows projects and deletes. Other instances are not affected. An API server that does not answer changes
no verdict, but nothing new is deployed before the first answer.

An instance that the agent may not read is refused: at once if it was never read, otherwise if that lasts, because an
API server that has just started may not know all rights yet.

A config map may change at any time, so the inspection is repeated. It is repeated at once when instances have come or
gone, or when :mod:`health <services.agent.health>` reports one unreachable; and soon while one is refused, which may
just be installed or repaired.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress

import structlog

from services.agent.instances.controller_rights import excessive_rights
from services.agent.instances.crd_schemas import OPTIONAL, REQUIRED, dropped
from services.agent.instances.engine_requirements import (
    DEFAULT_PROJECT,
    Acceptance,
    Found,
    Verdict,
    verdict_on_unreadable,
    verdicts,
)
from services.agent.instances.reconciliation_interval import compares_within
from services.agent.instances.workload_requirements import GENERATORS, PARAMETERS, Workloads
from services.agent.objects.engine_state import EngineState
from services.agent.objects.fleet import Fleet
from services.common.argocd_names import CONFIG, CONTROLLER, GROUP, REPO_SERVER, VERSION
from services.common.backoff import Backoff
from services.common.clock import Clock
from services.common.errors import Retry, Wait
from services.common.kubernetes import (
    APP_PROJECT,
    CONFIG_MAP,
    DEPLOYMENT,
    STATEFUL_SET,
    ApiResource,
    ForbiddenGrace,
    KubeClient,
    Manifest,
    NotFound,
    Rejected,
)
from services.common.telemetry import metrics

log = structlog.get_logger(__name__)

INTERVAL_SECONDS, RETRY_SECONDS, FIRST_RETRY_SECONDS = 300.0, 15.0, 1.0
GAUGES = (metrics.ENGINE_UNMET_REQUIREMENTS, metrics.ENGINE_REFUSED)


class EngineInspection:
    """Inspects the engine instances of one cluster."""

    def __init__(
        self,
        cluster: KubeClient,
        fleet: Fleet,
        states: defaultdict[str, EngineState],
        clock: Clock,
        accepted: Acceptance,
    ) -> None:
        """``states``, by instance id, are updated."""
        self._accepted = accepted
        self._cluster, self._fleet, self._states, self._clock = cluster, fleet, states, clock
        self._reported: dict[str, Verdict] = {}
        self._graces = defaultdict[str, ForbiddenGrace](lambda: ForbiddenGrace(0, clock))
        """No grace for an instance that was never read: there is no verdict that could stay."""
        self._requested = asyncio.Event()
        self._delays = Backoff(FIRST_RETRY_SECONDS, RETRY_SECONDS)

    def inspect_at_once(self) -> None:
        """Inspect at once: instances have come or gone, or became unreachable or reachable."""
        self._delays.reset()
        self._requested.set()

    async def run(self) -> None:
        """Inspect again and again, for ever."""
        while True:
            self._requested.clear()
            seconds = self._seconds_until_next(are_read=await self.inspect_engines())
            with suppress(TimeoutError):
                async with self._clock.timeout_at(self._clock.time() + seconds):
                    await self._requested.wait()

    def _seconds_until_next(self, *, are_read: bool) -> float:
        """Short while an instance was never inspected: nothing is deployed there."""
        if are_read and not any(state.refusal for state in self._states.values()):
            self._delays.reset()
            return INTERVAL_SECONDS
        are_inspected = all(state.is_inspected for state in self._states.values())
        return min(self._delays.next_delay(), RETRY_SECONDS if are_inspected else FIRST_RETRY_SECONDS)

    async def inspect_engines(self) -> bool:
        """Inspect each instance once; returns whether all could be read. One that does not answer keeps its verdict."""
        namespaces = self._fleet.namespaces
        self._forget_all_but(namespaces)
        found, rejected = await self._read_engines(namespaces)
        judged = verdicts(found, self._accepted)
        for name in found:
            self._graces[name] = ForbiddenGrace(clock=self._clock)
            self._states[name].compares_within = compares_within(found[name].config)
        for name, error in rejected.items():
            try:
                self._graces[name].tolerate_rejection(error)
            except Rejected:
                before = self._states[name].refusal
                judged[name] = verdict_on_unreadable(str(error), before, self._accepted)
        for name in namespaces:
            self._states[name].is_inaccessible = name in rejected
        for name, verdict in judged.items():
            self._states[name].note_verdict(verdict.refusal, str(verdict.version or ""))
            self._report(name, verdict)
        return found.keys() == namespaces.keys()

    def _forget_all_but(self, namespaces: Mapping[str, str]) -> None:
        """Forget retired instances."""
        for name in self._states.keys() - namespaces.keys():
            for known in (self._states, self._graces, self._reported):
                known.pop(name, None)
            for gauge in GAUGES:
                gauge.remove(name)

    async def _read_engines(self, namespaces: Mapping[str, str]) -> tuple[dict[str, Found], dict[str, Rejected]]:
        """What was found of each instance, and which ones may not be read.

        An instance that does not answer is in neither.
        """
        try:
            unserved = await self._unserved(namespaces)
        except Rejected as error:
            return {}, dict.fromkeys(namespaces, error)
        except (Retry, Wait) as error:
            log.warning("engines not inspected", error=str(error))
            return {}, {}
        found: dict[str, Found] = {}
        rejected: dict[str, Rejected] = {}
        for name, namespace in namespaces.items():
            with suppress(Retry, Wait):
                try:
                    found[name] = await self._found(namespace, unserved)
                except Rejected as error:
                    rejected[name] = error
        return found, rejected

    async def _unserved(self, namespaces: Mapping[str, str]) -> tuple[str, ...]:
        """Required fields that the CRDs drop. Optional ones are noted in the states."""
        document = await self._cluster.read_schemas(GROUP, VERSION)
        for name in namespaces:
            self._states[name].unserved = tuple(dropped(document, OPTIONAL))
        return tuple(f"{kind}.{'.'.join(path)}" for kind, path in dropped(document, REQUIRED))

    async def _found(self, namespace: str, unserved: tuple[str, ...]) -> Found:
        workloads = Workloads(
            await self._read(DEPLOYMENT, namespace, REPO_SERVER),
            await self._read(STATEFUL_SET, namespace, CONTROLLER),
            await self._data_of(namespace, PARAMETERS),
            await self._data_of(namespace, GENERATORS),
        )
        project = await self._read(APP_PROJECT, namespace, DEFAULT_PROJECT)
        rights = await excessive_rights(self._cluster, namespace, workloads.controller_account)
        return Found(await self._data_of(namespace, CONFIG), project, workloads, unserved, rights)

    async def _data_of(self, namespace: str, name: str) -> dict[str, str] | None:
        config = await self._read(CONFIG_MAP, namespace, name)
        return config if config is None else config.get("data") or {}

    async def _read(self, resource: ApiResource, namespace: str, name: str) -> Manifest | None:
        try:
            return await self._cluster.get_object(resource, namespace, name)
        except NotFound:
            return None

    def _report(self, instance: str, verdict: Verdict) -> None:
        metrics.ENGINE_UNMET_REQUIREMENTS.labels(instance).set(len(verdict.shortcomings))
        metrics.ENGINE_REFUSED.labels(instance).set(bool(verdict.refusal))
        before, self._reported[instance] = self._reported.get(instance), verdict
        if verdict == before:
            return
        version = str(verdict.version or "unknown")
        for shortcoming in verdict.shortcomings:
            log.warning("Argo CD is not as tenancy needs it; see k8s/README.md", instance=instance, lacks=shortcoming)
        if verdict.is_unisolated:
            log.error(
                "tenants are not kept apart, as far as is known: used because ACCEPT_UNISOLATED_ENGINES says so",
                instance=instance,
            )
        if verdict.refusal:
            log.error("nothing new is deployed", instance=instance, version=version, reason=verdict.refusal)
        elif not verdict.shortcomings and before is not None:
            log.info("Argo CD is as tenancy needs it", instance=instance, version=version)
