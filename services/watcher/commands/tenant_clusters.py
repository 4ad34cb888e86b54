"""The engine clusters that each tenant is in, read from gitops.tenant-clusters: their agents open its Secrets.

The leading watcher reads the whole topic without a consumer group. The rows are about tenants of all workspaces, and
name digests of their namespaces; a watcher recognises its own. What was sealed for other clusters than a row now names
is sent again (:mod:`rechecks`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from services.common.clock import Clock, SystemClock
from services.common.kafka import NewsReader, TopicFollower
from services.common.messages import TenantClusters


@dataclass(slots=True)
class ClustersOfTenants:
    """The newest row of each tenant. Belongs to one event loop."""

    new_reader: Callable[[], NewsReader[TenantClusters]]
    """Makes a reader that begins at the start of the topic. A reader loses what a cancelled call had read."""
    matters: Callable[[], bool]
    """Whether a key names a cluster. If not, the topic is not read."""
    observers: list[Callable[[str], None]] = field(default_factory=list)
    """Called with the digest of each namespace whose row was added, changed or deleted."""
    clock: Clock = field(default_factory=SystemClock)
    _by_tenant: dict[str, TenantClusters] = field(default_factory=dict)
    _by_digest: dict[str, frozenset[str]] = field(default_factory=dict)
    _was_read: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Follow the topic for ever. Waits for brokers that do not answer, and for a topic that is missing.

        What was known when this process led before may be outdated, so it does not count until the topic is read anew.
        """
        self._was_read.clear()
        await TopicFollower(self.new_reader(), self.take_in, self.clock, matters=self.matters).follow()

    def take_in(self, rows: Iterable[TenantClusters]) -> None:
        """Store the newest rows of their tenants. Afterwards the topic counts as read to its end."""
        changed: dict[str, None] = {}
        for row in rows:
            before = self._by_tenant.pop(row.tenant_id, None)
            if before is not None:
                changed[before.namespace_digest] = None
                self._by_digest.pop(before.namespace_digest, None)
            if not row.deleted:
                self._by_tenant[row.tenant_id] = row
                self._by_digest[row.namespace_digest] = row.clusters
                changed[row.namespace_digest] = None
        self._was_read.set()
        for digest in changed:
            for observe in self.observers:
                observe(digest)

    async def wait_until_read(self) -> None:
        """Return once the topic was read to its end. A tenant that is unknown then is not placed yet."""
        await self._was_read.wait()

    def clusters_of(self, namespace_digest: str) -> frozenset[str]:
        """The engine clusters of the tenant with this namespace; empty: not known yet."""
        return self._by_digest.get(namespace_digest, frozenset())
