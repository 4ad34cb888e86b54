"""Follows the objects of one instance and keeps the picture of what exists."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from services.agent import SERVICE
from services.agent.cluster import Follow
from services.agent.kinds import KINDS, ManagedKind
from services.agent.live_objects import LiveObjects
from services.agent.objects import ObjectKey
from services.common.kube import Changed, ListCompleted, ListStarted, Manifest, Reflection, Removed, Seen
from services.common.telemetry import metrics


class Watches:
    """One watch for each kind."""

    def __init__(
        self,
        namespace: str,
        live: LiveObjects,
        noticed: Callable[[ObjectKey], None],
        all_listed: Callable[[], None],
    ) -> None:
        """``noticed`` is told of each object that changed, ``all_listed`` whenever a list has completed the picture."""
        self._namespace, self._live, self._noticed, self._all_listed = namespace, live, noticed, all_listed
        self._unlisted = set(KINDS)
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def listed(self) -> bool:
        """Every watch has shown once what exists."""
        return not self._unlisted

    def start(self, follow: Follow, on_defect: Callable[[BaseException], None]) -> None:
        """Watch for ever."""
        self._tasks = [
            asyncio.create_task(self._follow(follow, kind, on_defect), name=f"watch {name}")
            for name, kind in KINDS.items()
        ]

    async def stop(self) -> None:
        """End the watches."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _follow(self, follow: Follow, kind: ManagedKind, on_defect: Callable[[BaseException], None]) -> None:
        try:
            async for event in follow(kind, self._namespace):
                self._take_in(kind.resource.kind, event)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # a watch that ends is a reason to start anew, with a message
            on_defect(error)
            raise

    def _take_in(self, kind: str, event: Reflection) -> None:
        metrics.WATCH_EVENTS.labels(SERVICE, kind, type(event).__name__).inc()
        match event:
            case ListStarted():
                metrics.WATCH_RELISTS.labels(SERVICE, kind).inc()
                self._live.begin_list(kind)
            case Seen(manifest) | Changed(manifest):
                key = self._live.put(kind, manifest)
                if key is not None:
                    self._noticed(key)
            case Removed(manifest):
                self._remove(kind, manifest)
            case ListCompleted():
                self._complete(kind)
        metrics.RESOURCES.labels(SERVICE, kind).set(self._live.count(kind))

    def _remove(self, kind: str, manifest: Manifest) -> None:
        meta = manifest["metadata"]
        key = ObjectKey(kind, meta["namespace"], meta["name"])
        self._live.drop(key, meta["uid"])
        self._noticed(key)

    def _complete(self, kind: str) -> None:
        for key in self._live.end_list(kind):
            self._noticed(key)
        self._unlisted.discard(kind)
        if self.listed:
            self._all_listed()
