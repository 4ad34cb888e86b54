"""Follows the Applications of some namespaces and writes what ``behaviour`` answers. Newest state wins, few calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from devstack.argocd_simulator import SERVICE
from devstack.argocd_simulator.application import precise
from devstack.argocd_simulator.behaviour import Response, respond
from devstack.argocd_simulator.chatter import WRITES_PER_SYNC, respond_in_full
from services.common.backoff import Backoff
from services.common.errors import Retry, Wait
from services.common.kubernetes import (
    APPLICATION,
    Changed,
    Conflict,
    Deleted,
    KubeClient,
    ListCompleted,
    Manifest,
    Reflection,
    Rejected,
    Seen,
)
from services.common.telemetry import metrics

log = structlog.get_logger(__name__)

FIELD_MANAGER = "argocd-application-controller"

Key = tuple[str, str]
Follow = Callable[[str], AsyncIterator[Reflection]]


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast and how chatty."""

    sync_seconds: float = 0.2
    concurrency: int = 4
    writes_per_sync: int = 2

    def response_to(self, application: Manifest) -> Response | None:
        """What to write next."""
        now = datetime.now(UTC)
        if self.writes_per_sync == WRITES_PER_SYNC:
            return respond_in_full(application, now)
        return respond(application, now, self.writes_per_sync)


class Simulator:
    """Plays Argo CD for Applications of ``namespaces``."""

    def __init__(self, client: KubeClient, follow: Follow, namespaces: list[str], pace: Pace) -> None:
        """``follow`` lists and watches the Applications of a namespace."""
        self._client, self._follow, self._pace = client, follow, pace
        self._unlisted = set(namespaces)
        self._newest: dict[Key, Manifest] = {}
        self._busy: set[Key] = set()
        self._queue: asyncio.Queue[Key] = asyncio.Queue()

    def not_ready(self) -> str:
        """Empty once every namespace was listed."""
        return f"not listed yet: {', '.join(sorted(self._unlisted))}" if self._unlisted else ""

    async def run(self) -> None:
        """For ever."""
        async with asyncio.TaskGroup() as group:
            for namespace in sorted(self._unlisted):
                group.create_task(self._watch(namespace))
            for _ in range(self._pace.concurrency):
                group.create_task(self._work())

    async def _watch(self, namespace: str) -> None:
        async for event in self._follow(namespace):
            metrics.WATCH_EVENTS.labels(SERVICE, APPLICATION.kind, type(event).__name__).inc()
            match event:
                case Seen(application) | Changed(application):
                    self._notice(application)
                case Deleted(application):
                    self._newest.pop(_key(application), None)
                case ListCompleted():
                    self._unlisted.discard(namespace)

    def _notice(self, application: Manifest) -> None:
        key = _key(application)
        response = self._pace.response_to(application)
        if response is None:
            self._newest.pop(key, None)
            return
        is_queued = key in self._newest or key in self._busy
        self._newest[key] = application
        if is_queued:
            return
        if response.after_sync:
            asyncio.get_running_loop().call_later(self._pace.sync_seconds, self._queue.put_nowait, key)
        else:
            self._queue.put_nowait(key)

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            application = self._newest.pop(key, None)
            if application is None:
                continue
            self._busy.add(key)
            await self._respond(key, application)
            self._busy.discard(key)
            if (newer := self._newest.pop(key, None)) is not None:
                self._notice(newer)

    async def _respond(self, key: Key, application: Manifest) -> None:
        response = self._pace.response_to(application)
        delays = Backoff(limit=5)
        while response is not None:
            try:
                await self._write(key, precise(response.patch, application))
            except (Conflict, Wait):
                return  # it changed or went: the watch shows what it is now
            except (Retry, Rejected) as error:
                log.warning("not written", namespace=key[0], name=key[1], error=str(error))
                if isinstance(error, Rejected) and not error.is_forbidden:
                    return
                # An API server that has just started forbids everything until it has loaded its rules.
                await asyncio.sleep(delays.next_delay())
            else:
                return

    async def _write(self, key: Key, patch: Manifest) -> None:
        metrics.KUBERNETES_WRITES.labels(SERVICE, APPLICATION.kind, "patch").inc()
        await self._client.patch_object(APPLICATION, *key, patch, field_manager=FIELD_MANAGER)


def _key(application: Manifest) -> Key:
    return application["metadata"]["namespace"], application["metadata"]["name"]
