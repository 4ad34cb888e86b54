"""Puts together the health watch of one instance, and its remedies."""

from __future__ import annotations

from functools import partial

from services.agent.background_tasks import BackgroundTasks
from services.agent.health.health_watch import HealthWatch
from services.agent.health.heartbeat import Heartbeat, HeartbeatSource
from services.agent.health.probe import Probe
from services.agent.instances.appliers import Dependencies
from services.agent.objects.live import EngineObjects
from services.agent.remedies.remedies import Remedies
from services.agent.remedies.remedy_actions import RemedyActions
from services.agent.settings import AgentSettings
from services.common.kubernetes import APPLICATION

BEATS = 2
"""How often within its deadline the heartbeat is requested."""


def health_watch(
    instance: str, namespace: str, live: EngineObjects, dependencies: Dependencies, settings: AgentSettings
) -> HealthWatch:
    """The health watch of an instance. It has a heartbeat if operators have named a repository for it."""
    cluster, clock, engine = dependencies.cluster, dependencies.clock, dependencies.engines[instance]
    heartbeat = None
    if settings.heartbeat_repository:
        source = HeartbeatSource(settings.heartbeat_repository, settings.heartbeat_path, settings.heartbeat_revision)
        heartbeat = Heartbeat(cluster, namespace, source, clock, settings.heartbeat_deadline_seconds / BEATS)
    probe = Probe(
        cluster,
        namespace,
        live.stores[APPLICATION.kind],
        engine,
        clock,
        heartbeat=heartbeat,
        wanted_version=partial(dependencies.wanted_version, instance),
        is_in_service=partial(dependencies.is_in_service, instance),
    )
    return HealthWatch(
        instance,
        probe,
        engine,
        dependencies.reports,
        clock,
        settings,
        inspect_engines=dependencies.inspect_engines,
        on_defect=dependencies.on_defect,
    )


def remedies(instance: str, namespace: str, live: EngineObjects, dependencies: Dependencies) -> Remedies:
    """The remedies of an instance."""
    clock, applications = dependencies.clock, live.stores[APPLICATION.kind]
    actions = RemedyActions(dependencies.cluster, namespace, applications, dependencies.engines[instance], clock)
    tasks = BackgroundTasks(dependencies.on_defect)
    return Remedies(instance, actions, dependencies.reports, clock, tasks)
