"""The heartbeat: an Application of ours in each engine namespace, which Argo CD is asked to compare again and again.

It deploys nothing. Its AppProject permits one repository, which operators have named, and no kind of resource, and
nothing syncs it. It lacks the label of our objects: no row is about it, and it is no orphan, no load and no tenant's.
It shows that a requested comparison happens: that the controller works, and that the repo server renders. So it uses a
repository that every instance can always reach without a login.

The time of the request is an annotation, so an instance that is silent does not look healthy to the next agent.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

from services.agent.health.signals import HeartbeatSignal
from services.agent.objects.reconciliation import REFRESH, Reconciliation, reconciliation_of, time_of
from services.common.argocd_names import API_VERSION, LOCAL_CLUSTER
from services.common.clock import Clock
from services.common.json_values import text_of
from services.common.kubernetes import APP_PROJECT, APPLICATION, ApiResource, KubeClient, Manifest, NotFound
from services.common.ownership import AGENT_FIELD_MANAGER
from services.common.times import rfc3339

NAME = "gitops-service-heartbeat"
"""Name of the Application, and of its AppProject."""
EVERYTHING = [{"group": "*", "kind": "*"}]
ASKED_AT = "managed-gitops.redhat.com/heartbeat-asked-at"
"""Annotation with the time at which an agent last requested a comparison, by the agent's clock."""
COMPARED_BEFORE = "managed-gitops.redhat.com/heartbeat-compared-before"
"""Annotation with the time of the last comparison before that request, by the controller's clock. Until the Application
shows another time, the requested comparison has not happened."""


@dataclass(frozen=True, slots=True)
class HeartbeatSource:
    """The source that the heartbeat renders."""

    repository: str
    path: str
    revision: str


def heartbeat_objects(namespace: str, source: HeartbeatSource) -> tuple[tuple[ApiResource, Manifest], ...]:
    """The AppProject and the Application, which is never synced."""
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


@dataclass(frozen=True, slots=True)
class Request:
    """An agent's last request for a comparison, as the Application's annotations have it."""

    asked_at: str
    compared_before: str

    @classmethod
    def read(cls, annotations: Manifest) -> Self:
        """Read an Application's annotations. Anybody may have changed them, and older agents have none."""
        return cls(text_of(annotations.get(ASKED_AT)), text_of(annotations.get(COMPARED_BEFORE)))

    @property
    def annotations(self) -> Manifest:
        """The annotations that make the request."""
        return {REFRESH: "normal", ASKED_AT: self.asked_at, COMPARED_BEFORE: self.compared_before}


def awaited_since(request: Request, found: Reconciliation, interval: timedelta, now: datetime) -> datetime:
    """When the next comparison was requested: between the last one, or the creation, and ``now``.

    This is the time in ``request``, unless it is unreadable, in the future, or answered. In that case somebody else has
    made a request, or clocks differ. Then it counts as made ``interval`` after the last comparison, as an agent would
    have.
    """
    first = found.reconciled_at or found.created_at or now
    asked_at = time_of(request.asked_at)
    is_answered = found.reconciled_at != time_of(request.compared_before)
    if asked_at is None or asked_at > now or is_answered:
        asked_at = first if found.reconciled_at is None else first + interval
    return min(max(asked_at, first), now)


class Heartbeat:
    """The heartbeat of one instance."""

    def __init__(
        self, cluster: KubeClient, namespace: str, source: HeartbeatSource, clock: Clock, interval_seconds: float
    ) -> None:
        """``interval_seconds``: from the answer of a request to the next request."""
        self._cluster, self._namespace, self._source = cluster, namespace, source
        self._clock, self._interval = clock, interval_seconds
        self._request: Request | None = None
        """The last known request; None: the Application was not read yet."""
        self._asked_at = 0.0
        """When it was made, by a clock that nobody sets, unlike the clock of the annotation."""
        self._before: datetime | None = None
        """The last comparison before it."""

    async def beat(self) -> HeartbeatSignal:
        """Make sure that the heartbeat exists and is to be compared. Returns how long it has been silent.

        Raises what the client raises.
        """
        application = await self._kept()
        annotations = application["metadata"].get("annotations") or {}
        found = reconciliation_of(application)
        self._learn_request(Request.read(annotations), found)
        now = self._clock.time()
        is_awaited = REFRESH in annotations or found.reconciled_at == self._before
        answered_at = None if is_awaited else found.reconciled_at
        if answered_at is not None and now - self._asked_at >= self._interval:
            await self._ask(answered_at)
        return HeartbeatSignal(
            silent_seconds=now - self._asked_at if answered_at is None else 0.0,
            reconciled_at=found.reconciled_at,
            error=found.comparison_error,
            lacks_answer=found.lacks_answer,
        )

    async def _kept(self) -> Manifest:
        """The Application, as desired. If somebody has changed or deleted it, it is restored."""
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

    def _learn_request(self, request: Request, found: Reconciliation) -> None:
        """Continue with a request that another agent has made."""
        if request == self._request:
            return
        now = self._clock.now()
        waited = now - awaited_since(request, found, timedelta(seconds=self._interval), now)
        self._request, self._before = request, time_of(request.compared_before)
        self._asked_at = self._clock.time() - waited.total_seconds()

    async def _ask(self, compared_at: datetime) -> None:
        """Request a comparison. ``compared_at``: the time of the last one."""
        request = Request(rfc3339(self._clock.now()), rfc3339(compared_at))
        patch = {"metadata": {"annotations": request.annotations}}
        await self._cluster.patch_object(APPLICATION, self._namespace, NAME, patch, field_manager=AGENT_FIELD_MANAGER)
        self._request, self._asked_at, self._before = request, self._clock.time(), compared_at
