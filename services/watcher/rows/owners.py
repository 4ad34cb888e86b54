"""Finds out whether the owners of child objects exist. One read serves all children that come together."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from services.common.kubernetes import KubeClient, NotFound
from services.common.messages import WorkspaceObject
from services.watcher.rows.child_manifest import owner_resource_of

SEEN_FOR_SECONDS = 1.0
"""How long an owner counts as existing after it was read. If it goes meanwhile, the garbage collector removes the
child."""
MOST_SEEN = 10_000


@dataclass(frozen=True, slots=True)
class Owners:
    """Owners in one workspace cluster. Belongs to one event loop."""

    kube: KubeClient
    time: Callable[[], float] = time.monotonic
    _seen: dict[str, float] = field(default_factory=dict)
    """When each existing owner was read, by uid."""

    async def has_owner(self, row: WorkspaceObject) -> bool:
        """Whether the resource that ``row`` names, by uid, exists, or existed a moment ago."""
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
