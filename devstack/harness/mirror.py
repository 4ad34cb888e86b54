"""A live copy of a collection of the API server, to wait on: for the demo and the end-to-end tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from services.common.errors import Unavailable
from services.common.kubernetes import (
    ApiResource,
    Informer,
    KubeClient,
    Manifest,
    ObjectStore,
    Reflection,
    namespace_and_name,
    reflect,
)

LIST_SECONDS = 60.0

Objects = Mapping[tuple[str, str], Manifest]
"""Objects by namespace and name."""


class Mirror:
    """What the API server holds, as of the last event."""

    def __init__(self) -> None:
        self.objects: ObjectStore[tuple[str, str], Manifest] = ObjectStore(
            namespace_and_name, lambda manifest, _: manifest
        )
        self._changed = asyncio.Condition()

    async def follow(self, events: AsyncGenerator[Reflection]) -> None:
        """Keep the objects as ``events`` show them, until these end."""
        async for _ in Informer(events, self.objects).changes():
            async with self._changed:
                self._changed.notify_all()

    async def until(self, what: str, holds: Callable[[Objects], bool], timeout_seconds: float = 120) -> None:
        """Return as soon as ``holds`` is true of the objects; a list that is not complete is not judged.

        Raises Unavailable naming ``what`` was waited for if that takes too long.
        """
        async with self._changed:
            try:
                async with asyncio.timeout(timeout_seconds):
                    await self._changed.wait_for(lambda: self.objects.is_complete and holds(self.objects))
            except TimeoutError:
                raise Unavailable(f"not within {timeout_seconds:g} s: {what}") from None


@asynccontextmanager
async def mirrored(kube: KubeClient, resource: ApiResource, namespace: str | None = None) -> AsyncIterator[Mirror]:
    """A mirror of ``resource`` for as long as the block runs; complete when it begins."""
    async with mirror_of(reflect(kube, resource, namespace), resource.plural) as mirror:
        yield mirror


@asynccontextmanager
async def mirror_of(events: AsyncGenerator[Reflection], what: str) -> AsyncIterator[Mirror]:
    """A mirror of ``what`` the events show for as long as the block runs; complete when it begins."""
    mirror = Mirror()
    following = asyncio.create_task(mirror.follow(events))
    listing = asyncio.create_task(mirror.until(f"a list of {what}", lambda _: True, LIST_SECONDS))
    try:
        done, _ = await asyncio.wait({following, listing}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        yield mirror
    finally:
        following.cancel()
        listing.cancel()
        await asyncio.gather(following, listing, return_exceptions=True)
