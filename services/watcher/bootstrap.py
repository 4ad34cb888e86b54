"""The composition root: settings in, a running watcher out. Nothing else here reads the environment or connects."""

from __future__ import annotations

import asyncio
import socket
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from services.common.avro import report_token_expiry
from services.common.kafka import (
    COMMANDS,
    DEAD_LETTERS,
    TENANT_CLUSTERS,
    DeadLetterLimit,
    DeadLetterQueue,
    Publisher,
    WholeTopicReader,
    count_partitions,
    objects_topic,
    workspace_topic,
)
from services.common.kubernetes import Election, KubeClient, Reflection, connect, require_access
from services.common.message_log import Messaging, await_messaging, row_of
from services.common.messages import Command, TenantClusters, WorkspaceObject, WorkspaceResource
from services.common.reachability import ANSWER_SECONDS, Reachability
from services.common.sealing import SealingKeys
from services.common.stop_signals import handle_stop_signals_in_loop
from services.common.telemetry import Probes, configure_logging, metrics
from services.kinds.deployment_target_class.model import DEPLOYMENT_TARGET_CLASS
from services.watcher import SERVICE
from services.watcher.commands.bounded_producer import BoundedProducer
from services.watcher.commands.command_sender import LOOKUPS
from services.watcher.commands.epochs import Epochs, newest_timestamp
from services.watcher.commands.feed import Feed
from services.watcher.commands.follow_session import FeedParts
from services.watcher.commands.namespaces import Namespaces
from services.watcher.commands.object_reader import ObjectReader
from services.watcher.commands.resyncs import Resyncs
from services.watcher.commands.secrets import Sealer, SecretTypes
from services.watcher.commands.target_classes import TargetClasses
from services.watcher.commands.tenant_clusters import ClustersOfTenants
from services.watcher.commands.throttling import RateLimiter
from services.watcher.commands.translation import Translator, spec_within, state_version
from services.watcher.commands.unfollowed_secrets import follow_unfollowed
from services.watcher.followed_kinds import (
    ACCESS_TO_NAMESPACES,
    KINDS,
    LOOKED_UP,
    SECRETS,
    WATCHED_WHOLE,
    FollowedKind,
    access_to,
    access_to_lease,
    by_name,
)
from services.watcher.leadership import Leadership, lease_name
from services.watcher.rows.delivery import RowDelivery
from services.watcher.rows.object_applier import ObjectApplier
from services.watcher.rows.row_consumer import RowConsumer
from services.watcher.rows.row_stream import RowStream
from services.watcher.rows.row_types import OBJECTS, STATUSES, RowT, RowType
from services.watcher.rows.status_writer import StatusWriter, require_known_kind
from services.watcher.settings import WatcherSettings
from services.watcher.watcher import Watcher

SPARE_CONNECTIONS = LOOKUPS + 4
"""Connections for each kind: its look-ups, one that asks again, a list, and two more."""


KCP_PATH = "/clusters/"
"""Part of the URL of every workspace of KCP."""

LIST_BURST = 50
"""How many resources of a list are passed on at once. A change that comes then waits for no more than these."""


@dataclass(frozen=True, slots=True)
class Topics:
    """Names of the topics. Tests use other names."""

    commands: str
    workspace: str
    """Topic of the statuses."""
    objects: str
    """Topic of the child objects. It may be missing: older installations do not have it."""
    tenant_clusters: str = TENANT_CLUSTERS
    """Topic of the engine clusters of tenants. It may be missing, unless a sealing key names a cluster."""


@dataclass(frozen=True, slots=True)
class WatcherParts:
    """What a watcher is connected to."""

    settings: WatcherSettings
    messaging: Messaging[Command]
    topics: Topics
    kube: KubeClient


@dataclass(frozen=True, slots=True)
class CommandLog:
    """How feeds write to the topic of commands."""

    new_producer: Callable[[], BoundedProducer]
    count_partitions: Callable[[], Awaitable[int]]


def start(settings: WatcherSettings) -> None:
    """Run until SIGTERM or SIGINT. Raises StartupError when something is missing or lost."""
    configure_logging(SERVICE, settings.log_level, settings.log_format)
    report_token_expiry(SERVICE, settings)
    watchers: list[Watcher] = []
    probes = Probes(
        SERVICE,
        alive=lambda: next((watcher.unhealthy_because() for watcher in watchers), ""),
        ready=lambda: next((watcher.unready_because() for watcher in watchers), "starting"),
        role=lambda: next((watcher.role() for watcher in watchers), ""),
        workspace=settings.workspace,
    )
    probes.start(settings.metrics_host, settings.metrics_port)
    try:
        topics = Topics(COMMANDS, workspace_topic(settings.workspace), objects_topic(settings.workspace))
        asyncio.run(serve(settings, await_brokers(settings, topics), topics, watchers))
    finally:
        probes.stop()


def await_brokers(settings: WatcherSettings, topics: Topics) -> Messaging[Command]:
    """Wait for Kafka and the registry. Raises Unavailable, InvalidConfiguration if a topic or a schema is missing."""
    needed = (topics.commands, topics.workspace, DEAD_LETTERS)
    return await_messaging(settings, Command, COMMANDS, lambda: count_partitions(settings, needed))


async def serve(
    settings: WatcherSettings, messaging: Messaging[Command], topics: Topics, watchers: list[Watcher]
) -> None:
    """Watch until ``stop`` is requested; the watcher is in ``watchers`` while it runs."""
    stop = asyncio.Event()
    handle_stop_signals_in_loop(stop.set)
    connections = settings.status_writers + settings.object_writers + SPARE_CONNECTIONS * len(KINDS)
    async with await connect(settings.kubeconfig, connections=connections) as kube:
        if await _is_permitted(kube, settings, stop):
            watcher = build(WatcherParts(settings, messaging, topics, kube))
            watchers.append(watcher)
            await watcher.run(stop)


async def _is_permitted(kube: KubeClient, settings: WatcherSettings, stop: asyncio.Event) -> bool:
    """Whether the watcher has all rights; False if ``stop`` came first. Raises StartupError if a right is missing."""
    asking = asyncio.create_task(_require_access(kube, settings))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([asking, stopping], return_when=asyncio.FIRST_COMPLETED)
        if asking.done():
            asking.result()
        return asking.done()
    finally:
        asking.cancel()
        stopping.cancel()


async def _require_access(kube: KubeClient, settings: WatcherSettings) -> None:
    for kind in (*KINDS, *LOOKED_UP):
        await require_access(kube, access_to(kind), settings.start_timeout_seconds)
    await require_access(kube, ACCESS_TO_NAMESPACES, settings.start_timeout_seconds)
    if settings.leader_election:
        lease = access_to_lease(settings.leader_election_namespace)
        await require_access(kube, lease, settings.start_timeout_seconds)


def build(parts: WatcherParts, kinds: Sequence[FollowedKind] = WATCHED_WHOLE) -> Watcher:
    """Put a watcher together, on the event loop that will run it. Raises InvalidConfiguration (sealing keys)."""
    settings, topics, kube = parts.settings, parts.topics, parts.kube
    commands, letters = Publisher(settings, SERVICE), Publisher(settings, SERVICE)
    ask_kafka = partial(asyncio.to_thread, commands.require_answer, topics.commands, ANSWER_SECONDS)
    kafka, cluster = Reachability("Kafka", ask_kafka), Reachability("the API server", kube.require_answer)
    epochs = Epochs()
    election = _election(settings, kube, commands, kafka) if settings.leader_election else None
    classes, sealer = TargetClasses(kube), _sealer(parts)
    feeds = _feeds(parts, kinds, _command_log(parts, commands, election), epochs, classes, sealer)
    leadership = Leadership(
        feeds=feeds,
        epochs=epochs,
        newest_command=partial(asyncio.to_thread, newest_timestamp, settings, topics.commands),
        election=election,
        until_commands_fail=kafka.wait_for_silence,
        list_in_turn=Resyncs(feeds, settings.resync_interval).run,
        follow_named=(sealer.tenants.run, *_following_named(kube, feeds, classes)),
    )
    others = cluster if settings.leader_election else None
    return Watcher(leadership, _streams(parts, kinds, letters), (commands, letters), others)


def _streams(
    parts: WatcherParts, kinds: Sequence[FollowedKind], letters: Publisher
) -> tuple[RowStream[WorkspaceResource], RowStream[WorkspaceObject]]:
    """The streams of statuses and of child objects."""
    settings, topics = parts.settings, parts.topics
    written = by_name(kind for kind in kinds if kind.has_status)
    statuses = replace(STATUSES, require_known=partial(require_known_kind, kinds=written))
    stream = partial(_stream, parts, DeadLetterQueue(letters, parts.messaging.dead_letters, SERVICE))
    return (
        stream(
            statuses, topics.workspace, lambda kube: StatusWriter(kube, written).write_status, settings.status_writers
        ),
        stream(
            OBJECTS,
            topics.objects,
            lambda kube: ObjectApplier(kube, settings.max_secret_bytes).apply_row,
            settings.object_writers,
        ),
    )


def _stream(
    parts: WatcherParts,
    dead_letters: DeadLetterQueue,
    type_: RowType[RowT],
    topic: str,
    writer: Callable[[KubeClient], Callable[[RowT], Awaitable[bool]]],
    writers: int,
) -> RowStream[RowT]:
    """The stream of one type of rows. Only the owner of a row's partition writes the row."""
    settings = parts.settings
    limit = DeadLetterLimit(SERVICE, settings.dead_letter_share, settings.dead_letter_minimum, type_.name)
    consumer = RowConsumer(type_, settings, parts.messaging.registry, limit, settings.workspace, topic)
    delivery = RowDelivery(
        type_,
        write=writer(parts.kube.fenced(consumer.session.require_membership)),
        offsets=consumer.offsets,
        session=consumer.session,
        dead_letters=dead_letters,
        dead_letter_limit=limit,
        limit=settings.statuses_waiting,
    )
    return RowStream(consumer, delivery, writers)


def _command_log(parts: WatcherParts, publisher: Publisher, election: Election | None) -> CommandLog:
    """The topic of commands. Only the leader sends to it: another process may have begun to lead."""
    limit, topic = parts.settings.commands_in_flight, parts.topics.commands

    def may_send() -> bool:
        return election is None or election.holds_lease

    return CommandLog(
        new_producer=lambda: BoundedProducer(publisher, parts.messaging.messages, limit, topic, may_send),
        count_partitions=partial(asyncio.to_thread, publisher.count_partitions, topic, ANSWER_SECONDS),
    )


def _feeds(
    parts: WatcherParts,
    kinds: Sequence[FollowedKind],
    command_log: CommandLog,
    epochs: Epochs,
    classes: TargetClasses,
    sealer: Sealer,
) -> list[Feed]:
    """The feed of each kind. A tenant's rate limit applies to all of them together."""
    settings, kube = parts.settings, parts.kube
    reader = ObjectReader(kube)
    types = SecretTypes(reader, settings.max_secret_bytes)
    feed_parts = partial(
        FeedParts,
        kube=kube,
        epochs=epochs,
        limiter=RateLimiter(settings.tenant_changes_per_second, settings.tenant_change_burst),
        list_limiter=RateLimiter(settings.listed_per_second, burst=LIST_BURST),
        new_producer=command_log.new_producer,
        count_partitions=command_log.count_partitions,
        reader=reader,
        types=types,
        namespaces=Namespaces(reader, in_logical_clusters=KCP_PATH in kube.configuration.host),
    )
    custom = [
        Feed(
            feed_parts(
                kind=kind,
                translate=Translator(
                    settings.workspace,
                    kind.resource,
                    spec_within(settings.max_spec_bytes, kind.projection),
                    kind.projection,
                    recalls_status=kind.recalls_status,
                ),
                state_version=partial(state_version, projection=kind.projection),
                classes=classes if kind.refers_to == DEPLOYMENT_TARGET_CLASS else None,
                **_sealing(kind, sealer),
            )
        )
        for kind in kinds
    ]
    classes.observers += [each.observe_class for each in custom if each.parts.classes is not None]
    secrets = Feed(
        feed_parts(
            kind=SECRETS,
            translate=Translator(settings.workspace, SECRETS.resource, sealer.sealed_content, SECRETS.projection),
            state_version=sealer.state_version,
            sealer=sealer,
            until_outdated=sealer.until_rotated,
            observe=partial(_observe_secret, types, [each for each in custom if each.sends_versions]),
        )
    )
    sealer.tenants.observers += [each.observe_tenant for each in (*custom, secrets) if each.parts.sealer is not None]
    return [*custom, secrets]


def _sealer(parts: WatcherParts) -> Sealer:
    """The sealer, which reads where tenants are. The consumer group is named, but not joined."""
    settings = parts.settings
    keys = SealingKeys.load(settings.sealing_public_keys)
    metrics.SEALING_KEY_AGE.labels(SERVICE).set_function(lambda: keys.active_age_seconds(time.time()))
    decode = partial(row_of, TenantClusters, parts.messaging.registry)
    group = STATUSES.consumer_group(settings.workspace)
    new_reader = partial(WholeTopicReader, settings, parts.topics.tenant_clusters, group, decode, SERVICE)
    tenants = ClustersOfTenants(new_reader, matters=lambda: keys.names_clusters)
    return Sealer(keys, settings.workspace, settings.max_secret_bytes, tenants)


def _following_named(
    kube: KubeClient, feeds: Sequence[Feed], classes: TargetClasses
) -> Iterator[Callable[[], Awaitable[None]]]:
    """The tasks that follow what resources of the feeds name, and no feed follows."""
    if classes.observers:
        yield classes.run
    if observers := [feed.observe_unfollowed for feed in feeds if feed.kind.names_secrets]:
        yield partial(follow_unfollowed, kube, observers)


def _sealing(kind: FollowedKind, sealer: Sealer) -> dict[str, Any]:
    """Arguments for a kind that names Secrets: bindings are sealed, and sealed again under another key."""
    return {"sealer": sealer, "until_outdated": sealer.until_rotated} if kind.secret_use is not None else {}


def _observe_secret(types: SecretTypes, feeds: Sequence[Feed], event: Reflection) -> None:
    types.observe_event(event)
    for feed in feeds:
        feed.observe_secret(event)


def _election(settings: WatcherSettings, kube: KubeClient, commands: Publisher, kafka: Reachability) -> Election:
    return Election(
        kube=kube,
        namespace=settings.leader_election_namespace,
        name=lease_name(settings.workspace),
        identity=f"{socket.gethostname()}_{uuid.uuid4()}",
        seconds=settings.lease_seconds,
        wait_until_able=kafka.wait_for_answer,
        after_leading=commands.drop_undelivered,
    )
