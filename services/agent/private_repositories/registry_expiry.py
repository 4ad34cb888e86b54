"""Forgets private repositories that nobody names any more and that no repo server can still have.

Argo CD fetches repositories to its repo servers' disks and never removes them there, so an entry must last as long. A
pod's disk is deleted with the pod. So an entry may be forgotten once every repo server is younger than the last row
that named it. If that cannot be found out (no pods, a disk that outlives them, no right to read) nothing is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import structlog

from services.agent.private_repositories.known_repositories import PrivateRepositoryRegistry
from services.common.argocd_names import NAME_LABEL, REPO_SERVER
from services.common.clock import Clock
from services.common.errors import GitOpsError
from services.common.kubernetes import POD, KubeClient, Manifest
from services.common.queueing import in_slices

log = structlog.get_logger(__name__)

REPO_SERVERS = f"{NAME_LABEL}={REPO_SERVER}"
EXPIRY_SECONDS = 3600.0
SETTLED = timedelta(hours=1)
"""How long Argo CD may still work for a deleted row. Deletions are forced long before."""
POD_VOLUMES = frozenset({"emptyDir", "configMap", "secret", "projected", "downwardAPI"})
"""Volumes that are deleted with their pod."""


class RegistryExpiry:
    """Expires the entries of one instance's registry."""

    def __init__(
        self,
        registry: PrivateRepositoryRegistry,
        cluster: KubeClient,
        namespace: str,
        clock: Clock,
        is_named: Callable[[bytes], bool],
    ) -> None:
        """``is_named`` returns whether a row of the instance names a repository."""
        self._registry, self._cluster, self._namespace = registry, cluster, namespace
        self._clock, self._is_named = clock, is_named

    async def expire_repeatedly(self) -> None:
        """Expire entries again and again, for ever."""
        while True:
            await self._clock.sleep(EXPIRY_SECONDS)
            try:
                await self.expire_entries()
            except GitOpsError as error:
                log.warning("private repositories that nobody names not forgotten yet", error=str(error))

    async def expire_entries(self) -> None:
        """Note which repositories are named, and forget those that no repo server can have.

        Raises as a cluster does.
        """
        now, waiting = int(self._clock.now().timestamp()), False
        async for repository in in_slices(self._registry.repositories()):
            entry = self._registry.entry_of(repository)
            if entry is not None:
                since = 0 if self._is_named(repository) else entry.unnamed_since or now
                self._registry.note_unnamed(repository, since)
                waiting = waiting or since > 0
        oldest = await self._oldest_repo_server() if waiting else None
        if oldest is not None:
            self._forget_before(int((oldest - SETTLED).timestamp()))
        await self._registry.save_all()

    def _forget_before(self, latest: int) -> None:
        forgotten = 0
        for repository in self._registry.repositories():
            entry, identity = self._registry.entry_of(repository), self._registry.identity_in_force(repository)
            due = entry is not None and 0 < entry.unnamed_since <= latest and not self._is_named(repository)
            if identity is not None and due:
                self._registry.remove_repository(identity)
                forgotten += 1
        if forgotten:
            log.info("forgot private repositories that nobody names", repositories=forgotten)

    async def _oldest_repo_server(self) -> datetime | None:
        """When the oldest repo server began; None if none can be seen, or a disk outlives its pod."""
        pods: list[Manifest] = []
        async for page in self._cluster.list_pages(POD, self._namespace, selector=REPO_SERVERS):
            pods += page.items
        if any(not _goes_with_pod(volume) for pod in pods for volume in pod["spec"].get("volumes") or ()):
            return None
        began = (datetime.fromisoformat(pod["metadata"]["creationTimestamp"]) for pod in pods)
        return min(began, default=None)


def _goes_with_pod(volume: Manifest) -> bool:
    return volume.keys() - {"name"} <= POD_VOLUMES
