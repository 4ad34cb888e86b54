"""What tenants notice while the fleet changes: the statuses of their deployments, and changes of what is deployed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager

from devstack.demo.story import Story
from devstack.demo.users import state
from services.common.errors import Unavailable
from services.common.kubernetes import Changed, Deleted, Manifest, Reflection, namespace_and_name, reflect
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT

WELL = "Synced, Healthy"
Identity = tuple[str, str]
Versions = Mapping[Identity, tuple[str, str]]
"""UID and version of what a deployment has deployed; any write to it changes the version."""


class Continuity:
    """Of all deployments of a story."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._committing: set[Identity] = set()
        self.gaps: list[str] = []
        """Each status that was not Synced and Healthy although nobody had committed anything."""
        self._before = self._workloads()

    async def follow(self, events: AsyncGenerator[Reflection]) -> None:
        """Note what ``events`` show, until these end."""
        async for event in events:
            if isinstance(event, Changed | Deleted):
                self.note(event.object, is_gone=isinstance(event, Deleted))

    def note(self, deployment: Manifest, *, is_gone: bool = False) -> None:
        """What a tenant sees of a deployment from now on."""
        identity = namespace_and_name(deployment)
        shown = "gone" if is_gone else state(deployment.get("status", {}))
        if shown != WELL and identity not in self._committing:
            self.gaps.append(f"{'/'.join(identity)}: {shown}")

    @contextmanager
    def committing(self, *identities: Identity) -> Iterator[None]:
        """Meanwhile these may show anything: there is something new to deploy."""
        self._committing.update(identities)
        yield
        self._committing.difference_update(identities)

    def begin(self) -> None:
        """What is deployed now is what has to stay."""
        self._before = self._workloads()

    def require_unnoticed(self) -> None:
        """Raises Unavailable if a tenant has noticed anything, or a workload was touched."""
        if self.gaps:
            raise Unavailable(f"tenants have seen it: {'; '.join(self.gaps)}")
        touched = [name for name, version in self._workloads().items() if self._before[name] != version]
        if touched:
            raise Unavailable(f"workloads were touched: {', '.join(map('/'.join, touched))}")

    def _workloads(self) -> Versions:
        found = {}
        for tenant, name in self._story.users.deployments.objects:
            cluster, namespace = self._story.deployed_to(tenant, name)
            metadata = cluster.objects[namespace, name]["metadata"]
            found[tenant, name] = (metadata["uid"], metadata["resourceVersion"])
        return found


@asynccontextmanager
async def continuity_of(story: Story) -> AsyncIterator[Continuity]:
    """What is noticed while the block runs."""
    continuity = Continuity(story)
    following = asyncio.create_task(continuity.follow(reflect(story.users.kube, GITOPS_DEPLOYMENT)))
    try:
        yield continuity
        if following.done():
            following.result()  # whoever does not look any more must not say that there was nothing to see
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
