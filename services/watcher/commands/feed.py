"""Follows one kind of resource and sends every change as a command.

Started by the bootstrap, one per kind. Of every state of a resource the planner gets that state or a later one; of a
deleted resource it gets ResourceGone, or a ResyncCompleted whose epoch is newer than all commands about that resource.
A command may be sent twice, which is harmless.

``reflection → is it news? → wait its turn → look up → send → acknowledged``; the first two in :meth:`_read`, the others
in :mod:`command_sender`, so that a tenant that waits for its turn, or has much to be sent, never stops the reading.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial

import structlog
from prometheus_client import Counter

from services.common.backoff import Backoff
from services.common.errors import Retry, Unavailable
from services.common.kubernetes import (
    MISSING_SECONDS,
    Changed,
    Deleted,
    KubeClient,
    ListCompleted,
    ListStarted,
    Manifest,
    Reflection,
    Restored,
    Seen,
    reflect,
)
from services.common.telemetry import metrics
from services.common.times import rfc3339
from services.watcher import SERVICE
from services.watcher.commands.bounded_producer import BoundedProducer
from services.watcher.commands.command_sender import CommandBuilder, CommandSender
from services.watcher.commands.epochs import Epochs, until_answered
from services.watcher.commands.namespaces import Namespaces, Neighbours
from services.watcher.commands.object_reader import ObjectReader
from services.watcher.commands.pending_changes import Change, PendingChanges
from services.watcher.commands.rechecks import Rechecks
from services.watcher.commands.secret_rechecks import RECHECK_SECONDS, References, SecretRechecks
from services.watcher.commands.secrets import Sealer, SecretTypes
from services.watcher.commands.target_classes import TargetClasses
from services.watcher.commands.throttling import RateLimiter
from services.watcher.commands.translation import LastSent, TakeStateVersion, Translator, changed_at, state_version
from services.watcher.followed_kinds import FollowedKind

log = structlog.get_logger(__name__)

CLOCKS_DIFFER = timedelta(seconds=10)
"""By how much at most, as a rule: ours, the API server's and the brokers'."""
MAX_LOSSES = 3
"""Reflections in a row that lost a command before completing a list; then a new process, with a new producer, may
do better: a producer whose state the broker no longer knows never recovers by itself."""


async def never() -> None:
    """Wait for ever."""
    await asyncio.Event().wait()


def ignore(_: Reflection) -> None:
    """Do nothing."""


@dataclass(slots=True)
class Feed:
    """One kind of resource being followed."""

    kube: KubeClient
    kind: FollowedKind
    translate: Translator
    epochs: Epochs
    limiter: RateLimiter
    list_limiter: RateLimiter
    new_producer: Callable[[], BoundedProducer]
    count_partitions: Callable[[], Awaitable[int]]
    reader: ObjectReader
    types: SecretTypes
    namespaces: Namespaces
    state_version: TakeStateVersion = state_version
    until_outdated: Callable[[], Awaitable[None]] = never
    """Returns when every command has to be sent again: what was sent is wrong by now."""
    observe: Callable[[Reflection], None] = ignore
    """Called with every event."""
    sealer: Sealer | None = None
    """Of Secrets, and of a kind that names them: seals what they may be used for."""
    classes: TargetClasses | None = None
    """Of a kind that names classes."""
    recheck_seconds: float = RECHECK_SECONDS
    delays: Backoff = field(default_factory=lambda: Backoff(first=0.5))
    listed: bool = False
    """Whether a list was completed and acknowledged since :meth:`run` began."""
    complete_epoch: int = 0
    """Of the newest such list."""
    _last_sent: LastSent = field(default_factory=LastSent)
    _references: References = field(default_factory=References)
    _rechecks: SecretRechecks | None = None
    """While it follows."""
    _class_rechecks: Rechecks | None = None
    """Likewise, of a kind that names classes."""
    _key_rechecks: Rechecks | None = None
    """Likewise, of Secrets and of a kind that names them."""
    _neighbours: Neighbours = field(init=False)
    _restores: Counter = field(init=False)
    _epoch: int = 0
    _followed_until: int = 0
    """When the last change was seen, or the last list was complete: milliseconds since 1970."""
    _news_since: str = ""
    """What has changed since then is news of the list that is being read, "" if nothing is known of that."""
    _losses: int = 0
    _asked_anew: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._neighbours = Neighbours(is_one_watch=len(self.kind.parts) == 1)
        # From the start on it says 0: of a counter that begins with 1 Prometheus sees no increase.
        self._restores = metrics.API_SERVER_RESTORES.labels(SERVICE, self.translate.workspace, self.kind.name)

    def observe_secret(self, event: Reflection) -> None:
        """What names a Secret that has changed is sent again."""
        if self._rechecks is not None:
            self._rechecks.observe_secret(event)

    def observe_unfollowed(self, event: Changed | Deleted) -> None:
        """What names a Secret that is not followed is sent again when that comes, changes or goes."""
        if self._rechecks is not None:
            self._rechecks.observe_unfollowed(event)

    def observe_class(self, name: str) -> None:
        """What names a class that has changed is sent again."""
        if self._class_rechecks is not None:
            self._class_rechecks.observe_subject(name)

    def observe_tenant(self, namespace_digest: str) -> None:
        """What was sealed for a tenant that is in other engine clusters now is sent again."""
        if self._key_rechecks is not None:
            self._key_rechecks.observe_subject(namespace_digest)

    @property
    def tells_versions(self) -> bool:
        """Whether what was sent holds for one version of a Secret that is followed."""
        return self.sealer is not None or bool(self.kind.copied_secret)

    @property
    def is_complete(self) -> bool:
        """Whether the newest list was completed and acknowledged."""
        return self.listed and self.complete_epoch == self._epoch

    def list_anew(self) -> None:
        """Begin a new list, though nothing else asks for it."""
        self._asked_anew.set()

    async def run(self) -> None:
        """Follow for ever.

        Raises Rejected if the API server forbids it, Unavailable if Kafka takes no commands for long.
        """
        self.listed, self.complete_epoch = False, 0
        while True:
            try:
                await self._follow()
            except Retry as error:
                self._losses += 1
                metrics.count_failure(SERVICE, error, "send")
                log.warning("a command was lost; listing again", error=str(error), losses=self._losses)
                if self._losses == MAX_LOSSES:
                    raise Unavailable(f"Kafka takes no commands: {error}") from error
                await asyncio.sleep(self.delays.next_delay())

    async def _follow(self) -> None:
        """Follow until a command is lost (raises Retry).

        A command can be lost while the watch is silent, so all are waited for together.
        """
        producer, changes = self.new_producer(), PendingChanges(self.kind.name, self.limiter, self.list_limiter)
        rechecks = SecretRechecks(self._references, self.types, self._last_sent, changes, self.recheck_seconds)
        if self.classes is not None:
            self._class_rechecks = Rechecks(self.classes.newest_content_of, self._last_sent, changes)
        if self.sealer is not None:
            self._key_rechecks = Rechecks(self.sealer.key_ids_of, self._last_sent, changes)
        sender = self._new_sender(changes, producer, rechecks)
        self._rechecks = rechecks
        steps = [self._read(changes), sender.start_builds(), sender.send_commands()]
        if self.kind.names_secrets:
            steps.append(rechecks.run())
        tasks = [asyncio.ensure_future(step) for step in steps]
        try:
            done, _ = await asyncio.wait([*tasks, producer.lost], return_when=asyncio.FIRST_COMPLETED)
            for outcome in done:
                outcome.result()
        finally:
            self._rechecks = self._class_rechecks = self._key_rechecks = None
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            sender.close()
            changes.clear()

    def _new_sender(
        self, changes: PendingChanges, producer: BoundedProducer, rechecks: SecretRechecks
    ) -> CommandSender:
        return CommandSender(
            changes=changes,
            producer=producer,
            builder=CommandBuilder(
                self.kind,
                self.translate,
                self.reader,
                self.types,
                self.namespaces,
                self._neighbours,
                self.sealer,
                self.classes,
            ),
            last_sent=self._last_sent,
            rechecks=rechecks,
            class_rechecks=self._class_rechecks,
            key_rechecks=self._key_rechecks,
            epoch=lambda: self._epoch,
            complete_epoch=partial(self._complete_epoch, producer),
        )

    async def _read(self, changes: PendingChanges) -> None:
        """For ever; from a new list on whenever everything has to be sent again. What waits is sent meanwhile."""
        while True:
            self._asked_anew.clear()
            steps = [self._reflect(changes), self.until_outdated(), self._asked_anew.wait()]
            tasks = [asyncio.ensure_future(step) for step in steps]
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for outcome in done:
                    outcome.result()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
            log.info("listing anew", kind=self.kind.name)

    async def _reflect(self, changes: PendingChanges) -> None:
        kind = self.kind
        reflection = reflect(
            self.kube,
            kind.resource,
            parts=kind.parts,
            metadata_only=kind.metadata_only,
            missing_after=MISSING_SECONDS if kind.is_foreign else None,
        )
        async with aclosing(reflection) as events:
            async for event in events:
                self.observe(event)
                self._take_in(event, changes)

    def _take_in(self, event: Reflection, changes: PendingChanges) -> None:
        """See to it that what an event means is sent.

        A crash at any point is followed by a new list under a newer epoch. Therefore:

        1. A list begins: the epoch is taken before the first object is read. What waits from before is forgotten, as
           the list shows it, but for removals. Crash: nothing was sent under it.
        2. Each object of the list is sent, known or not: what is not sent would be swept. They go out when the list
           is complete, tenants in turn; changes from exactly the list's version on are watched meanwhile, and go
           first, as does what has changed while nobody watched. An object that changes while the list is read is of
           the list: its change is sent before the list counts as sent. One that is found to be gone when its turn
           comes is not sent, rightly: it would be swept.
           Crash: the planner knows some objects under an epoch that is never completed; it sweeps nothing by it.
           The same if a new list begins before this one is out.
        3. All of them are acknowledged.
           Crash: the same.
        4. Only then the epoch is declared complete, in every partition.
           Crash: the partitions that have the marker sweep, rightly, as every object was acknowledged before it;
           the others sweep at the next epoch.
        5. The markers are acknowledged; changes follow.
           Crash with changes unsent or unacknowledged: the next list holds what they said; of a resource that is gone
           it holds nothing, and the next epoch sweeps it.
        """
        self._neighbours.observe_event(event)
        match event:
            case ListStarted():
                changes.begin_list()
                self._begin_epoch()
            case Seen(manifest):
                self._take_listed(manifest, changes)
            case ListCompleted():
                changes.end_list()
            case Changed(manifest):
                self._take_change(manifest, changes)
            case Deleted(manifest):
                self._take_removal(manifest, changes)
            case Restored():
                self._restores.inc()
        if not isinstance(event, ListStarted | Seen | Restored):
            self._followed_until = _now_ms()
        metrics.RESOURCES.labels(SERVICE, self.kind.name).set(len(self._last_sent))

    def _begin_epoch(self) -> None:
        self._epoch = self.epochs.next_epoch(_now_ms())
        known_until = max(self.epochs.floor, self._followed_until)
        since = datetime.fromtimestamp(known_until / 1000, UTC) - CLOCKS_DIFFER
        self._news_since = rfc3339(since) if known_until else ""
        self._last_sent.clear()
        self._references.clear()
        metrics.WATCH_RELISTS.labels(SERVICE, self.kind.name).inc()

    def _take_listed(self, manifest: Manifest, changes: PendingChanges) -> None:
        """What has changed while nobody watched need not wait for all that has not."""
        if self._news_since and changed_at(manifest["metadata"], self.kind.projection) >= self._news_since:
            changes.add_change(self._changed(manifest), of_list=True)
        else:
            changes.add_listed(self._changed(manifest))

    def _take_change(self, manifest: Manifest, changes: PendingChanges) -> None:
        """A state that matters waits its turn; so does one the planner knows, if another would be sent before it."""
        uid = manifest["metadata"]["uid"]
        if uid not in changes and self._last_sent.get(uid) == self.state_version(manifest):
            metrics.WATCH_EVENTS.labels(SERVICE, self.kind.name, "echo").inc()
        else:
            changes.add_change(self._changed(manifest), of_list=self._may_be_of_list(uid, changes))

    def _take_removal(self, manifest: Manifest, changes: PendingChanges) -> None:
        """A removal waits its turn, in place of what waits of the same resource.

        Of one that the planner was never told of nothing needs to be said: otherwise creating and deleting without
        end would fill our memory.
        """
        uid = manifest["metadata"]["uid"]
        of_list = self._may_be_of_list(uid, changes)
        if of_list or uid in self._last_sent or changes.is_listed(uid):
            changes.add_change(self._removed(manifest), of_list=of_list)
        else:
            changes.drop_change(uid)

    def _may_be_of_list(self, uid: str, changes: PendingChanges) -> bool:
        """Whether it may have existed when the list began that is being read, and was not told of since."""
        return changes.is_listing and uid not in self._last_sent

    def _changed(self, manifest: Manifest) -> Change:
        meta, seen_at, state = manifest["metadata"], datetime.now(UTC), self.state_version(manifest)
        command, refers_to = None, ""
        if not self.kind.metadata_only:
            command = self.translate.changed(manifest, self._epoch, seen_at)
            refers_to = self.kind.reference_of(manifest)
        return Change(meta["uid"], meta.get("namespace", ""), meta["name"], state, seen_at, command, refers_to)

    def _removed(self, manifest: Manifest) -> Change:
        meta, seen_at = manifest["metadata"], datetime.now(UTC)
        command = self.translate.gone(manifest, seen_at)
        return Change(meta["uid"], meta.get("namespace", ""), meta["name"], None, seen_at, command)

    async def _complete_epoch(self, producer: BoundedProducer, epoch: int) -> None:
        await producer.wait_for_delivery()
        marker = self.translate.resync_completed(epoch, datetime.now(UTC))
        partitions = await until_answered(self.count_partitions, "how many partitions there are")
        await producer.send_to_all_partitions(marker, partitions)
        await producer.wait_for_delivery()
        self.listed, self.complete_epoch, self._losses = True, epoch, 0
        self.delays.reset()
        log.info("resync completed", kind=self.kind.name, epoch=epoch, resources=len(self._last_sent))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
