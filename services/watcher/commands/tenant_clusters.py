"""In which engine clusters tenants are, as gitops.tenant-clusters tells: whose agents open their Secrets.

The leading watcher reads all of that topic, as a member of no group. The rows are of tenants of all workspaces, by
digests of their namespaces: a watcher finds those that it knows. What was sealed for other clusters than a row now
names is sent again (:mod:`rechecks`).
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
    """The newest row of each tenant; belongs to one event loop."""

    new_reader: Callable[[], NewsReader[TenantClusters]]
    """Of the topic from its beginning on: what a call has read that was given up is lost to its reader."""
    matters: Callable[[], bool]
    """Whether a key names a cluster: if not, nobody reads the topic."""
    observers: list[Callable[[str], None]] = field(default_factory=list)
    """Called with the digest of each namespace whose row has come, changed or gone."""
    clock: Clock = field(default_factory=SystemClock)
    _by_tenant: dict[str, TenantClusters] = field(default_factory=dict)
    _by_digest: dict[str, frozenset[str]] = field(default_factory=dict)
    _was_read: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Follow the topic for ever; brokers that do not answer, and a topic that is missing, are waited for.

        What was known when this process led before may be out of date: it counts once the topic is read anew.
        """
        self._was_read.clear()
        await TopicFollower(self.new_reader(), self.take_in, self.clock, matters=self.matters).follow()

    def take_in(self, rows: Iterable[TenantClusters]) -> None:
        """These rows are the newest of their tenants; afterwards the topic was read to its end."""
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
        """Return once the topic was read to its end: what is not known then is not placed yet."""
        await self._was_read.wait()

    def clusters_of(self, namespace_digest: str) -> frozenset[str]:
        """Where the tenant is that has this namespace; empty: it is not known yet."""
        return self._by_digest.get(namespace_digest, frozenset())
