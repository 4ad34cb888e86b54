"""The way down: follows one kind of resource and sends every change as a command, none lost.

Started by the bootstrap, one per kind. What it promises: for every state of a resource that matters, the planner
gets that state or a later one; of a resource that is gone it gets ResourceGone, or a ResyncCompleted whose epoch is
newer than anything it was told about that resource. Sending twice is harmless, and happens.

``reflection → is it news? → wait its turn → send → acknowledged``; the first two in :meth:`_read`, the others in
:meth:`_send_on`, so that a tenant that waits for its turn never stops the reading.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import structlog

from services.common.backoff import Backoff
from services.common.errors import Retry, Unavailable
from services.common.kube import (
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
from services.common.messages import Command, ResourceChanged
from services.common.telemetry import metrics
from services.watcher.allowance import Allowance
from services.watcher.commands import Translator
from services.watcher.echoes import Echoes, TakeFingerprint, fingerprint
from services.watcher.epochs import Epochs
from services.watcher.kinds import Kind
from services.watcher.outbox import Outbox
from services.watcher.waiting import Change, Waiting

log = structlog.get_logger(__name__)

SERVICE = "watcher"
MAX_LOSSES = 3
"""Reflections in a row that lost a command before completing a list; then a new process, with a new producer, may
do better: a producer whose state the broker no longer knows never recovers by itself."""


async def never() -> None:
    """Waits for ever."""
    await asyncio.Event().wait()


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
    secret_type: Callable[[str, str], Awaitable[str]]
    """Type of the Secret of this namespace and name."""
    fingerprint: TakeFingerprint = fingerprint
    until_outdated: Callable[[], Awaitable[None]] = never
    """Returns when all that was said has to be said anew."""
    delays: Backoff = field(default_factory=lambda: Backoff(first=0.5))
    listed: bool = False
    """Whether a list was completed and acknowledged since :meth:`run` began."""
    _echoes: Echoes = field(default_factory=Echoes)
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
                metrics.ERRORS.labels(SERVICE, "Retry", "send").inc()
                log.warning("a command was lost; listing again", error=str(error), losses=self._losses)
                if self._losses == MAX_LOSSES:
                    raise Unavailable(f"Kafka takes no commands: {error}") from error
                await asyncio.sleep(self.delays.next())

    async def _follow(self) -> None:
        """Follow until a command is lost (raises Retry), or everything has to be said anew (returns).

        A command can be lost while the watch is silent, so all are waited for together.
        """
        outbox, waiting = self.new_outbox(), Waiting(self.kind.name, self.allowance)
        steps = [self._read(waiting, outbox), self._send_on(waiting, outbox), self.until_outdated()]
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
            waiting.close()

    async def _read(self, waiting: Waiting, outbox: Outbox) -> None:
        async with aclosing(reflect(self.kube, self.kind.resource, parts=self.kind.parts)) as events:
            async for event in events:
                await self._take_in(event, waiting, outbox)

    async def _take_in(self, event: Reflection, waiting: Waiting, outbox: Outbox) -> None:
        """See to it that what an event means is sent.

        A crash at any point is followed by a new list under a newer epoch. Therefore:

        1. A list begins: what waits from before is sent, and the epoch is taken before the first object is read.
           Crash: nothing was sent under it.
        2. Each object of the list is sent, known or not: what is not sent would be swept. They go out when the list
           is complete, tenants in turn.
           Crash: the planner knows some objects under an epoch that is never completed; it sweeps nothing by it.
        3. All of them are acknowledged.
           Crash: the same.
        4. Only then the epoch is declared complete, in every partition.
           Crash: the partitions that have the marker sweep, rightly, as every object was acknowledged before it;
           the others sweep at the next epoch.
        5. The markers are acknowledged; changes follow, from exactly the list's version.
           Crash with changes unsent or unacknowledged: the next list holds what they said; of a resource that is gone
           it holds nothing, and the next epoch sweeps it.
        """
        match event:
            case ListStarted():
                await waiting.begin_list()
                self._begin_epoch()
            case Seen(manifest):
                waiting.add(self._changed(manifest))
            case ListCompleted(count):
                await waiting.end_list()
                await self._complete_epoch(count, outbox)
            case Changed(manifest):
                self._take_change(manifest, waiting)
            case Removed(manifest):
                self._take_removal(manifest, waiting)
        metrics.RESOURCES.labels(SERVICE, self.kind.name).set(len(self._echoes))

    def _begin_epoch(self) -> None:
        self._epoch = self.epochs.next(time.time_ns() // 1_000_000)
        self._echoes.clear()
        metrics.WATCH_RELISTS.labels(SERVICE, self.kind.name).inc()

    def _take_change(self, manifest: Manifest, waiting: Waiting) -> None:
        """A state that matters waits its turn; so does one the planner knows, if another would be sent before it."""
        uid = manifest["metadata"]["uid"]
        if uid not in waiting and self._echoes.is_echo(uid, self.fingerprint(manifest)):
            self._count("echo")
        else:
            waiting.add(self._changed(manifest))

    def _take_removal(self, manifest: Manifest, waiting: Waiting) -> None:
        """A removal waits its turn, in place of what waits of the same resource.

        Of one that the planner was never told of nothing needs to be said: otherwise creating and deleting without
        end would fill our memory. An order of its own is told in any case, its coming and its going.
        """
        uid = manifest["metadata"]["uid"]
        if uid in self._echoes or self.kind.one_shot:
            waiting.add(self._removed(manifest))
        else:
            waiting.drop(uid)

    def _changed(self, manifest: Manifest) -> Change:
        uid = manifest["metadata"]["uid"]
        command = self.translate.changed(manifest, self._epoch, datetime.now(UTC))
        return Change(uid, uid, command, self.fingerprint(manifest), self.kind.secret_of(manifest))

    def _removed(self, manifest: Manifest) -> Change:
        uid = manifest["metadata"]["uid"]
        key = f"{uid} gone" if self.kind.one_shot else uid
        return Change(key, uid, self.translate.gone(manifest, datetime.now(UTC)), None)

    async def _send_on(self, waiting: Waiting, outbox: Outbox) -> None:
        while True:
            change, held_back_ms = await waiting.take()
            # Noted before it is sent: if sending fails, all of this is given up.
            if change.fingerprint is None:
                self._echoes.forget(change.uid)
            else:
                self._echoes.sent(change.uid, change.fingerprint)
            await outbox.put(await self._completed(change, held_back_ms))
            self._count("removed" if change.fingerprint is None else "changed")

    async def _completed(self, change: Change, held_back_ms: int) -> Command:
        """The command of ``change`` with what is known only when it goes out."""
        command, event = change.command, change.command.event
        if not isinstance(event, ResourceChanged) or not (held_back_ms or change.secret):
            return command
        secret_type = await self.secret_type(command.namespace, change.secret) if change.secret else ""
        return replace(command, event=replace(event, held_back_ms=held_back_ms, secret_type=secret_type))

    async def _complete_epoch(self, count: int, outbox: Outbox) -> None:
        await outbox.delivered()
        marker = self.translate.resync_completed(self._epoch, datetime.now(UTC))
        await outbox.put_everywhere(marker, await self.count_partitions())
        await outbox.delivered()
        self.listed, self._losses = True, 0
        self.delays.reset()
        log.info("resync completed", kind=self.kind.name, epoch=self._epoch, resources=count)

    def _count(self, what: str) -> None:
        metrics.WATCH_EVENTS.labels(SERVICE, self.kind.name, what).inc()
