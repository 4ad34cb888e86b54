"""A sealer, and where its tenants are, as a test says it."""

from __future__ import annotations

from services.common.kafka import TENANT_CLUSTERS
from services.common.messages import TenantClusters, namespace_digest
from services.common.sealing import SealingKeys
from services.watcher.commands.secrets import Sealer
from services.watcher.commands.tenant_clusters import ClustersOfTenants


class NoTopic:
    """Of which nothing is new."""

    topic = TENANT_CLUSTERS

    def read_news(self) -> list[TenantClusters]:
        return []


def sealer_of(keys: SealingKeys, max_bytes: int = 1024) -> Sealer:
    """Of the workspace ``local``; nothing is known of where tenants are."""
    return Sealer(keys, "local", max_bytes, ClustersOfTenants(NoTopic, lambda: keys.names_clusters))


def placed(clusters: str, namespace: str = "team-a", uid: str = "", *, deleted: bool = False) -> TenantClusters:
    """The row of a tenant of that workspace."""
    return TenantClusters(namespace, namespace_digest("local", namespace, uid), clusters, deleted)
