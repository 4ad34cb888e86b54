"""The way down: follows one kind of resource and sends every change as a command, none lost.

Started by the bootstrap, one per kind. What it promises: for every state of a resource that matters, the planner
gets that state or a later one; of a resource that is gone it gets ResourceGone, or a ResyncCompleted whose epoch is
newer than anything it was told about that resource. Sending twice is harmless, and happens.

``reflection → is it news? → wait its turn → look up → send → acknowledged``; the first two in :meth:`_read`, the
others in :mod:`dispatch`, so that a tenant that waits for its turn, or has much to be sent, never stops the reading.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

import structlog

from services.common.backoff import Backoff
from services.common.errors import Retry, Unavailable
from services.common.kube import (
    SECRET,
    Changed,
    KubeClient,
    ListCompleted,
    ListStarted,
    Manifest,
    Reflection,
    Removed,
    Seen,
    reflect,
)
from services.common.telemetry import metrics
from services.watcher import SERVICE
from services.watcher.allowance import Allowance
from services.watcher.commands import Translator
from services.watcher.dispatch import Dispatch, Wording
from services.watcher.echoes import Echoes, TakeFingerprint, fingerprint
from services.watcher.epochs import Epochs
from services.watcher.kinds import Kind
from services.watcher.lookups import Lookups
from services.watcher.outbox import Outbox
from services.watcher.references import References
from services.watcher.revisits import REVISIT_SECONDS, Revisits
from services.watcher.secrets import SecretTypes
from services.watcher.waiting import Change, Waiting

log = structlog.get_logger(__name__)

MAX_LOSSES = 3
"""Reflections in a row that lost a command before completing a list; then a new process, with a new producer, may
do better: a producer whose state the broker no longer knows never recovers by itself."""


async def never() -> None:
    """Waits for ever."""
    await asyncio.Event().wait()


def ignore(_: Reflection) -> None:
    """Nobody else needs to know."""


@dataclass(slots=True)
class Feed:
    """One kind of resource being followed."""

    kube: KubeClient
    kind: Kind
    translate: Translator
    epochs: Epochs
    allowance: Allowance
    new_outbox: Callable[[], Outbox]
    count_partitions: Callable[[], Awaitable[int]]
    lookups: Lookups
    types: SecretTypes
    fingerprint: TakeFingerprint = fingerprint
    until_outdated: Callable[[], Awaitable[None]] = never
    """Returns when all that was said has to be said anew."""
    observe: Callable[[Reflection], None] = ignore
    """Is told of everything that is read."""
    revisit_seconds: float = REVISIT_SECONDS
    delays: Backoff = field(default_factory=lambda: Backoff(first=0.5))
    listed: bool = False
    """Whether a list was completed and acknowledged since :meth:`run` began."""
    _echoes: Echoes = field(default_factory=Echoes)
    _references: References = field(default_factory=References)
    _epoch: int = 0
    _losses: int = 0

    async def run(self) -> None:
        """Follow for ever.

        Raises Refused if the API server forbids it, Unavailable if Kafka takes no commands for long.
        """
        self.listed = False
        while True:
            try:
                await self._follow()
            except Retry as error:
                self._losses += 1
                metrics.count_failure(SERVICE, error, "send")
                log.warning("a command was lost; listing again", error=str(error), losses=self._losses)
                if self._losses == MAX_LOSSES:
                    raise Unavailable(f"Kafka takes no commands: {error}") from error
                await asyncio.sleep(self.delays.next())

    async def _follow(self) -> None:
        """Follow until a command is lost (raises Retry), or everything has to be said anew (returns).

        A command can be lost while the watch is silent, so all are waited for together.
        """
        outbox, waiting = self.new_outbox(), Waiting(self.kind.name, self.allowance)
        dispatch = self._dispatch(waiting, outbox)
        revisits = Revisits(self._references, self.types, self._echoes, waiting, self.revisit_seconds)
        steps = [self._read(waiting), dispatch.begin(), dispatch.send(), self.until_outdated()]
        if self.kind.refers_to is SECRET:
            steps.append(revisits.run())
        tasks = [asyncio.ensure_future(step) for step in steps]
        try:
            done, _ = await asyncio.wait([*tasks, outbox.lost], return_when=asyncio.FIRST_COMPLETED)
            for outcome in done:
                outcome.result()
            log.info("listing anew", kind=self.kind.name)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            dispatch.close()
            waiting.close()

    def _dispatch(self, waiting: Waiting, outbox: Outbox) -> Dispatch:
        return Dispatch(
            waiting=waiting,
            outbox=outbox,
            wording=Wording(self.kind, self.translate, self.lookups, self.types),
            echoes=self._echoes,
            references=self._references,
            epoch=lambda: self._epoch,
            complete_epoch=partial(self._complete_epoch, outbox),
        )

    async def _read(self, waiting: Waiting) -> None:
        kind = self.kind
        reflection = reflect(self.kube, kind.resource, parts=kind.parts, metadata_only=kind.metadata_only)
        async with aclosing(reflection) as events:
            async for event in events:
                self.observe(event)
                await self._take_in(event, waiting)

    async def _take_in(self, event: Reflection, waiting: Waiting) -> None:
        """See to it that what an event means is sent.

        A crash at any point is followed by a new list under a newer epoch. Therefore:

        1. A list begins: what waits from before is sent, and the epoch is taken before the first object is read.
           Crash: nothing was sent under it.
        2. Each object of the list is sent, known or not: what is not sent would be swept. They go out when the list
           is complete, tenants in turn; changes from exactly the list's version are read meanwhile, and go between.
           An object that is found to be gone when its turn comes is not sent, rightly: it would be swept.
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
        match event:
            case ListStarted():
                await waiting.begin_list()
                self._begin_epoch()
            case Seen(manifest):
                waiting.add(self._changed(manifest))
            case ListCompleted():
                waiting.end_list()
            case Changed(manifest):
                self._take_change(manifest, waiting)
            case Removed(manifest):
                self._take_removal(manifest, waiting)
        metrics.RESOURCES.labels(SERVICE, self.kind.name).set(len(self._echoes))

    def _begin_epoch(self) -> None:
        self._epoch = self.epochs.next(time.time_ns() // 1_000_000)
        self._echoes.clear()
        self._references.clear()
        metrics.WATCH_RELISTS.labels(SERVICE, self.kind.name).inc()

    def _take_change(self, manifest: Manifest, waiting: Waiting) -> None:
        """A state that matters waits its turn; so does one the planner knows, if another would be sent before it."""
        uid = manifest["metadata"]["uid"]
        if uid not in waiting and self._echoes.is_echo(uid, self.fingerprint(manifest)):
            metrics.WATCH_EVENTS.labels(SERVICE, self.kind.name, "echo").inc()
        else:
            waiting.add(self._changed(manifest))

    def _take_removal(self, manifest: Manifest, waiting: Waiting) -> None:
        """A removal waits its turn, in place of what waits of the same resource.

        Of one that the planner was never told of nothing needs to be said: otherwise creating and deleting without
        end would fill our memory.
        """
        uid = manifest["metadata"]["uid"]
        if uid in self._echoes or waiting.is_listed(uid):
            waiting.add(self._removed(manifest))
        else:
            waiting.drop(uid)

    def _changed(self, manifest: Manifest) -> Change:
        meta, seen_at, state = manifest["metadata"], datetime.now(UTC), self.fingerprint(manifest)
        command, refers_to = None, ""
        if not self.kind.metadata_only:
            command = self.translate.changed(manifest, self._epoch, seen_at)
            refers_to = self.kind.reference_of(manifest)
        return Change(meta["uid"], meta.get("namespace", ""), meta["name"], state, seen_at, command, refers_to)

    def _removed(self, manifest: Manifest) -> Change:
        meta, seen_at = manifest["metadata"], datetime.now(UTC)
        command = self.translate.gone(manifest, seen_at)
        return Change(meta["uid"], meta.get("namespace", ""), meta["name"], None, seen_at, command)

    async def _complete_epoch(self, outbox: Outbox, epoch: int) -> None:
        await outbox.delivered()
        marker = self.translate.resync_completed(epoch, datetime.now(UTC))
        await outbox.put_everywhere(marker, await self.count_partitions())
        await outbox.delivered()
        self.listed, self._losses = True, 0
        self.delays.reset()
        log.info("resync completed", kind=self.kind.name, epoch=epoch, resources=len(self._echoes))
