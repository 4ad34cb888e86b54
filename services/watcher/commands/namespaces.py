"""Tells which namespace of its name a resource is in: who is given a name again must find nothing of before.

Called by :mod:`command_sender`. A namespace is read when a resource of it is sent that was not sent before. No watch
would do: it may be behind that of the resource, and the planner would be told the namespace of before.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from services.common.kubernetes import NAMESPACE, Manifest
from services.watcher.commands.object_reader import ObjectReader
from services.watcher.commands.translation import created_at

MOST_KNOWN = 100_000
LOGICAL_CLUSTER = "kcp.io/cluster"
"""Annotation of every object of KCP: a workspace that is made again under its name is another logical cluster.

Elsewhere it is an annotation like any other, which whoever may label a namespace may set.
"""


@dataclass(frozen=True, slots=True)
class Namespace:
    """One incarnation of a namespace."""

    uid: str
    """After the name of its logical cluster, if it tells one."""
    created_at: int
    """Milliseconds since 1970, in whole seconds."""
    read_at: datetime
    """It was there then, or later."""


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Namespaces:
    """The namespaces that were read last; for all kinds together. Belongs to one event loop."""

    reader: ObjectReader
    in_logical_clusters: bool = False
    """The API server is KCP."""
    now: Callable[[], datetime] = _now
    _known: dict[str, Namespace] = field(default_factory=dict)
    _reading: defaultdict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))

    async def find_namespace(self, name: str, since: datetime | None) -> Namespace | None:
        """The namespace as it was read after ``since``, or ever; None if there is none. Raises Rejected."""
        known = self._known.get(name)
        if known is not None and _is_recent(known, since):
            return known
        async with self._reading[name]:  # what waited meanwhile has been read for all
            known = self._known.get(name)
            if known is None or not _is_recent(known, since):
                known = await self._read(name)
        return known

    async def _read(self, name: str) -> Namespace | None:
        read_at = self.now()
        manifest = await self.reader.find_object(NAMESPACE, None, name)
        if len(self._reading) > MOST_KNOWN:
            self._known.clear()
            self._reading.clear()
        if manifest is None:
            self._known.pop(name, None)
            return None
        meta = manifest["metadata"]
        self._known[name] = found = Namespace(self._identity(meta), created_at(meta), read_at)
        return found

    def _identity(self, meta: Manifest) -> str:
        cluster = (meta.get("annotations") or {}).get(LOGICAL_CLUSTER, "") if self.in_logical_clusters else ""
        return f"{cluster}/{meta['uid']}" if cluster else str(meta["uid"])


def _is_recent(known: Namespace, since: datetime | None) -> bool:
    return since is None or known.read_at >= since
