"""The heartbeat: an Application of ours in each engine namespace that Argo CD is asked to compare again and again.

It deploys nothing. Its AppProject permits one repository, which operators have named, and no kind of resource; nothing
syncs it, and it has not the label by which our objects are known: no row is about it, it is nobody's orphan, no load
and no tenant's. What it shows is that a comparison that is asked for comes: the controller takes work up, and the
repo server renders. So it takes a repository that every instance can always reach, without a login.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from services.agent.health.signals import HeartbeatSignal
from services.agent.objects.reconciliation import REFRESH, Reconciliation, reconciliation_of
from services.common.argocd_names import API_VERSION, LOCAL_CLUSTER
from services.common.clock import Clock
from services.common.kubernetes import APP_PROJECT, APPLICATION, ApiResource, KubeClient, Manifest, NotFound
from services.common.ownership import AGENT_FIELD_MANAGER

NAME = "gitops-service-heartbeat"
"""Of the Application, and of its AppProject."""
EVERYTHING = [{"group": "*", "kind": "*"}]


@dataclass(frozen=True, slots=True)
class HeartbeatSource:
    """What is rendered for it."""

    repository: str
    path: str
    revision: str


def heartbeat_objects(namespace: str, source: HeartbeatSource) -> tuple[tuple[ApiResource, Manifest], ...]:
    """The AppProject and the Application, which is never to be synced."""
    place = {"name": LOCAL_CLUSTER, "namespace": namespace}
    project = {
        "description": "Heartbeat of the GitOps service: nothing is deployed by it.",
        "sourceRepos": [source.repository],
        "destinations": [place],
        "clusterResourceBlacklist": EVERYTHING,
        "namespaceResourceBlacklist": EVERYTHING,
    }
    rendered = {"repoURL": source.repository, "path": source.path, "targetRevision": source.revision}
    application = {"project": NAME, "source": rendered, "destination": place}
    return (
        (APP_PROJECT, _manifest(APP_PROJECT, namespace, project)),
        (APPLICATION, _manifest(APPLICATION, namespace, application)),
    )


def _manifest(resource: ApiResource, namespace: str, spec: Manifest) -> Manifest:
    metadata = {"name": NAME, "namespace": namespace}
    return {"apiVersion": API_VERSION, "kind": resource.kind, "metadata": metadata, "spec": spec}


class Heartbeat:
    """Of one instance."""

    def __init__(
        self, cluster: KubeClient, namespace: str, source: HeartbeatSource, clock: Clock, interval_seconds: float
    ) -> None:
        """``interval_seconds``: between the answer to a refresh and the next one."""
        self._cluster, self._namespace, self._source = cluster, namespace, source
        self._clock, self._interval = clock, interval_seconds
        self._asked_at: float | None = None
        """When we asked, or saw first that it was asked; None: we have not seen it yet."""
        self._before: datetime | None = None
        """When it had been compared last then."""

    async def beat(self) -> HeartbeatSignal:
        """See to it that it is there and asked to be compared, and tell how long it has been silent.

        Raises what the client does.
        """
        application = await self._kept()
        asked = REFRESH in (application["metadata"].get("annotations") or {})
        found, now = reconciliation_of(application), self._clock.time()
        if self._asked_at is None:
            self._asked_at = now
        is_answered = not asked and found.reconciled_at not in (None, self._before)
        if is_answered and now - self._asked_at >= self._interval:
            await self._ask(found)
        return HeartbeatSignal(
            silent_seconds=0.0 if is_answered else now - self._asked_at,
            reconciled_at=found.reconciled_at,
            error=found.comparison_error,
            lacks_answer=found.lacks_answer,
        )

    async def _kept(self) -> Manifest:
        """The Application, as it is to be; what somebody has changed or deleted is made again."""
        kept: Manifest = {}
        for resource, wanted in heartbeat_objects(self._namespace, self._source):
            try:
                kept = await self._cluster.get_object(resource, self._namespace, NAME)
            except NotFound:
                kept = await self._cluster.create_object(resource, wanted, field_manager=AGENT_FIELD_MANAGER)
            if kept.get("spec") != wanted["spec"]:
                # All of it: a field that somebody has added would stay in an apply, and might permit something.
                patch = [{"op": "add", "path": "/spec", "value": wanted["spec"]}]
                kept = await self._cluster.patch_object(
                    resource, self._namespace, NAME, patch, field_manager=AGENT_FIELD_MANAGER
                )
        return kept

    async def _ask(self, found: Reconciliation) -> None:
        patch = {"metadata": {"annotations": {REFRESH: "normal"}}}
        await self._cluster.patch_object(APPLICATION, self._namespace, NAME, patch, field_manager=AGENT_FIELD_MANAGER)
        self._asked_at, self._before = self._clock.time(), found.reconciled_at
