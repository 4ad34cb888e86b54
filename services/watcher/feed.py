"""The way down: follows one kind of resource and sends every change as a command, none lost.

Started by the bootstrap, one per kind. What it promises: for every state of a resource that matters, the planner
gets that state or a later one; of a resource that is gone it gets ResourceGone, or a ResyncCompleted whose epoch is
newer than anything it was told about that resource. Sending twice is harmless, and happens.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
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
from services.common.telemetry import metrics
from services.watcher.commands import Translator
from services.watcher.echoes import Echoes
from services.watcher.epochs import Epochs
from services.watcher.outbox import Outbox

log = structlog.get_logger(__name__)

SERVICE = "watcher"
MAX_LOSSES = 3
"""Reflections in a row that lost a command before completing a list; then a new process, with a new producer, may
do better: a producer whose state the broker no longer knows never recovers by itself."""


@dataclass(slots=True)
class Feed:
    """One kind of resource being followed."""

    kube: KubeClient
    translate: Translator
    epochs: Epochs
    new_outbox: Callable[[], Outbox]
    count_partitions: Callable[[], Awaitable[int]]
    delays: Backoff = field(default_factory=lambda: Backoff(first=0.5))
    listed: bool = False
    """Whether a list was ever completed and acknowledged."""
    _echoes: Echoes = field(default_factory=Echoes)
    _epoch: int = 0
    _losses: int = 0

    async def run(self) -> None:
        """Follow for ever.

        Raises Refused if the API server forbids it, Unavailable if Kafka takes no commands for long.
        """
        while True:
            try:
                await self._follow_until_a_loss()
            except Retry as error:
                self._losses += 1
                metrics.ERRORS.labels(SERVICE, "Retry", "send").inc()
                log.warning("a command was lost; listing again", error=str(error), losses=self._losses)
                if self._losses == MAX_LOSSES:
                    raise Unavailable(f"Kafka takes no commands: {error}") from error
                await asyncio.sleep(self.delays.next())

    async def _follow_until_a_loss(self) -> None:
        """A command can be lost while the watch is silent, so following and deliveries are waited for together."""
        outbox = self.new_outbox()
        following = asyncio.create_task(self._follow(outbox))
        try:
            await asyncio.wait({following, outbox.lost}, return_when=asyncio.FIRST_COMPLETED)
            outbox.lost.result() if outbox.lost.done() else following.result()
        finally:
            following.cancel()
            await asyncio.wait({following})

    async def _follow(self, outbox: Outbox) -> None:
        async with aclosing(reflect(self.kube, self.translate.kind)) as events:
            async for event in events:
                await self._pass_on(event, outbox)

    async def _pass_on(self, event: Reflection, outbox: Outbox) -> None:
        """Send what an event means.

        A crash at any point is followed by a new list under a newer epoch. Therefore:

        1. A list begins: the epoch is taken before the first object is read.
           Crash: nothing was sent.
        2. Each object of the list is sent, known or not: what is not sent would be swept.
           Crash: the planner knows some objects under an epoch that is never completed; it sweeps nothing by it.
        3. All of them are acknowledged.
           Crash: the same.
        4. Only then the epoch is declared complete, in every partition.
           Crash: the partitions that have the marker sweep, rightly, as every object was acknowledged before it;
           the others sweep at the next epoch.
        5. The markers are acknowledged; changes follow, from exactly the list's version.
           Crash with changes unacknowledged: the next list holds what they said; of a resource that is gone it
           holds nothing, and the next epoch sweeps it.
        """
        seen_at = datetime.now(UTC)
        match event:
            case ListStarted():
                self._begin_epoch()
            case Seen(manifest):
                await self._send(manifest, seen_at, outbox)
            case ListCompleted(count):
                await self._complete_epoch(count, outbox)
            case Changed(manifest) if self._echoes.is_echo(manifest):
                _count(self.translate.kind.kind, "echo")
            case Changed(manifest):
                await self._send(manifest, seen_at, outbox)
            case Removed(manifest):
                await outbox.put(self.translate.gone(manifest, seen_at))
                self._echoes.forget(manifest)
                _count(self.translate.kind.kind, "removed")
        metrics.RESOURCES.labels(SERVICE, self.translate.kind.kind).set(len(self._echoes))

    def _begin_epoch(self) -> None:
        self._epoch = self.epochs.next(time.time_ns() // 1_000_000)
        self._echoes.clear()
        metrics.WATCH_RELISTS.labels(SERVICE, self.translate.kind.kind).inc()

    async def _send(self, manifest: Manifest, seen_at: datetime, outbox: Outbox) -> None:
        await outbox.put(self.translate.changed(manifest, self._epoch, seen_at))
        self._echoes.sent(manifest)
        _count(self.translate.kind.kind, "changed")

    async def _complete_epoch(self, count: int, outbox: Outbox) -> None:
        await outbox.delivered()
        marker = self.translate.resync_completed(self._epoch, datetime.now(UTC))
        await outbox.put_everywhere(marker, await self.count_partitions())
        await outbox.delivered()
        self.listed, self._losses = True, 0
        self.delays.reset()
        log.info("resync completed", kind=self.translate.kind.kind, epoch=self._epoch, resources=count)


def _count(kind: str, what: str) -> None:
    metrics.WATCH_EVENTS.labels(SERVICE, kind, what).inc()
