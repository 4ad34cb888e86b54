"""Builds an agent from its settings and runs it. Only this module reads the environment or opens a connection."""

from __future__ import annotations

import asyncio
import math
import tempfile
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path

import structlog

from services.agent import SERVICE
from services.agent.agent import Agent, Shutdown
from services.agent.credentials.credential_checker import CredentialChecker, CredentialSettings
from services.agent.instances.appliers import Dependencies
from services.agent.instances.engine_inspection import EngineInspection
from services.agent.instances.engine_requirements import Acceptance
from services.agent.instances.instance_controller import InstanceController
from services.agent.objects.engine_state import EngineState
from services.agent.objects.fleet import Fleet
from services.agent.objects.managed_kinds import KINDS, VERBS, ManagedKind
from services.agent.observe.observation_sink import ObservationSink
from services.agent.settings import AgentSettings
from services.agent.stream.desired_state import DesiredState, SnapshotReader
from services.agent.stream.engine_stream import EngineStream
from services.agent.stream.faust_app import faust_app
from services.agent.stream.fleet_follower import FleetFollower
from services.agent.stream.message_handler import MessageHandler
from services.agent.stream.owned_instances import OwnedInstances
from services.agent.stream.stall_detector import StallDetector
from services.common.avro import SchemaRegistry, decode_record, report_token_expiry
from services.common.clock import Clock, SystemClock
from services.common.errors import InvalidConfiguration, NoPermission
from services.common.garbage_collection import collect_rarely
from services.common.kafka import (
    OBSERVATIONS,
    Brokers,
    DeadLetterLimit,
    DeadLetterQueue,
    GroupSession,
    OffsetTracker,
    Publisher,
    Topic,
    WholeTopicReader,
    count_partitions,
    load_topics,
)
from services.common.kubernetes import Access, KubeClient, Reflection, connect, reflect, require_access
from services.common.message_log import Messaging, await_messaging, row_of
from services.common.messages import EngineResource, FleetInstance, Observation
from services.common.reachability import Reachability
from services.common.sealing import OpeningKeys
from services.common.startup import await_dependency
from services.common.telemetry import Probes, configure_logging

log = structlog.get_logger(__name__)


def start(settings: AgentSettings) -> None:
    """Run until SIGTERM or SIGINT. Raises the errors of a start that fails."""
    configure_logging(SERVICE, settings.log_level, settings.log_format)
    report_token_expiry(SERVICE, settings)
    keys = OpeningKeys.load_of_cluster(settings.sealing_private_keys, settings.engine_cluster)
    topics = _topics_of_cluster(settings)
    messaging = await_messaging(settings, Observation, OBSERVATIONS, lambda: check_topics(settings, topics))
    follower = _read_fleet(settings, messaging.registry)
    check_cluster(settings.kubeconfig, follower.fleet.namespaces.values(), settings.start_timeout_seconds)
    collect_rarely()
    # Not uvloop: it loses track of the descriptors of cancelled connections (uvloop#653), and one connection's data may
    # come out of another, in a process that talks to the servers of many tenants.
    asyncio.run(_serve(settings, keys, messaging, follower))


def _read_fleet(settings: AgentSettings, registry: SchemaRegistry) -> FleetFollower:
    """Read the fleet, and return the follower that keeps it current."""
    decode = partial(row_of, FleetInstance, registry)
    reader = WholeTopicReader(settings, settings.fleet_topic, settings.consumer_group, decode, SERVICE)
    rows = await_dependency(f"topic {settings.fleet_topic}", reader.read_news, settings.start_timeout_seconds)
    return FleetFollower(Fleet(settings.engine_cluster, rows), reader, SystemClock())


async def _serve(
    settings: AgentSettings, keys: OpeningKeys, messaging: Messaging[Observation], follower: FleetFollower
) -> None:
    shutdown = Shutdown()
    with tempfile.TemporaryDirectory(prefix="gitops-agent-") as data:
        async with await connect(settings.kubeconfig) as cluster:
            agent = build(settings, keys, messaging, cluster, Path(data), shutdown, follower=follower)
            probes = Probes(SERVICE, alive=agent.unhealthy, ready=agent.not_ready)
            port = probes.start(settings.metrics_host, settings.metrics_port)
            log.info("starting", metrics_port=port, instances=sorted(follower.fleet.namespaces))
            try:
                await agent.run()
            finally:
                await agent.close()
                probes.stop()
    shutdown.raise_defect()


def build(
    settings: AgentSettings,
    keys: OpeningKeys,
    messaging: Messaging[Observation],
    cluster: KubeClient,
    data: Path,
    shutdown: Shutdown,
    *,
    follower: FleetFollower,
) -> Agent:
    """Put an agent together, on the event loop that will run it. ``data`` is a folder that nobody else uses."""
    clock, publisher, (topic, _) = SystemClock(), Publisher(settings, SERVICE), _topics_of_cluster(settings)
    fleet = follower.fleet
    session = GroupSession(settings.session_timeout_seconds, clock)
    decode = partial(_row, messaging.registry)
    reports = ObservationSink(
        publisher, messaging.messages, settings.topic_of_reports, clock, session.require_membership
    )
    accepted = Acceptance(
        unseen=settings.accept_unseen_engines,
        unisolated=settings.accept_unisolated_engines,
        installation_id=settings.installation_id,
    )
    engines = defaultdict[str, EngineState](EngineState)
    inspection = EngineInspection(cluster, fleet, engines, clock, accepted)
    dependencies = Dependencies(
        cluster=cluster.fenced(session.require_membership),
        follow=partial(follow, cluster),
        checker=_checker(settings, keys, clock),
        reports=reports,
        clock=clock,
        on_defect=shutdown.fail_with,
        engines=engines,
        is_platform=lambda namespace: settings.is_platform(namespace) or fleet.is_engine_namespace(namespace),
        wanted_version=fleet.wanted_version,
        is_in_service=fleet.is_in_service,
        inspect_engines=inspection.inspect_at_once,
    )
    new_controller = partial(InstanceController, dependencies=dependencies, settings=settings)
    instances = OwnedInstances(fleet, topic.partitions, reports, new_controller, shutdown.fail_with)
    desired, offsets = DesiredState(decode), OffsetTracker()
    app = faust_app(settings, offsets, session, data)
    snapshots = SnapshotReader(settings, topic.name, settings.consumer_group)
    stream = EngineStream(app, topic, snapshots, desired, shutdown.fail_with, StallDetector())
    dead_letters = DeadLetterQueue(publisher, messaging.dead_letters, SERVICE)
    limit = DeadLetterLimit(SERVICE, settings.dead_letter_share, settings.dead_letter_minimum)
    messages = MessageHandler(decode, desired, instances, dead_letters, limit, offsets, look_for=follower.look_for)
    stream.connect_callbacks(messages, instances)
    follower.call_on_change(instances.follow_fleet)
    follower.call_on_change(inspection.inspect_at_once)
    reachability = Reachability("the API server", cluster.require_answer, clock)
    return Agent(app, stream, instances, publisher, inspection, shutdown, fleet=follower, cluster=reachability)


def follow(cluster: KubeClient, kind: ManagedKind, namespace: str) -> AsyncGenerator[Reflection]:
    """List and watch our objects of one kind in one engine namespace, for ever.

    A forbidden watch affects its own instance only; the other instances of this process are served.
    """
    return reflect(cluster, kind.resource, namespace, selector=kind.selector, grace_seconds=math.inf)


def _row(registry: SchemaRegistry, key: bytes | None, value: bytes | None) -> EngineResource:
    """Decode a row. A deleted row comes as a tombstone, which has only a key."""
    if value is None:
        return EngineResource.from_tombstone(decode_record(registry, key))
    return EngineResource.from_record(decode_record(registry, value))


def _topics_of_cluster(settings: AgentSettings) -> tuple[Topic, Topic]:
    """Declarations of the cluster's topics of rows and observations. Settings may give the topics other names."""
    rows, reports = load_topics(engine_cluster=settings.engine_cluster)
    names = settings.topic_of_rows, settings.topic_of_reports
    return rows.model_copy(update={"name": names[0]}), reports.model_copy(update={"name": names[1]})


def _checker(settings: AgentSettings, keys: OpeningKeys, clock: Clock) -> CredentialChecker:
    bounds = CredentialSettings(
        known_hosts=settings.ssh_known_hosts,
        git_authorities=settings.git_authorities,
        token_lifetime=timedelta(seconds=settings.token_lifetime_seconds),
        checks=settings.checks_at_once,
        checks_per_tenant=settings.checks_at_once_per_tenant,
    )
    return CredentialChecker(keys, settings.allowed_addresses, bounds, clock)


def check_topics(brokers: Brokers, topics: Sequence[Topic]) -> None:
    """Raises as :func:`count_partitions`, and InvalidConfiguration if a topic differs from its declaration."""
    partitions = count_partitions(brokers, [topic.name for topic in topics])
    for topic in topics:
        if partitions[topic.name] != topic.partitions:
            raise InvalidConfiguration(
                f"topic {topic.name} has {partitions[topic.name]} partitions, topics.yaml says {topic.partitions}; "
                "run 'gitopsctl topics apply'"
            )


def check_cluster(kubeconfig: Path | None, namespaces: Iterable[str], timeout_seconds: float) -> None:
    """Return if the agent can work in at least one engine namespace. The others are logged.

    Raises NoPermission naming what is missing, InvalidConfiguration without Argo CD's CRDs, Unavailable.
    """
    asyncio.run(_check_cluster(kubeconfig, tuple(namespaces), timeout_seconds))


async def _check_cluster(kubeconfig: Path | None, namespaces: tuple[str, ...], timeout_seconds: float) -> None:
    async with await connect(kubeconfig) as client:
        errors = await asyncio.gather(*(_missing_right(client, each, timeout_seconds) for each in namespaces))
    if missing := [error for error in errors if error is not None]:
        if len(missing) == len(namespaces):
            raise missing[0]
        for error in missing:
            log.error("an engine namespace is not served", error=str(error))


async def _missing_right(client: KubeClient, namespace: str, timeout_seconds: float) -> NoPermission | None:
    """The right that the agent lacks in an engine namespace; None if it has all."""
    try:
        for access in accesses(namespace):
            await require_access(client, access, timeout_seconds)
    except NoPermission as error:
        return error
    return None


def accesses(namespace: str) -> list[Access]:
    """The rights that an agent needs in an engine namespace."""
    return [
        Access(
            kind.resource,
            VERBS,
            remedy="grant it to the agent's account by a Role",
            not_served="are Argo CD's CRDs installed?",
            namespace=namespace,
        )
        for kind in KINDS.values()
    ]
