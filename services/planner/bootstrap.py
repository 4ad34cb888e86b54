"""Composition root: builds every part from the settings, and checks what they depend on."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import timedelta
from functools import partial

import structlog

from services.common.avro import AvroCodec, RegistryCheck, SchemaRegistry, report_token_expiry, value_subject
from services.common.backoff import Backoff
from services.common.errors import InvalidConfiguration, NoPermission, Retry
from services.common.garbage_collection import collect_rarely
from services.common.kafka import (
    COMMANDS,
    DEAD_LETTERS,
    DEFAULT_ENGINE_CLUSTER,
    FLEET_ORDERS,
    OBSERVATIONS,
    Brokers,
    DeadLetterLimit,
    DeadLetterQueue,
    OffsetTracker,
    Publisher,
    TopicPartition,
    count_partitions,
    described_partitions,
    engine_topic,
    existing_partitions,
    is_observations_topic,
    kafka_at,
    observations_topic,
    read_extents,
    topic_settings,
)
from services.common.messages import Command, DeadLetter, FleetOrder, Observation
from services.common.startup import await_dependency
from services.common.stop_signals import handle_stop_signals
from services.common.telemetry import Heartbeat, Probes, configure_logging
from services.planner import SERVICE
from services.planner.database.connection import Unreachable
from services.planner.database.requirements import check_database, head
from services.planner.database.session import DatabaseSession
from services.planner.engines.available import ENGINES
from services.planner.pipeline.batch_consumer import GROUP, BatchConsumer
from services.planner.pipeline.cluster_topics import find_cluster_topics
from services.planner.pipeline.decode import Codec, Decoder
from services.planner.pipeline.loop import Planner
from services.planner.pipeline.periodic_tasks import PeriodicTasks
from services.planner.settings import PlannerSettings

log = structlog.get_logger(__name__)

STUCK_SECONDS = 120.0
POSITIONS_SECONDS = 60.0


def start(settings: PlannerSettings) -> None:
    """Run the planner until a signal stops it."""
    configure_logging(SERVICE, settings.log_level, settings.log_format)
    report_token_expiry(SERVICE, settings)
    with ExitStack() as closing:
        planner = build(settings, closing)
        handle_stop_signals(planner.stopping.set)
        probes = Probes(SERVICE, alive=planner.heartbeat.silence, ready=lambda: _ready(planner))
        probes.start(settings.metrics_host, settings.metrics_port)
        closing.callback(probes.stop)
        collect_rarely()
        planner.run()


def build(settings: PlannerSettings, closing: ExitStack) -> Planner:
    """The planner, with every dependency seen to answer; ``closing`` ends what it has opened."""
    database, timeout = settings.database_url.get_secret_value(), settings.start_timeout_seconds
    revision = head()
    await_dependency("PostgreSQL", lambda: check_database(database, revision), timeout)
    session = DatabaseSession(database, ENGINES, settings.tenants_in_memory_bytes)
    stopping, heartbeat = threading.Event(), Heartbeat(limit=STUCK_SECONDS)
    closing.callback(session.close)
    await_dependency(kafka_at(settings), lambda: _check_topics(settings), timeout)
    await_dependency(kafka_at(settings), lambda: _check_retention(settings, settings.sync_runs_kept), timeout)
    existing = await_dependency(kafka_at(settings), lambda: existing_partitions(settings), timeout)
    await_dependency("PostgreSQL", lambda: session.forget_positions(existing), timeout)
    offsets = _OffsetLoader(settings, session, stopping, heartbeat)
    consumer = BatchConsumer(settings, offsets)
    closing.callback(consumer.close)
    publisher = Publisher(settings, SERVICE)
    closing.callback(publisher.close)
    registry = SchemaRegistry(settings)
    limit = DeadLetterLimit(SERVICE, settings.dead_letter_share, settings.dead_letter_minimum)
    decoder = await_dependency(registry.name, lambda: _decoder(registry, publisher, limit, consumer.offsets), timeout)
    check = RegistryCheck(SERVICE, registry)
    check.start()
    closing.callback(check.stop)
    return Planner(
        consumer=consumer,
        decoder=decoder,
        session=session,
        policy=settings.policy,
        batch_limit=settings.batch_limit,
        periodic=PeriodicTasks(settings.audit_kept, settings.sync_runs_kept),
        find_cluster_topics=partial(find_cluster_topics, settings),
        stopping=stopping,
        heartbeat=heartbeat,
    )


class _OffsetLoader:
    """Loads positions from the database when partitions are assigned, and claims the partitions.

    It also reads the ends of the logs, which show whether a position is one of this log. If these cannot be read for
    :data:`POSITIONS_SECONDS`, the planner gives the partitions up and joins the group again: one of the topics may have
    been deleted.
    """

    def __init__(
        self, brokers: Brokers, session: DatabaseSession, stopping: threading.Event, heartbeat: Heartbeat
    ) -> None:
        self._brokers, self._store, self._stopping, self._heartbeat = brokers, session, stopping, heartbeat

    def __call__(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        delays, deadline = Backoff(), time.monotonic() + POSITIONS_SECONDS
        while True:
            try:
                return self._store.claim_partitions(partitions, read_extents(self._brokers, GROUP, partitions))
            except Unreachable as error:
                log.warning("positions not read", error=str(error))
                return {}
            except Retry as error:
                log.warning("positions not read", error=str(error))
                self._heartbeat.beat()
                if time.monotonic() >= deadline or self._stopping.wait(delays.next_delay()):
                    return {}


def _decoder(registry: SchemaRegistry, publisher: Publisher, limit: DeadLetterLimit, offsets: OffsetTracker) -> Decoder:
    codecs: dict[str, Codec] = {
        COMMANDS: AvroCodec(registry, Command, value_subject(COMMANDS)),
        OBSERVATIONS: AvroCodec(registry, Observation, value_subject(OBSERVATIONS)),
        FLEET_ORDERS: AvroCodec(registry, FleetOrder, value_subject(FLEET_ORDERS)),
    }
    letters = AvroCodec(registry, DeadLetter, value_subject(DEAD_LETTERS))
    return Decoder(codecs, DeadLetterQueue(publisher, letters, SERVICE), limit, offsets)


def _check_topics(brokers: Brokers) -> None:
    """A tenant's commands and observations must be in partitions of the same number, orders all in one partition.

    Raises InvalidConfiguration, NoPermission if planners may not ask for the topic of an engine cluster, and Retry if
    the brokers do not answer.
    """
    reports = observations_topic(DEFAULT_ENGINE_CLUSTER)
    counts = count_partitions(brokers, (COMMANDS, reports, FLEET_ORDERS, DEAD_LETTERS))
    for topic, count in sorted(existing_partitions(brokers).items()):
        if is_observations_topic(topic) and count != counts[COMMANDS]:
            raise InvalidConfiguration(
                f"{COMMANDS} has {counts[COMMANDS]} partitions and {topic} {count}; they must have the same number"
            )
    if counts[FLEET_ORDERS] != 1:
        raise InvalidConfiguration(f"{FLEET_ORDERS} has {counts[FLEET_ORDERS]} partitions; it must have one")
    of_cluster = engine_topic(DEFAULT_ENGINE_CLUSTER)
    if described_partitions(brokers, [of_cluster])[of_cluster] is None:
        raise NoPermission(f"Kafka does not let planners describe {of_cluster}; see 'gitopsctl topics acls'")


def _check_retention(brokers: Brokers, sync_runs_kept: timedelta) -> None:
    """Check that sync runs are remembered longer than the log of commands keeps them, as a log may be read again.

    A segment is deleted as a whole, once its newest message is old enough. So messages may stay longer, by the time for
    which a segment is written. That is a warning only: topics of earlier releases have no such limit. Raises
    InvalidConfiguration, and Retry if the brokers do not answer.
    """
    try:
        settings = topic_settings(brokers, COMMANDS)
    except NoPermission as error:
        log.warning("not known how long commands are kept; run 'gitopsctl topics acls'", error=str(error))
        return
    retention, segment = (int(settings[name]) for name in ("retention.ms", "segment.ms"))
    kept = sync_runs_kept / timedelta(milliseconds=1)
    if retention < 0:
        raise InvalidConfiguration(
            f"{COMMANDS} keeps messages for ever (retention.ms), and SYNC_RUNS_KEPT is {sync_runs_kept}: a sync run "
            "that is forgotten could run again; run 'gitopsctl topics apply'"
        )
    if kept <= retention:
        raise InvalidConfiguration(
            f"SYNC_RUNS_KEPT is {sync_runs_kept}, and {COMMANDS} keeps messages for "
            f"{timedelta(milliseconds=retention)} (retention.ms): a sync run that is forgotten could run again; make "
            "SYNC_RUNS_KEPT longer, or run 'gitopsctl topics apply'"
        )
    if kept <= retention + segment:
        log.warning(
            "commands may stay longer than SYNC_RUNS_KEPT; run 'gitopsctl topics apply'",
            topic=COMMANDS,
            retention_ms=retention,
            segment_ms=segment,
        )


def _ready(planner: Planner) -> str:
    return planner.failures.latest or ("" if planner.consumer.partitions else "no partitions are assigned")
