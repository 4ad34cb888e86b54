"""When did each Application appear? A watch of our own on the engine namespaces answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from services.common.kubernetes import APPLICATION, Changed, KubeClient, ListCompleted, Seen, reflect


@dataclass(slots=True)
class Arrivals:
    """First sight of each Application, in seconds since 1970, as the log's own timestamps are."""

    seen: dict[str, float] = field(default_factory=dict)
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def wait(self, names: list[str], timeout_seconds: float) -> list[str]:
        """Wait until all ``names`` have appeared; returns those that did not within the time."""
        missing = set(names)

        def complete() -> bool:
            missing.difference_update(self.seen)
            return not missing

        async with self._changed:
            try:
                async with asyncio.timeout(timeout_seconds):
                    await self._changed.wait_for(complete)
            except TimeoutError:
                pass
        return sorted(missing)

    async def note(self, name: str) -> None:
        """An Application is there."""
        now = time.time()
        async with self._changed:
            self.seen.setdefault(name, now)
            self._changed.notify_all()


@asynccontextmanager
async def watching(kube: KubeClient, namespaces: list[str]) -> AsyncIterator[Arrivals]:
    """Follow the Applications of ``namespaces`` for as long as the block runs."""
    arrivals = Arrivals()
    listed = [asyncio.Event() for _ in namespaces]
    tasks = [
        asyncio.create_task(_follow(kube, namespace, arrivals, ready))
        for namespace, ready in zip(namespaces, listed, strict=True)
    ]
    try:
        for ready in listed:
            await ready.wait()
        yield arrivals
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _follow(kube: KubeClient, namespace: str, arrivals: Arrivals, listed: asyncio.Event) -> None:
    async for event in reflect(kube, APPLICATION, namespace):
        match event:
            case Seen(application) | Changed(application):
                await arrivals.note(application["metadata"]["name"])
            case ListCompleted():
                listed.set()
            case _:
                pass
