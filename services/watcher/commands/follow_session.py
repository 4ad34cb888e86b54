"""One session of a feed: follows a kind until a command is lost, and has the state that is valid only meanwhile.

Made by :mod:`feed`. A session begins with a list, so it needs nothing of the session before it.

``reflection → is it news? → wait its turn → look up → send → acknowledged``. The first two steps are in :meth:`_read`,
the others in :mod:`command_sender`. So a tenant that waits for its turn, or has much to send, never stops the reading.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import structlog
from prometheus_client import Counter

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
from services.watcher import SERVICE
from services.watcher.commands.bounded_producer import BoundedProducer
from services.watcher.commands.command_sender import CommandBuilder, CommandSender
from services.watcher.commands.epochs import Epochs, ListProgress, until_answered
from services.watcher.commands.namespaces import NamespaceInference, Namespaces
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


async def never() -> None:
    """Wait for ever."""
    await asyncio.Event().wait()


def ignore(_: Reflection) -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True)
class FeedParts:
    """What a feed is made of; it does not change while the process runs."""

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
    """Returns when every command has to be sent again, because what was sent is no longer valid."""
    observe: Callable[[Reflection], None] = ignore
    """Called with every event."""
    sealer: Sealer | None = None
    """Set for Secrets, and for kinds that name them: seals what they may be used for."""
    classes: TargetClasses | None = None
    """Set for kinds that name classes."""
    recheck_seconds: float = RECHECK_SECONDS


@dataclass(slots=True)
class FollowSession:
    """One session. It is created on the event loop that runs it, and run once."""

    parts: FeedParts
    progress: ListProgress
    """The feed's lists, which outlive the session."""
    asked_anew: asyncio.Event
    """Set when a new list is asked for."""
    on_completed: Callable[[int], None]
    """Called with the epoch of each list that was completed and acknowledged."""
    _producer: BoundedProducer = field(init=False)
    _changes: PendingChanges = field(init=False)
    _inference: NamespaceInference = field(init=False)
    _secret_rechecks: SecretRechecks = field(init=False)
    _class_rechecks: Rechecks | None = None
    """Set for kinds that name classes."""
    _key_rechecks: Rechecks | None = None
    """Set for Secrets, and for kinds that name them."""
    _last_sent: LastSent = field(default_factory=LastSent)
    _references: References = field(default_factory=References)
    _news_since: str = ""
    """Changes since then count as news while the list is read; empty if nothing is known of them."""

    def __post_init__(self) -> None:
        parts = self.parts
        self._producer = parts.new_producer()
        self._changes = changes = PendingChanges(parts.kind.name, parts.limiter, parts.list_limiter)
        self._inference = NamespaceInference(is_one_watch=len(parts.kind.parts) == 1)
        self._secret_rechecks = SecretRechecks(
            self._references, parts.types, self._last_sent, changes, parts.recheck_seconds
        )
        if parts.classes is not None:
            self._class_rechecks = Rechecks(parts.classes.newest_content_of, self._last_sent, changes)
        if parts.sealer is not None:
            self._key_rechecks = Rechecks(parts.sealer.key_ids_of, self._last_sent, changes)

    def observe_secret(self, event: Reflection) -> None:
        """Send again the resources that name this Secret."""
        self._secret_rechecks.observe_secret(event)

    def observe_unfollowed(self, event: Changed | Deleted) -> None:
        """Send again the resources that name this Secret, which is not followed, and was added, changed or deleted."""
        self._secret_rechecks.observe_unfollowed(event)

    def observe_class(self, name: str) -> None:
        """Send again the resources that name this class, which has changed."""
        if self._class_rechecks is not None:
            self._class_rechecks.observe_subject(name)

    def observe_tenant(self, namespace_digest: str) -> None:
        """Send again what was sealed for this tenant, which is now in other engine clusters."""
        if self._key_rechecks is not None:
            self._key_rechecks.observe_subject(namespace_digest)

    async def run(self) -> None:
        """Follow until a command is lost (raises Retry), or the API server forbids it (raises Rejected).

        A command can be lost while the watch is silent, so all steps are awaited together.
        """
        sender = self._new_sender()
        steps = [self._read(), sender.start_builds(), sender.send_commands()]
        if self.parts.kind.names_secrets:
            steps.append(self._secret_rechecks.run())
        try:
            await _run_until_first(steps, self._producer.lost)
        finally:
            sender.close()
            self._changes.clear()

    def _new_sender(self) -> CommandSender:
        parts = self.parts
        return CommandSender(
            changes=self._changes,
            producer=self._producer,
            builder=CommandBuilder(
                parts.kind,
                parts.translate,
                parts.reader,
                parts.types,
                parts.namespaces,
                self._inference,
                parts.sealer,
                parts.classes,
            ),
            last_sent=self._last_sent,
            rechecks=self._secret_rechecks,
            class_rechecks=self._class_rechecks,
            key_rechecks=self._key_rechecks,
            epoch=lambda: self.progress.epoch,
            complete_epoch=self._complete_epoch,
        )

    async def _read(self) -> None:
        """Read for ever; begin a new list whenever everything has to be sent again. Sending goes on meanwhile."""
        while True:
            self.asked_anew.clear()
            steps = [self._reflect(), self.parts.until_outdated(), self.asked_anew.wait()]
            await _run_until_first(steps)
            log.info("listing anew", kind=self.parts.kind.name)

    async def _reflect(self) -> None:
        kind = self.parts.kind
        reflection = reflect(
            self.parts.kube,
            kind.resource,
            parts=kind.parts,
            metadata_only=kind.metadata_only,
            missing_after=MISSING_SECONDS if kind.is_foreign else None,
        )
        async with aclosing(reflection) as events:
            async for event in events:
                self.parts.observe(event)
                self._queue_event(event)

    def _queue_event(self, event: Reflection) -> None:
        """Queue what an event means, so that it is sent.

        A crash at any point is followed by a new list under a newer epoch. Therefore:

        1. A list begins: the epoch is chosen before the first object is read. Waiting changes are dropped, because the
           list shows them; removals stay.
           Crash: nothing was sent under this epoch.
        2. Each object of the list is sent, known or not, because an object that is not sent would be swept. The objects
           are sent when the list is complete, tenants in turn. Changes from exactly the list's version on are watched
           meanwhile and are sent first, as is what has changed while nobody watched. An object that changes while the
           list is read belongs to the list: its change is sent before the list counts as sent. An object that is gone
           when its turn comes is not sent: it should be swept.
           Crash: the planner has some objects of an epoch that is never completed; it sweeps nothing by it. The same
           holds if a new list begins before this one is sent.
        3. All of these commands are acknowledged.
           Crash: as in 2.
        4. Only then the epoch is declared complete, in every partition.
           Crash: partitions that have the marker sweep correctly, because every object was acknowledged before it; the
           others sweep at the next epoch.
        5. The markers are acknowledged; changes follow.
           Crash with changes unsent or unacknowledged: the next list shows the resources as they are; a resource that
           is gone is not in it, and the next epoch sweeps it.
        """
        self._inference.observe_event(event)
        match event:
            case ListStarted():
                self._changes.begin_list()
                self._begin_epoch()
            case Seen(manifest):
                self._queue_listed(manifest)
            case ListCompleted():
                self._changes.end_list()
            case Changed(manifest):
                self._queue_change(manifest)
            case Deleted(manifest):
                self._queue_removal(manifest)
            case Restored():
                restores_of(self.parts).inc()
        if not isinstance(event, ListStarted | Seen | Restored):
            self.progress.followed_until = _now_ms()
        metrics.RESOURCES.labels(SERVICE, self.parts.kind.name).set(len(self._last_sent))

    def _begin_epoch(self) -> None:
        self._news_since = self.progress.begin_epoch(self.parts.epochs, _now_ms())
        self._last_sent.clear()
        self._references.clear()
        metrics.WATCH_RELISTS.labels(SERVICE, self.parts.kind.name).inc()

    def _queue_listed(self, manifest: Manifest) -> None:
        """Queue an object of the list. What has changed while nobody watched is sent before the rest."""
        if self._news_since and changed_at(manifest["metadata"], self.parts.kind.projection) >= self._news_since:
            self._changes.add_change(self._changed(manifest), of_list=True)
        else:
            self._changes.add_listed(self._changed(manifest))

    def _queue_change(self, manifest: Manifest) -> None:
        """Queue a change, unless the planner knows this state and no other state is queued."""
        uid = manifest["metadata"]["uid"]
        if uid not in self._changes and self._last_sent.get(uid) == self.parts.state_version(manifest):
            metrics.WATCH_EVENTS.labels(SERVICE, self.parts.kind.name, "echo").inc()
        else:
            self._changes.add_change(self._changed(manifest), of_list=self._may_be_of_list(uid))

    def _queue_removal(self, manifest: Manifest) -> None:
        """Queue a removal, in place of a queued change of the same resource.

        No removal is sent for a resource of which no command was sent: otherwise creating and deleting without end
        would fill our memory.
        """
        uid = manifest["metadata"]["uid"]
        of_list = self._may_be_of_list(uid)
        if of_list or uid in self._last_sent or self._changes.is_listed(uid):
            self._changes.add_change(self._removed(manifest), of_list=of_list)
        else:
            self._changes.drop_change(uid)

    def _may_be_of_list(self, uid: str) -> bool:
        """Whether the resource may be in the list that is being read, and was not sent since the list began."""
        return self._changes.is_listing and uid not in self._last_sent

    def _changed(self, manifest: Manifest) -> Change:
        meta, seen_at, state = manifest["metadata"], datetime.now(UTC), self.parts.state_version(manifest)
        command, refers_to = None, ""
        if not self.parts.kind.metadata_only:
            command = self.parts.translate.changed(manifest, self.progress.epoch, seen_at)
            refers_to = self.parts.kind.reference_of(manifest)
        return Change(meta["uid"], meta.get("namespace", ""), meta["name"], state, seen_at, command, refers_to)

    def _removed(self, manifest: Manifest) -> Change:
        meta, seen_at = manifest["metadata"], datetime.now(UTC)
        command = self.parts.translate.gone(manifest, seen_at)
        return Change(meta["uid"], meta.get("namespace", ""), meta["name"], None, seen_at, command)

    async def _complete_epoch(self, epoch: int) -> None:
        await self._producer.wait_for_delivery()
        marker = self.parts.translate.resync_completed(epoch, datetime.now(UTC))
        partitions = await until_answered(self.parts.count_partitions, "how many partitions there are")
        await self._producer.send_to_all_partitions(marker, partitions)
        await self._producer.wait_for_delivery()
        self.on_completed(epoch)
        log.info("resync completed", kind=self.parts.kind.name, epoch=epoch, resources=len(self._last_sent))


def restores_of(parts: FeedParts) -> Counter:
    """Counts how often the API server was behind what it had shown of the kind."""
    return metrics.API_SERVER_RESTORES.labels(SERVICE, parts.translate.workspace, parts.kind.name)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


async def _run_until_first(steps: Iterable[Awaitable[Any]], *others: asyncio.Future[Any]) -> None:
    """Run ``steps`` until the first of them or of ``others`` is done, then cancel the steps. Raises its error."""
    tasks = [asyncio.ensure_future(step) for step in steps]
    try:
        done, _ = await asyncio.wait([*tasks, *others], return_when=asyncio.FIRST_COMPLETED)
        for outcome in done:
            outcome.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
