"""A live copy of a collection of the API server, to wait on: for the demo and the end-to-end tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from services.common.errors import Unavailable
from services.common.kube import (
    Changed,
    KubeClient,
    ListCompleted,
    Manifest,
    Reflection,
    Removed,
    Resource,
    Seen,
    reflect,
)

Objects = Mapping[tuple[str, str], Manifest]
"""Objects by namespace and name."""


@dataclass(slots=True)
class Mirror:
    """What the API server holds, as of the last event."""

    objects: dict[tuple[str, str], Manifest] = field(default_factory=dict)
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    _listed: asyncio.Event = field(default_factory=asyncio.Event)

    async def until(self, what: str, holds: Callable[[Objects], bool], timeout_seconds: float = 30) -> None:
        """Return as soon as ``holds`` is true of the objects; a list that is not complete is not judged.

        Raises Unavailable naming ``what`` was waited for if that takes too long.
        """
        async with self._changed:
            try:
                async with asyncio.timeout(timeout_seconds):
                    await self._changed.wait_for(lambda: self._listed.is_set() and holds(self.objects))
            except TimeoutError:
                raise Unavailable(f"not within {timeout_seconds:g} s: {what}") from None

    async def take(self, event: Reflection) -> None:
        """Follow one event of the reflection."""
        async with self._changed:
            match event:
                case Seen(item) | Changed(item):
                    self.objects[_identity(item)] = item
                case Removed(item):
                    self.objects.pop(_identity(item), None)
                case ListCompleted():
                    self._listed.set()
                case _:
                    self._listed.clear()
                    self.objects.clear()
            self._changed.notify_all()

    async def listed(self) -> None:
        """Wait for the first complete list."""
        await self._listed.wait()


@asynccontextmanager
async def mirrored(kube: KubeClient, resource: Resource, namespace: str | None = None) -> AsyncIterator[Mirror]:
    """A mirror of ``resource`` for as long as the block runs; complete when it begins."""
    mirror = Mirror()

    async def follow() -> None:
        async for event in reflect(kube, resource, namespace):
            await mirror.take(event)

    task = asyncio.create_task(follow())
    try:
        listing = asyncio.create_task(mirror.listed())
        await asyncio.wait({task, listing}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        yield mirror
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _identity(item: Manifest) -> tuple[str, str]:
    meta = item["metadata"]
    return meta.get("namespace", ""), meta["name"]
