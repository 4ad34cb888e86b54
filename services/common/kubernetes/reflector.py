"""List, then watch, then list again when history is lost: shows every change of a collection.

Used by each service that follows objects of an API server. Between ``ListStarted`` and ``ListCompleted`` every existing
object is yielded; from ``ListStarted`` on every change, in the API server's order. A consumer that considers objects as
gone which were not shown by ``ListCompleted`` knows exactly what exists.

All pages of a list are of one moment, and the watch begins at that moment while the pages are still being read: a new
change does not wait for a long list. An object that a change has shown is left out of the rest of the list.

A collection may be followed in parts selected by field selectors, such as Secrets of some types. The parts are listed
together and make one list. When the history of one part is lost, all parts are listed again.
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
from services.common.kubernetes.access import GRACE_SECONDS, ForbiddenGrace
from services.common.kubernetes.api_errors import Expired, NotFound, Rejected, ServerFailed
from services.common.kubernetes.builtin_kinds import ApiResource, Manifest
from services.common.kubernetes.client import PAGE, KubeClient, Page
from services.common.kubernetes.merge import merged

log = structlog.get_logger(__name__)

SHORT_WATCH_SECONDS = 1.0
"""A watch that ends sooner did not end normally. Opening it again at once would be a busy loop."""
LARGER = 10
"""By what factor pages grow when a list expires halfway."""
MISSING_SECONDS = 10.0
"""How long an API server that has just started may not know a kind, and how often it is asked again."""
MAX_FAILED_RESUMES = 5
"""After so many failures of the API server in a row, without an event, a new list replaces the history."""


@dataclass(frozen=True, slots=True)
class ListStarted:
    """A list begins. An object that is not shown until :class:`ListCompleted` does not exist."""


@dataclass(frozen=True, slots=True)
class Seen:
    """An object of the list, unless it has changed or gone since the list began."""

    object: Manifest = field(repr=False)  # may be a Secret, here and below
    part: str = ""
    """The field selector that chose the object."""


@dataclass(frozen=True, slots=True)
class ListCompleted:
    """The list is complete."""

    count: int
    """Number of objects in the list."""


@dataclass(frozen=True, slots=True)
class Changed:
    """An object was added or modified."""

    object: Manifest = field(repr=False)
    part: str = ""


@dataclass(frozen=True, slots=True)
class Deleted:
    """An object is gone; ``object`` is its last state."""

    object: Manifest = field(repr=False)
    part: str = ""


@dataclass(frozen=True, slots=True)
class Restored:
    """The API server is behind what it has shown, because it was restored from a backup. A new list follows."""


Reflection = ListStarted | Seen | ListCompleted | Changed | Deleted | Restored


async def reflect(  # noqa: PLR0913 - what is followed, and how patiently
    client: KubeClient,
    resource: ApiResource,
    namespace: str | None = None,
    *,
    selector: str = "",
    parts: Sequence[str] = ("",),
    metadata_only: bool = False,
    changes_only: bool = False,
    missing_after: float | None = None,
    backoff: Callable[[], Backoff] = Backoff,
    grace_seconds: float = GRACE_SECONDS,
) -> AsyncGenerator[Reflection]:
    """Follow a collection for ever; ``parts`` are field selectors that no object satisfies two of.

    With ``metadata_only`` the objects have no more than their metadata. With ``changes_only`` a list shows no objects:
    what changes while history is lost is missed, and a large collection costs no more than its changes. A kind that the
    API server has not known for ``missing_after`` seconds has no objects: that is a complete list. None: it is waited
    for.

    A broken watch resumes from the last resource version seen, bookmarks included; one that is too old (410), or
    that the API server fails to resume again and again, starts a new list. Raises Rejected when the API server
    forbids the list or the watch, and goes on doing so for ``grace_seconds``.
    """
    delays, grace = backoff(), ForbiddenGrace(grace_seconds)
    following = [
        _Part(client, resource, namespace, selector, part, delays, grace, metadata_only, changes_only) for part in parts
    ]
    while True:
        try:
            yield ListStarted()
            # Closed by hand: an abandoned generator would hold its connection until the collector finds it.
            async with aclosing(_collected([part.followed() for part in following])) as events:
                async for event in events:
                    yield event
        except NotFound as error:
            if missing_after is None:
                await following[0].pause(error)
            elif await following[0].is_missing_after(missing_after):
                yield ListStarted()
                yield ListCompleted(0)
                await following[0].until_served(missing_after)
        except (Retry, Wait) as error:
            grace.begin_anew()
            await following[0].pause(error)
        except Rejected as error:
            grace.tolerate_rejection(error)
            await following[0].pause(error)


async def _collected(parts: Sequence[AsyncGenerator[Reflection | _PartListed]]) -> AsyncGenerator[Reflection]:
    """The events of all parts as one collection.

    An object that has changed is left out of the list, which shows an older state. This is by uid: another part may
    list an object of the same name, such as a Secret that was created again with another type.
    """
    changed: set[str] = set()
    unlisted, count = len(parts), 0
    async with aclosing(merged(parts)) as events:
        async for event in events:
            match event:
                case Seen(item):
                    count += 1
                    if item["metadata"]["uid"] not in changed:
                        yield event
                case _PartListed():
                    unlisted -= 1
                    if not unlisted:
                        changed.clear()
                        yield ListCompleted(count)
                case Changed(item) | Deleted(item):
                    if unlisted:
                        changed.add(item["metadata"]["uid"])
                    yield event
                case _:
                    yield event


@dataclass(frozen=True, slots=True)
class _PartListed:
    """The list of a part is complete."""


@dataclass(slots=True)
class _Part:
    """The objects that one field selector chooses, and how far they were followed."""

    client: KubeClient
    resource: ApiResource
    namespace: str | None
    selector: str
    fields: str
    delays: Backoff
    grace: ForbiddenGrace
    metadata_only: bool = False
    changes_only: bool = False
    version: str = ""
    page: int = PAGE
    failed_resumes: int = 0

    async def followed(self) -> AsyncGenerator[Reflection | _PartListed]:
        """List once, and watch from the moment of the list on. Ends only with an error that requires a list."""
        async with aclosing(self._pages()) as pages:
            first = await anext(pages)
            if self._is_ahead_of(first.resource_version):
                yield Restored()
            self.version = first.resource_version
            streams = [self._listed(first, pages), self._watched()]
            async with aclosing(merged(streams)) as events:
                async for event in events:
                    yield event

    async def _pages(self) -> AsyncGenerator[Page]:
        pages = self.client.list_pages(
            self.resource,
            self.namespace,
            selector=self.selector,
            fields=self.fields,
            limit=1 if self.changes_only else self.page,
            metadata_only=self.metadata_only,
        )
        try:
            async with aclosing(pages):
                async for page in pages:
                    yield page
        except Expired:
            self.page *= LARGER  # we read more slowly than history is forgotten, and one page cannot expire halfway
            raise
        self.page = PAGE

    async def _listed(self, first: Page, others: AsyncGenerator[Page]) -> AsyncGenerator[Reflection | _PartListed]:
        if not self.changes_only:
            for item in first.items:
                yield Seen(item, self.fields)
            async for page in others:
                for item in page.items:
                    yield Seen(item, self.fields)
        self.grace.reset()
        yield _PartListed()

    async def _watched(self) -> AsyncGenerator[Reflection | _PartListed]:
        """Watch again and again from the last version seen. Ends only with an error that requires a list."""
        self.failed_resumes, is_resumed = 0, False
        while True:
            try:
                if is_resumed and self._is_ahead_of(current := await self._current_version()):
                    seen, self.version = self.version, ""
                    yield Restored()
                    raise Expired(f"the API server is at version {current}, and was at {seen}: it was restored")
                is_resumed = True
                async with aclosing(self._watch()) as events:
                    async for event in events:
                        yield event
            except Retry as error:
                if self._needs_a_list(error):
                    raise
                self.grace.begin_anew()
                await self.pause(error)
            except Rejected as error:
                self.grace.tolerate_rejection(error)
                await self.pause(error)

    def _is_ahead_of(self, current: str) -> bool:
        """Whether the API server is behind the last version seen.

        Its watch would then be silent until it has caught up.
        """
        return bool(self.version) and int(current) < int(self.version)

    async def _current_version(self) -> str:
        pages = self.client.list_pages(
            self.resource, self.namespace, selector=self.selector, fields=self.fields, limit=1, metadata_only=True
        )
        async with aclosing(pages):
            return (await anext(pages)).resource_version

    async def _watch(self) -> AsyncGenerator[Reflection]:
        """One watch. Bookmarks only advance the version."""
        opened = time.monotonic()
        events = self.client.watch_objects(
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
                    self.grace.reset()
                    if event.type != "BOOKMARK":
                        what = Deleted if event.type == "DELETED" else Changed
                        yield what(event.object, self.fields)
        finally:
            lasted = time.monotonic() - opened
            if lasted >= SHORT_WATCH_SECONDS:  # a refusal comes at once: this watch was open, though nothing happened
                self.grace.reset()
        if lasted < SHORT_WATCH_SECONDS:
            raise Retry("the API server ended the watch as soon as it began")

    def _needs_a_list(self, error: Retry) -> bool:
        if isinstance(error, ServerFailed):  # may be for ever, e.g. a version from before etcd was restored
            self.failed_resumes += 1
        return isinstance(error, Expired) or self.failed_resumes >= MAX_FAILED_RESUMES

    async def until_served(self, seconds: float) -> None:
        """Return when the API server may know the kind, which is asked every so many seconds."""
        log.info("the API server does not know the kind, so there are none", resource=self.resource.plural)
        while await self.is_missing_after(seconds):
            pass

    async def is_missing_after(self, seconds: float) -> bool:
        """Wait, and return whether the API server does not know the kind then.

        Other failures are left to the next list.
        """
        await asyncio.sleep(seconds)
        pages = self.client.list_pages(self.resource, self.namespace, limit=1, metadata_only=True)
        async with aclosing(pages):
            try:
                await anext(pages)
            except NotFound:
                return True
            except GitOpsError:
                return False
        return False

    async def pause(self, error: GitOpsError) -> None:
        """Wait before the next attempt. The first list after history was lost need not wait."""
        at_once = isinstance(error, Expired) and self.delays.fresh
        delay = self.delays.next_delay() * (not at_once)
        log.warning(
            "reflection interrupted",
            resource=self.resource.plural,
            error=str(error),
            retry_in_seconds=round(delay, 3),
        )
        await asyncio.sleep(delay)
