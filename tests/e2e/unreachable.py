"""An engine instance that no agent may look at, while its Argo CD works on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from services.agent.provisioning.installation import ROLE_BINDING
from services.common.kubernetes import KubeClient
from tests.e2e.tenant import USER

RIGHTS = "gitops-service-agent"


@asynccontextmanager
async def out_of_reach(kube: KubeClient, namespace: str) -> AsyncIterator[None]:
    """Agents have no rights in this engine namespace while the block runs.

    Those that start meanwhile find out at once. Others have their watches still, and find out as they measure its
    health.
    """
    rights = await kube.get_object(ROLE_BINDING, namespace, RIGHTS)
    content = {name: rights[name] for name in ("apiVersion", "kind", "roleRef", "subjects")}
    await kube.delete_object(ROLE_BINDING, namespace, RIGHTS)
    try:
        yield
    finally:
        restored = content | {"metadata": {"name": RIGHTS, "namespace": namespace}}
        await kube.create_object(ROLE_BINDING, restored, field_manager=USER)
