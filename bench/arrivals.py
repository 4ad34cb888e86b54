"""When did each Application appear, or change? A watch of our own on the engine namespaces answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from services.common.kubernetes import APPLICATION, Changed, KubeClient, ListCompleted, Manifest, Seen, reflect


def by_name(application: Manifest) -> str:
    """An Application, whatever it is like."""
    return str(application["metadata"]["name"])


def by_path(application: Manifest) -> str:
    """An Application that deploys what it deploys now: each change of its path is an arrival of its own."""
    return with_path(by_name(application), application["spec"].get("source", {}).get("path", ""))


def with_path(name: str, path: str) -> str:
    """What :func:`by_path` knows an Application by."""
    return f"{name} {path}"


@dataclass(slots=True)
class Arrivals:
    """First sight of each, by what it is known by: in seconds since 1970, as the log's own timestamps are."""

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
        """It is there."""
        now = time.time()
        async with self._changed:
            self.seen.setdefault(name, now)
            self._changed.notify_all()


@asynccontextmanager
async def watching(
    kube: KubeClient,
    namespaces: list[str],
    known_by: Callable[[Manifest], str] = by_name,
    arrivals: Arrivals | None = None,
) -> AsyncIterator[Arrivals]:
    """Follow the Applications of ``namespaces`` for as long as the block runs.

    ``arrivals`` may be those of another cluster: all are noted together then.
    """
    arrivals = Arrivals() if arrivals is None else arrivals
    listed = [asyncio.Event() for _ in namespaces]
    tasks = [
        asyncio.create_task(_follow(kube, namespace, arrivals, ready, known_by))
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


async def _follow(
    kube: KubeClient,
    namespace: str,
    arrivals: Arrivals,
    listed: asyncio.Event,
    known_by: Callable[[Manifest], str],
) -> None:
    async for event in reflect(kube, APPLICATION, namespace):
        match event:
            case Seen(application) | Changed(application):
                await arrivals.note(known_by(application))
            case ListCompleted():
                listed.set()
            case _:
                pass
