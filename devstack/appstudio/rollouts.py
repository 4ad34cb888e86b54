"""The controller of Deployments: says that what is asked for runs, or that it never will. No pod is ever made."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from devstack.appstudio.serving import serve_each
from services.common.kubernetes import ApiResource, KubeClient, Manifest

DEPLOYMENT = ApiResource("apps", "v1", "Deployment", "deployments")
FIELD_MANAGER = "kube-controller-manager"
STUCK = {
    "type": "Progressing",
    "status": "False",
    "reason": "ProgressDeadlineExceeded",
    "message": "no pod of it gets ready",
    "lastUpdateTime": "2026-01-01T00:00:00Z",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


@dataclass(frozen=True)
class Rollouts:
    """Serves the Deployments of one namespace, or of all, on a cluster where nobody else does."""

    kube: KubeClient
    namespace: str | None = None
    stuck: Collection[str] = ()
    """Names of Deployments that do not get ready within the time that they have."""

    async def run(self) -> None:
        """For ever."""
        await serve_each(self.kube, DEPLOYMENT, self.namespace, self._roll_out)

    async def _roll_out(self, deployment: Manifest) -> None:
        meta, shown = deployment["metadata"], deployment.get("status") or {}
        status = stuck(deployment) if meta["name"] in self.stuck else rolled_out(deployment)
        if all(shown.get(name) == value for name, value in status.items()):
            return
        patch = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": status}
        await self.kube.patch_object(
            DEPLOYMENT, meta["namespace"], meta["name"], patch, field_manager=FIELD_MANAGER, subresource="status"
        )


def rolled_out(deployment: Manifest) -> dict[str, int]:
    """The status of a Deployment all of whose replicas are of its newest spec, and ready."""
    counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    replicas = deployment["spec"].get("replicas", 1)
    return {"observedGeneration": deployment["metadata"]["generation"]} | dict.fromkeys(counts, replicas)


def stuck(deployment: Manifest) -> dict[str, Any]:
    """The status of a Deployment none of whose replicas gets ready."""
    counts = {"observedGeneration": deployment["metadata"]["generation"], "unavailableReplicas": 1}
    return counts | {"conditions": [STUCK]}


def images_of(deployment: Manifest | None) -> list[str]:
    """What the containers of a Deployment run; nothing if there is none."""
    containers = deployment["spec"]["template"]["spec"]["containers"] if deployment is not None else ()
    return [str(each["image"]) for each in containers]
