"""The controller of Deployments: says that what is asked for runs. No pod is made, and no image is pulled."""

from __future__ import annotations

from dataclasses import dataclass

from devstack.appstudio.serving import serve_each
from services.common.kubernetes import ApiResource, KubeClient, Manifest

DEPLOYMENT = ApiResource("apps", "v1", "Deployment", "deployments")
FIELD_MANAGER = "kube-controller-manager"


@dataclass(frozen=True)
class Rollouts:
    """Serves the Deployments of one namespace, or of all, on a cluster where nobody else does."""

    kube: KubeClient
    namespace: str | None = None

    async def run(self) -> None:
        """For ever."""
        await serve_each(self.kube, DEPLOYMENT, self.namespace, self._roll_out)

    async def _roll_out(self, deployment: Manifest) -> None:
        meta, shown = deployment["metadata"], deployment.get("status") or {}
        status = rolled_out(deployment)
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


def images_of(deployment: Manifest | None) -> list[str]:
    """What the containers of a Deployment run; nothing if there is none."""
    containers = deployment["spec"]["template"]["spec"]["containers"] if deployment is not None else ()
    return [str(each["image"]) for each in containers]
