"""List, then watch, then list again when history is lost: every change of a collection, none missed.

Called by each edge that follows objects of an API server. What it promises: between ``ListStarted`` and
``ListCompleted`` every object that exists is yielded once as ``Seen``; after it every change, in the API server's
order. A consumer that treats what was not seen in a list as gone has an exact picture.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import structlog

from services.common.backoff import Backoff
from services.common.errors import GitOpsError, Retry, Wait
from services.common.kube.client import KubeClient
from services.common.kube.errors import Expired
from services.common.kube.resources import Manifest, Resource

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ListStarted:
    """A complete list begins; what is not seen until :class:`ListCompleted` does not exist."""


@dataclass(frozen=True, slots=True)
class Seen:
    """An object of the list."""

    object: Manifest


@dataclass(frozen=True, slots=True)
class ListCompleted:
    """The list is complete; changes follow."""

    count: int


@dataclass(frozen=True, slots=True)
class Changed:
    """An object was added or modified."""

    object: Manifest


@dataclass(frozen=True, slots=True)
class Removed:
    """An object is gone; ``object`` is its last state."""

    object: Manifest


Reflection = ListStarted | Seen | ListCompleted | Changed | Removed


async def reflect(
    client: KubeClient,
    resource: Resource,
    namespace: str | None = None,
    *,
    selector: str = "",
    backoff: Callable[[], Backoff] = Backoff,
) -> AsyncIterator[Reflection]:
    """Follow a collection for ever.

    A broken watch resumes from the last resource version seen, bookmarks included; one that is too old (410)
    starts a new list. Raises Refused when the API server forbids the list or the watch.
    """
    delays = backoff()
    while True:
        try:
            async for event in _list_then_watch(client, resource, namespace, selector, delays):
                yield event
        except (Retry, Wait) as error:
            await _pause(resource, error, delays)


async def _list_then_watch(
    client: KubeClient, resource: Resource, namespace: str | None, selector: str, delays: Backoff
) -> AsyncIterator[Reflection]:
    yield ListStarted()
    count, version = 0, ""
    async for page in client.pages(resource, namespace, selector=selector):
        version = page.resource_version
        count += len(page.items)
        for item in page.items:
            yield Seen(item)
    yield ListCompleted(count)
    async for event in _watch_from(client, resource, namespace, selector, version, delays):
        yield event


async def _watch_from(
    client: KubeClient,
    resource: Resource,
    namespace: str | None,
    selector: str,
    version: str,
    delays: Backoff,
) -> AsyncIterator[Reflection]:
    """Watch again and again from the last version seen; ends only by Expired or another error that needs a list."""
    while True:
        try:
            async for event in client.watch(resource, version, namespace, selector=selector):
                version = event.object["metadata"]["resourceVersion"]
                delays.reset()
                match event.type:
                    case "BOOKMARK":
                        continue
                    case "DELETED":
                        yield Removed(event.object)
                    case _:
                        yield Changed(event.object)
        except Expired:
            raise
        except Retry as error:
            await _pause(resource, error, delays)


async def _pause(resource: Resource, error: GitOpsError, delays: Backoff) -> None:
    delay = 0.0 if isinstance(error, Expired) and delays.fresh else delays.next()
    log.warning("reflection interrupted", resource=resource.plural, error=str(error), retry_in_seconds=round(delay, 3))
    await asyncio.sleep(delay)
