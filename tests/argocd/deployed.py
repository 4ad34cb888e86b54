"""What Argo CD has put into a cluster."""

from __future__ import annotations

from dataclasses import dataclass

from devstack.harness.mirror import Mirror
from services.common.kubernetes import ApiResource, KubeClient
from tests.argocd.sources import NAME
from tests.e2e.tenant import Tenant

JOB = ApiResource("batch", "v1", "Job", "jobs")
HEALTHY = {"sync__status": "Synced", "health__status": "Healthy"}
"""Of a status: the resources are as git says, and work."""
SETTLED = HEALTHY | {"operationState__phase": "Succeeded"}
"""Likewise, and the sync has ended, which Argo CD tells last: nothing follows any more."""


@dataclass(frozen=True)
class Deployed:
    """One cluster."""

    kube: KubeClient
    config_maps: Mirror
    """All of it, live."""

    def value(self, namespace: str, name: str = NAME) -> str | None:
        """What the config map of a repository says; None if it is not there."""
        found = self.config_maps.objects.get((namespace, name))
        return found["data"]["value"] if found else None

    async def until(self, namespace: str, value: str | None, name: str = NAME, timeout_seconds: float = 120) -> None:
        """Wait until it says so."""
        await self.config_maps.until(
            f"{namespace}/{name} says {value}; it says {self.value(namespace, name)}",
            lambda _: self.value(namespace, name) == value,
            timeout_seconds,
        )


async def until_sync_says(tenant: Tenant, text: str, name: str = "web") -> None:
    """Wait until the sync of a deployment gives this reason for one of its resources."""

    def said() -> list[str]:
        operation = tenant.status(name).get("operationState", {})
        resources = operation.get("syncResult", {}).get("resources") or []
        return [item.get("message", "") for item in resources]

    await tenant.deployments.until(
        f"{tenant.namespace}/{name}: '{text}'; said was {said()}",
        lambda _: any(text in message for message in said()),
    )
