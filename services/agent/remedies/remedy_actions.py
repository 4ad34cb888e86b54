"""Executes remedies at an API server.

Each remedy changes only what is older than its order. So to execute it again, by any owner of the instance, changes
nothing.

A workload is restarted by deleting its pods. A change of its Deployment or StatefulSet would need a right with which
anybody who has the agent's credentials could run anything there.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import structlog

from services.agent.health.applications import late_applications
from services.agent.health.heartbeat import NAME as HEARTBEAT
from services.agent.objects.engine_state import EngineState
from services.agent.objects.live import LiveObject
from services.agent.objects.managed_kinds import ObjectKey
from services.agent.objects.reconciliation import REFRESH
from services.agent.remedies.remedy_order import RemedyOrder, number_in
from services.common.argocd_names import CONTROLLER, NAME_LABEL, REDIS, REPO_SERVER
from services.common.clock import Clock
from services.common.errors import Permanent
from services.common.json_values import text_of
from services.common.kubernetes import APPLICATION, POD, Conflict, KubeClient, Manifest, NotFound
from services.common.messages import Remedy
from services.common.ownership import AGENT_FIELD_MANAGER

log = structlog.get_logger(__name__)

REMEDIED = "managed-gitops.redhat.com/remedy"
"""Annotation of an Application: the number of the order that last requested a comparison."""
REFRESHED_AT_ONCE = 200
"""How many Applications one order has compared without the cache. All of them at once could kill the repo server."""

WORKLOADS: Mapping[Remedy, str] = {
    Remedy.RESTART_CONTROLLER: CONTROLLER,
    Remedy.RESTART_REPO_SERVER: REPO_SERVER,
    Remedy.FLUSH_CACHE: REDIS,
}


class RemedyActions:
    """The remedies of one instance."""

    def __init__(
        self,
        cluster: KubeClient,
        namespace: str,
        applications: Mapping[ObjectKey, LiveObject],
        engine: EngineState,
        clock: Clock,
    ) -> None:
        """``applications`` and ``engine`` are kept up to date by others."""
        self._cluster, self._namespace, self._clock = cluster, namespace, clock
        self._applications, self._engine = applications, engine

    async def carry_out(self, order: RemedyOrder) -> None:
        """Execute the order, as far as it is not done. Raises Permanent, Retry and Wait."""
        if order.remedy == Remedy.REFRESH:
            await self._refresh(order)
        else:
            await self._restart(WORKLOADS[order.remedy], order.ordered_at)

    async def _restart(self, workload: str, ordered_at: datetime) -> None:
        pods: list[Manifest] = []
        async for page in self._cluster.list_pages(POD, self._namespace, selector=f"{NAME_LABEL}={workload}"):
            pods += page.items
        if not pods:
            raise Permanent(f"no pod of {workload} is to be seen")
        for pod in pods:
            if _is_older(pod, ordered_at):
                await self._delete(pod)

    async def _delete(self, pod: Manifest) -> None:
        meta = pod["metadata"]
        log.warning("restarting a pod that does not do its work", namespace=self._namespace, pod=meta["name"])
        try:
            await self._cluster.delete_object(POD, self._namespace, meta["name"], uid=meta["uid"])
        except (NotFound, Conflict):  # it is another one by now
            log.info("the pod is gone already", namespace=self._namespace, pod=meta["name"])

    async def _refresh(self, order: RemedyOrder) -> None:
        """Request comparisons of the heartbeat Application, and of those that are late or waiting."""
        late = late_applications(self._applications, self._clock.now(), self._engine.compares_within)
        waiting = {key for key, live in self._applications.items() if REFRESH in live.annotations}
        names = sorted(key.name for key in late | waiting)[:REFRESHED_AT_ONCE]
        asked = [await self._ask(name, order) for name in (*names, HEARTBEAT)]
        if not any(asked):
            raise Permanent("there is no Application to be compared")

    async def _ask(self, name: str, order: RemedyOrder) -> bool:
        """Request a comparison. Returns whether the Application exists."""
        try:
            application = await self._cluster.get_object(APPLICATION, self._namespace, name)
            if _number(application) < order.number:
                annotations = {REFRESH: "hard", REMEDIED: str(order.number)}
                version = application["metadata"]["resourceVersion"]
                patch = {"metadata": {"resourceVersion": version, "annotations": annotations}}
                await self._cluster.patch_object(
                    APPLICATION, self._namespace, name, patch, field_manager=AGENT_FIELD_MANAGER
                )
        except NotFound:
            return False
        return True


def _is_older(pod: Manifest, than: datetime) -> bool:
    meta = pod["metadata"]
    return "deletionTimestamp" not in meta and datetime.fromisoformat(meta["creationTimestamp"]) < than


def _number(application: Manifest) -> int:
    """Number of the order in the annotation, which anybody may have changed."""
    return number_in(text_of((application["metadata"].get("annotations") or {}).get(REMEDIED))) or 0
