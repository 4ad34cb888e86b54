"""Each version that the API server has had of some objects while a block ran: none is missed, none comes too late."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from devstack.harness.mirror import Mirror, Objects, mirror_of
from services.common.backoff import Backoff
from services.common.errors import Unavailable
from services.common.kubernetes import (
    ApiResource,
    Changed,
    Deleted,
    KubeClient,
    Manifest,
    Reflection,
    Seen,
    namespace_and_name,
    reflect,
)

WATCHED_SECONDS = 30.0
"""Until a watch has shown what the API server has."""
IMPATIENT = partial(Backoff, first=0.05, limit=0.5)
"""An API server that was killed has forgotten what was before: who is back before a change misses nothing."""

Version = Seen | Changed | Deleted


@dataclass(frozen=True)
class VersionHistory:
    """Of the objects of one kind in a namespace, or of those that ``fields`` selects."""

    kube: KubeClient
    resource: ApiResource
    namespace: str
    fields: str
    mirror: Mirror
    noted: list[Version]

    async def until_now(self) -> list[Version]:
        """All versions, in order, once the watch has shown what the API server has now.

        A watch of somebody else's, which the caller has waited with, may be ahead of this one. Raises Unavailable: not
        every version was seen.
        """
        live: dict[tuple[str, str], int] = {}
        listed_at = 0
        async for page in self.kube.list_pages(self.resource, self.namespace, fields=self.fields):
            live |= {namespace_and_name(each): number(each) for each in page.items}
            listed_at = int(page.resource_version)

        def is_shown(objects: Objects) -> bool:
            has_all = all(key in objects and number(objects[key]) >= version for key, version in live.items())
            return has_all and all(key in live or number(each) > listed_at for key, each in objects.items())

        what = f"a watch shows the {self.resource.plural} of {self.namespace} as they are"
        await self.mirror.until(what, is_shown, WATCHED_SECONDS)
        by_object: defaultdict[tuple[str, str], list[Version]] = defaultdict(list)
        for each in self.noted:
            by_object[namespace_and_name(each.object)].append(each)
        for versions in by_object.values():
            require_gapless(versions)
        return self.noted


def number(manifest: Manifest) -> int:
    """The version of an object, which is the larger the later."""
    return int(manifest["metadata"]["resourceVersion"])


def require_gapless(versions: list[Version]) -> None:
    """Raise Unavailable if there were others between two versions of one object."""
    for before, after in pairwise(versions):
        # Listed anew, because the API server has forgotten what was changed since.
        if isinstance(after, Seen) and number(before.object) != number(after.object):
            raise Unavailable(f"what was between versions {number(before.object)} and {number(after.object)} is lost")


@asynccontextmanager
async def versions_seen(
    kube: KubeClient, resource: ApiResource, namespace: str, fields: str = ""
) -> AsyncIterator[VersionHistory]:
    """The history while the block runs; it begins with each object as it is."""
    noted: list[Version] = []
    events = _noting(reflect(kube, resource, namespace, parts=(fields,), backoff=IMPATIENT), noted)
    async with mirror_of(events, f"{resource.plural} of {namespace}") as mirror:
        yield VersionHistory(kube, resource, namespace, fields, mirror, noted)


async def _noting(events: AsyncGenerator[Reflection], noted: list[Version]) -> AsyncGenerator[Reflection]:
    """The same events; before each the version that it shows is noted."""
    async with aclosing(events):
        async for event in events:
            if isinstance(event, Version):
                noted.append(event)
            yield event
