"""Tells whether the owners of child objects are there: read once for all children that come together."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from services.common.kubernetes import KubeClient, NotFound
from services.common.messages import WorkspaceObject
from services.watcher.rows.child_manifest import owner_resource_of

SEEN_FOR_SECONDS = 1.0
"""How long an owner counts as there. It may go right after it was read, too: the garbage collector sees to that."""
MOST_SEEN = 10_000


@dataclass(frozen=True, slots=True)
class Owners:
    """Those of one workspace cluster. Belongs to one event loop."""

    kube: KubeClient
    time: Callable[[], float] = time.monotonic
    _seen: dict[str, float] = field(default_factory=dict)
    """When those that were there were read, by uid."""

    async def has_owner(self, row: WorkspaceObject) -> bool:
        """Whether the very resource that ``row`` names is there, or was a moment ago."""
        now = self.time()
        if now - self._seen.get(row.owner_uid, -SEEN_FOR_SECONDS) < SEEN_FOR_SECONDS:
            return True
        if not await self._read(row):
            return False
        if len(self._seen) >= MOST_SEEN:
            self._seen.clear()
        self._seen[row.owner_uid] = now
        return True

    async def _read(self, row: WorkspaceObject) -> bool:
        try:
            owner = await self.kube.get_object(owner_resource_of(row), row.namespace, row.owner_name)
        except NotFound:
            return False
        return bool(owner["metadata"]["uid"] == row.owner_uid)
