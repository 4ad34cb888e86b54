"""Composition root: builds every part from the settings, and checks what they depend on."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from contextlib import ExitStack

import structlog

from services.common.backoff import Backoff
from services.common.errors import InvalidConfiguration, Retry
from services.common.kafka import COMMANDS, DEAD_LETTERS, OBSERVATIONS, DeadLetters, Publisher, check_login, kafka_at
from services.common.messages import AvroCodec, Command, DeadLetter, Observation, SchemaRegistry, value_subject
from services.common.settings import load
from services.common.startup import await_dependency
from services.common.telemetry import Probes, configure_logging
from services.planner import SERVICE
from services.planner.consume import LogConsumer
from services.planner.decode import Codec, Decoder
from services.planner.kinds.limits import Limits
from services.planner.offsets import TopicPartition
from services.planner.pulse import Pulse
from services.planner.revision import check_revision, head
from services.planner.rules import Rules, SweepGuard
from services.planner.service import Planner
from services.planner.settings import PlannerSettings
from services.planner.store import Store
from services.planner.upkeep import Upkeep

log = structlog.get_logger(__name__)

STUCK_SECONDS = 120.0


def start() -> None:
    """Run the planner until it is told to stop."""
    settings = load(PlannerSettings)
    configure_logging(SERVICE, settings.log_level, settings.log_format)
    with ExitStack() as closing:
        planner = build(settings, closing)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: planner.stopping.set())
        probes = Probes(SERVICE, alive=lambda: _alive(planner), ready=lambda: _ready(planner))
        probes.start(settings.metrics_host, settings.metrics_port)
        closing.callback(probes.stop)
        planner.run()


def build(settings: PlannerSettings, closing: ExitStack) -> Planner:
    """The planner, with every dependency seen to answer; ``closing`` ends what it has opened."""
    database, timeout = settings.database_url.get_secret_value(), settings.start_timeout_seconds
    revision = head()
    await_dependency("PostgreSQL", lambda: check_revision(database, revision), timeout)
    store, stopping, pulse = Store(database), threading.Event(), Pulse()
    closing.callback(store.close)
    await_dependency(kafka_at(settings), lambda: check_login(settings), timeout)
    consumer = LogConsumer(settings, (COMMANDS, OBSERVATIONS), _Positions(store, stopping, pulse))
    closing.callback(consumer.close)
    await_dependency(kafka_at(settings), lambda: _check_topics(consumer), timeout)
    publisher = Publisher(settings, SERVICE)
    closing.callback(publisher.close)
    registry = SchemaRegistry(settings.schema_registry_url)
    decoder = await_dependency(registry.name, lambda: _decoder(registry, publisher), timeout)
    return Planner(
        consumer=consumer,
        decoder=decoder,
        store=store,
        rules=_rules(settings),
        batch_limit=settings.batch_limit,
        upkeep=Upkeep(settings.operations_kept, settings.sync_runs_kept),
        stopping=stopping,
        pulse=pulse,
    )


def _rules(settings: PlannerSettings) -> Rules:
    return Rules(
        guard=SweepGuard(settings.resync_guard_share, settings.resync_guard_minimum),
        limits=Limits(
            deployments=settings.tenant_deployments,
            environments=settings.tenant_environments,
            destinations=settings.tenant_destinations,
            credentials=settings.tenant_credentials,
            sync_runs=settings.tenant_sync_runs,
            secrets=settings.tenant_secrets,
            bytes=settings.tenant_bytes,
        ),
        addresses=settings.allowed_addresses,
        local_workspaces=settings.local_workspaces,
        refused_kinds=settings.refused_kinds,
    )


class _Positions:
    """Positions from the database, however long it is away: without them no partition can be taken up."""

    def __init__(self, store: Store, stopping: threading.Event, pulse: Pulse) -> None:
        self._store, self._stopping, self._pulse = store, stopping, pulse

    def __call__(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        delays = Backoff()
        while True:
            try:
                return self._store.positions(partitions)
            except Retry as error:
                log.warning("positions not read", error=str(error))
                self._pulse.beat()
                if self._stopping.wait(delays.next()):
                    return {}


def _decoder(registry: SchemaRegistry, publisher: Publisher) -> Decoder:
    codecs: dict[str, Codec] = {
        COMMANDS: AvroCodec(registry, Command, value_subject(COMMANDS)),
        OBSERVATIONS: AvroCodec(registry, Observation, value_subject(OBSERVATIONS)),
    }
    letters = AvroCodec(registry, DeadLetter, value_subject(DEAD_LETTERS))
    return Decoder(codecs, DeadLetters(publisher, letters, SERVICE))


def _check_topics(consumer: LogConsumer) -> None:
    """A tenant's commands and observations must be in partitions of the same number."""
    counts = consumer.partition_counts((COMMANDS, OBSERVATIONS, DEAD_LETTERS))
    for topic in (COMMANDS, OBSERVATIONS, DEAD_LETTERS):
        if topic not in counts:
            raise InvalidConfiguration(f"topic {topic} does not exist; run 'gitopsctl topics apply'")
    if counts[COMMANDS] != counts[OBSERVATIONS]:
        raise InvalidConfiguration(
            f"{COMMANDS} has {counts[COMMANDS]} partitions and {OBSERVATIONS} {counts[OBSERVATIONS]}; "
            "they must have the same number"
        )


def _alive(planner: Planner) -> str:
    idle = planner.pulse.silent_seconds()
    return f"the loop has not come round for {idle:.0f} s" if idle > STUCK_SECONDS else ""


def _ready(planner: Planner) -> str:
    return planner.failing or ("" if planner.consumer.partitions else "no partitions are assigned")
