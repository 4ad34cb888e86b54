"""Builds an agent out of its settings and runs it. The only place that reads the environment or opens a connection."""

from __future__ import annotations

import asyncio
import signal
import tempfile
from datetime import timedelta
from pathlib import Path

import structlog
import uvloop

from services.agent.clock import Clock, LoopClock
from services.agent.credentials import Composers, CredentialSettings
from services.agent.desired_state import DesiredState
from services.agent.engine_stream import EngineStream, faust_app
from services.agent.fleet import Fleet
from services.agent.instance import Instance
from services.agent.intake import Intake
from services.agent.outside import Outside, Rules
from services.agent.preflight import check_cluster, check_topic
from services.agent.reports import ObservationReports
from services.agent.settings import AgentSettings
from services.agent.topic_reader import TopicReader
from services.common.errors import InvalidConfiguration
from services.common.kafka import ENGINE, DeadLetters, Publisher, Topic, check_login, load_topics
from services.common.kube import connect, reflect
from services.common.messages import AvroCodec, DeadLetter, EngineResource, Observation, SchemaRegistry
from services.common.messages.codec import decode_record
from services.common.sealing import OpeningKeys
from services.common.settings import load
from services.common.startup import await_dependency
from services.common.telemetry import Probes, configure_logging

log = structlog.get_logger(__name__)

DELIVERY_SECONDS = 5.0


def start() -> None:
    """Run until SIGTERM or SIGINT. Raises the errors of a start that fails."""
    settings = load(AgentSettings)
    configure_logging("agent", settings.log_level, settings.log_format)
    topic, keys = _engine_topic(settings.engine_topic), OpeningKeys.load(settings.sealing_private_keys)
    patience = settings.start_timeout_seconds
    registry = SchemaRegistry(settings.schema_registry_url)
    observations, letters = await_dependency("schema registry", lambda: _codecs(registry), patience)
    brokers = settings.kafka_bootstrap_servers
    await_dependency(f"Kafka at {brokers}", lambda: check_login(settings), patience)
    await_dependency(f"Kafka at {brokers}", lambda: check_topic(settings, topic), patience)
    namespaces = settings.engine_namespaces.values()
    await_dependency(
        "Kubernetes API server", lambda: check_cluster(settings.kubeconfig, namespaces, patience), patience
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(settings, keys, topic, registry, observations, letters))


async def _serve(
    settings: AgentSettings,
    keys: OpeningKeys,
    topic: Topic,
    registry: SchemaRegistry,
    observations: AvroCodec[Observation],
    letters: AvroCodec[DeadLetter],
) -> None:
    """Build everything, run it, and take it down in the reverse order."""
    ending = Ending()
    clock = LoopClock()
    publisher = Publisher(settings, "agent")
    reports = ObservationReports(publisher, observations, settings.observations_topic, clock)

    def decode(value: bytes) -> EngineResource:
        return EngineResource.from_record(decode_record(registry, value))

    with tempfile.TemporaryDirectory(prefix="gitops-agent-") as data:
        app = faust_app(settings, topic, Path(data))
        desired = DesiredState(decode)
        reader = TopicReader(settings, topic.name, settings.agent_group)
        stream = EngineStream(app, topic, reader, desired, ending.by_defect)
        async with await connect(settings.kubeconfig) as cluster:
            outside = Outside(
                cluster=cluster,
                follow=lambda kind, namespace: reflect(cluster, kind.resource, namespace, selector=kind.selector),
                composers=_composers(settings, keys, clock),
                reports=reports,
                clock=clock,
                on_defect=ending.by_defect,
            )
            rules = _rules(settings)
            fleet = Fleet(
                settings.engine_namespaces,
                topic.partitions,
                reports,
                lambda name, namespace: Instance(name, namespace, outside, rules),
            )
            intake = Intake(decode, desired, fleet, DeadLetters(publisher, letters, "agent"))
            stream.connect(intake, fleet)
            probes = Probes("agent", alive=ending.reason, ready=lambda: ending.reason() or fleet.not_ready())
            port = probes.start(settings.metrics_host, settings.metrics_port)
            log.info("starting", metrics_port=port, instances=list(settings.engine_namespaces))
            running = asyncio.create_task(app.start(), name="faust")
            try:
                await ending.wait(running)
            finally:
                # 1. No new effects. 2. Observations of finished effects arrive, which acknowledges their events.
                # 3. faust commits what is acknowledged and leaves the group. A crash between any two leaves events
                #    that are sent again, and effects that are found to be so already.
                await stream.stop_work()
                await asyncio.to_thread(publisher.flush, DELIVERY_SECONDS)
                await asyncio.sleep(0)
                await app.stop()
                await asyncio.to_thread(publisher.close, DELIVERY_SECONDS)
                probes.stop()
    ending.raise_defect()


class Ending:
    """Why the process ends: a signal, or a defect that must not be lived with."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()
        self._defect: BaseException | None = None
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._asked.set)

    def by_defect(self, error: BaseException) -> None:
        """Something failed that nobody handles."""
        log.error("defect", error=repr(error), exc_info=error)
        self._defect = self._defect or error
        self._asked.set()

    def reason(self) -> str:
        """Empty while the process shall live."""
        return "stopping" if self._asked.is_set() else ""

    async def wait(self, running: asyncio.Task[None]) -> None:
        """Until the process is asked to end, or ``running`` fails."""
        running.add_done_callback(self._started)
        await self._asked.wait()

    def _started(self, running: asyncio.Task[None]) -> None:
        if not running.cancelled() and (error := running.exception()) is not None:
            self.by_defect(error)

    def raise_defect(self) -> None:
        """End with the defect, if there was one."""
        if self._defect is not None:
            raise SystemExit(1) from self._defect


def _engine_topic(name: str) -> Topic:
    """The declaration of gitops.engine, which may go by another name."""
    for topic in load_topics():
        if topic.name == ENGINE:
            return topic.model_copy(update={"name": name})
    raise InvalidConfiguration(f"compose/topics.yaml declares no topic {ENGINE}")


def _codecs(registry: SchemaRegistry) -> tuple[AvroCodec[Observation], AvroCodec[DeadLetter]]:
    return (
        AvroCodec(registry, Observation, "gitops.observations-value"),
        AvroCodec(registry, DeadLetter, "gitops.dead-letters-value"),
    )


def _composers(settings: AgentSettings, keys: OpeningKeys, clock: Clock) -> Composers:
    bounds = CredentialSettings(
        known_hosts=settings.ssh_known_hosts,
        git_authorities=settings.git_authorities,
        token_lifetime=timedelta(seconds=settings.token_lifetime_seconds),
        checks=settings.checks_at_once,
        checks_per_tenant=settings.checks_at_once_per_tenant,
    )
    return Composers(keys, settings.allowed_addresses, bounds, clock)


def _rules(settings: AgentSettings) -> Rules:
    return Rules(
        concurrency=settings.concurrency_per_instance,
        deletion_deadline=timedelta(seconds=settings.deletion_deadline_seconds),
        comparison_interval=timedelta(seconds=settings.comparison_interval_seconds),
        orphan_grace=timedelta(seconds=settings.orphan_grace_seconds),
        check_interval=timedelta(seconds=settings.check_interval_seconds),
        failed_check_interval=timedelta(seconds=settings.failed_check_interval_seconds),
    )
