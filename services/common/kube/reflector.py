"""List, then watch, then list again when history is lost: every change of a collection, none missed.

Called by each edge that follows objects of an API server. What it promises: between ``ListStarted`` and
``ListCompleted`` every object that exists is yielded once as ``Seen``; after it every change, in the API server's
order. A consumer that treats what was not seen in a list as gone has an exact picture.

A collection may be followed in parts that a field selector tells apart, such as Secrets of some types. They are
listed together and make one list; when history of one part is lost, all of them are listed again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

import structlog

from services.common.backoff import Backoff
from services.common.errors import GitOpsError, Retry, Wait
from services.common.kube.client import PAGE, KubeClient
from services.common.kube.errors import Expired, Refused, ServerFailed
from services.common.kube.forbidden import FORBIDDEN_SECONDS, Forbidden
from services.common.kube.merge import merged
from services.common.kube.resources import Manifest, Resource

log = structlog.get_logger(__name__)

SHORT_WATCH_SECONDS = 1.0
"""A watch that ends sooner was not ended by agreement; opening it again at once would be a busy loop."""
LARGER = 10
"""By how much pages grow when a list expires halfway."""
MAX_FAILED_RESUMES = 5
"""Failures of the API server in a row, without an event between, after which history is given up for a list."""


@dataclass(frozen=True, slots=True)
class ListStarted:
    """A complete list begins; what is not seen until :class:`ListCompleted` does not exist."""


@dataclass(frozen=True, slots=True)
class Seen:
    """An object of the list."""

    object: Manifest = field(repr=False)  # may be a Secret, here and below
    part: str = ""
    """The field selector that chose it, here and below."""


@dataclass(frozen=True, slots=True)
class ListCompleted:
    """The list is complete; changes follow."""

    count: int


@dataclass(frozen=True, slots=True)
class Changed:
    """An object was added or modified."""

    object: Manifest = field(repr=False)
    part: str = ""


@dataclass(frozen=True, slots=True)
class Removed:
    """An object is gone; ``object`` is its last state."""

    object: Manifest = field(repr=False)
    part: str = ""


Reflection = ListStarted | Seen | ListCompleted | Changed | Removed


async def reflect(
    client: KubeClient,
    resource: Resource,
    namespace: str | None = None,
    *,
    selector: str = "",
    parts: Sequence[str] = ("",),
    metadata_only: bool = False,
    backoff: Callable[[], Backoff] = Backoff,
    forbidden_seconds: float = FORBIDDEN_SECONDS,
) -> AsyncGenerator[Reflection]:
    """Follow a collection for ever; ``parts`` are field selectors that no object satisfies two of.

    With ``metadata_only`` the objects have no more than their metadata.

    A broken watch resumes from the last resource version seen, bookmarks included; one that is too old (410), or
    that the API server fails to resume again and again, starts a new list. Raises Refused when the API server
    forbids the list or the watch, and goes on doing so for ``forbidden_seconds``.
    """
    delays, forbidden = backoff(), Forbidden(forbidden_seconds)
    following = [_Part(client, resource, namespace, selector, part, delays, forbidden, metadata_only) for part in parts]
    while True:
        try:
            # Closed by hand: an abandoned generator would hold its connection until the collector finds it.
            async with aclosing(_listed(following)) as events:
                async for event in events:
                    yield event
            async with aclosing(merged([part.watched() for part in following])) as changes:
                async for change in changes:
                    yield change
        except (Retry, Wait) as error:
            await following[0].pause(error)
        except Refused as error:
            forbidden.bear(error)
            await following[0].pause(error)


async def _listed(following: Sequence[_Part]) -> AsyncGenerator[Reflection]:
    """List all parts once."""
    yield ListStarted()
    count = 0
    for part in following:
        async with aclosing(part.listed()) as items:
            async for item in items:
                count += 1
                yield Seen(item, part.fields)
    yield ListCompleted(count)


@dataclass(slots=True)
class _Part:
    """What one field selector chooses of a collection, and how far it was followed."""

    client: KubeClient
    resource: Resource
    namespace: str | None
    selector: str
    fields: str
    delays: Backoff
    forbidden: Forbidden
    metadata_only: bool = False
    version: str = ""
    page: int = PAGE
    failed_resumes: int = 0

    async def listed(self) -> AsyncGenerator[Manifest]:
        """List once."""
        pages = self.client.pages(
            self.resource,
            self.namespace,
            selector=self.selector,
            fields=self.fields,
            limit=self.page,
            metadata_only=self.metadata_only,
        )
        try:
            async for page in pages:
                self.version = page.resource_version
                for item in page.items:
                    yield item
        except Expired:
            self.page *= LARGER  # we read more slowly than history is forgotten, and one page cannot expire halfway
            raise
        self.page = PAGE
        self.forbidden.reset()

    async def watched(self) -> AsyncGenerator[Reflection]:
        """Watch again and again from the last version seen; ends only by an error that needs a list."""
        self.failed_resumes = 0
        while True:
            try:
                async with aclosing(self._watch()) as events:
                    async for event in events:
                        yield event
            except Retry as error:
                if self._needs_a_list(error):
                    raise
                await self.pause(error)
            except Refused as error:
                self.forbidden.bear(error)
                await self.pause(error)

    async def _watch(self) -> AsyncGenerator[Reflection]:
        """One watch; bookmarks only move the version on."""
        opened = time.monotonic()
        events = self.client.watch(
            self.resource,
            self.version,
            self.namespace,
            selector=self.selector,
            fields=self.fields,
            metadata_only=self.metadata_only,
        )
        try:
            async with aclosing(events):
                async for event in events:
                    self.version = event.object["metadata"]["resourceVersion"]
                    self.failed_resumes = 0
                    self.delays.reset()
                    self.forbidden.reset()
                    if event.type != "BOOKMARK":
                        what = Removed if event.type == "DELETED" else Changed
                        yield what(event.object, self.fields)
        finally:
            lasted = time.monotonic() - opened
            if lasted >= SHORT_WATCH_SECONDS:  # a refusal comes at once: this watch was open, though nothing happened
                self.forbidden.reset()
        if lasted < SHORT_WATCH_SECONDS:
            raise Retry("the API server ended the watch as soon as it began")

    def _needs_a_list(self, error: Retry) -> bool:
        if isinstance(error, ServerFailed):  # may be for ever, e.g. a version from before etcd was restored
            self.failed_resumes += 1
        return isinstance(error, Expired) or self.failed_resumes >= MAX_FAILED_RESUMES

    async def pause(self, error: GitOpsError) -> None:
        """Wait before the next attempt; the first list after history was lost need not wait."""
        at_once = isinstance(error, Expired) and self.delays.fresh
        delay = self.delays.next() * (not at_once)
        log.warning(
            "reflection interrupted",
            resource=self.resource.plural,
            error=str(error),
            retry_in_seconds=round(delay, 3),
        )
        await asyncio.sleep(delay)
