"""Claims and targets as users have them, on a stack where the sandbox that makes namespaces for them is played."""

from __future__ import annotations

import asyncio
import base64
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import Any

import pytest
import yaml

from devstack.appstudio.space_requests import SpaceRequestController
from services.common.kubernetes import SECRET, ApiResource, KubeClient, Manifest, NotFound
from services.common.package_data import CRDS
from services.common.times import rfc3339
from services.kinds.deployment_target.model import DEPLOYMENT_TARGET
from services.kinds.deployment_target_claim.model import DEPLOYMENT_TARGET_CLAIM
from services.kinds.deployment_target_class.model import DEPLOYMENT_TARGET_CLASS
from services.kinds.environment.catalogue import EXPIRES_AT
from services.kinds.environment.model import ENVIRONMENT
from services.kinds.space_request.model import SPACE_REQUEST
from tests.e2e.api import Cluster
from tests.e2e.tenant import USER, Tenant, condition

SECONDS = 120
SHIPPED = yaml.safe_load((CRDS.parent / "classes" / "isolation-level-namespace.yaml").read_text())
CREDENTIALS = {
    "defaultNamespace": "spaces-1",
    "apiURL": "https://api.example.com:6443",
    "clusterCredentialsSecret": "login",
    "allowInsecureSkipTLSVerify": False,
}
COPY = "managed-environment-secret-dev"


@asynccontextmanager
async def fresh_class(kube: KubeClient, reclaim_policy: str = "Delete") -> AsyncIterator[str]:
    """Name of a class of one test's own, like the one that is shipped but for its policy."""
    name = f"class-{uuid.uuid4().hex[:8]}"
    content = {"metadata": {"name": name}, "spec": SHIPPED["spec"] | {"reclaimPolicy": reclaim_policy}}
    await kube.create_object(DEPLOYMENT_TARGET_CLASS, SHIPPED | content, field_manager=USER)
    try:
        yield name
    finally:
        with suppress(NotFound):
            await kube.delete_object(DEPLOYMENT_TARGET_CLASS, None, name)


class Namespace:
    """What users do with claims and targets, and what they see."""

    def __init__(self, tenant: Tenant, class_name: str) -> None:
        self.kube, self.namespace, self.class_name = tenant.kube, tenant.namespace, class_name

    async def claim(self, name: str = "dev", **spec: Any) -> None:
        await self.create(DEPLOYMENT_TARGET_CLAIM, name, {"deploymentTargetClassName": self.class_name} | spec)

    async def target(self, name: str = "spare") -> None:
        spec = {"deploymentTargetClassName": self.class_name, "kubernetesCredentials": CREDENTIALS}
        await self.create(DEPLOYMENT_TARGET, name, spec)

    async def environment_on_target(self) -> None:
        """An environment, dev, on a claim that is bound to a target; nothing is made for that, as there is one."""
        await self.target()
        await self.until_phase(DEPLOYMENT_TARGET, "spare", "Available")
        await self.claim()
        await self.environment()

    async def environment(self, name: str = "dev", claim: str = "dev") -> None:
        claimed = {"target": {"deploymentTargetClaim": {"claimName": claim}}}
        spec = {"displayName": name, "deploymentStrategy": "Manual", "configuration": claimed}
        await self.create(ENVIRONMENT, name, spec)

    async def end_environment(self, name: str, at: datetime) -> None:
        """Say when it is over."""
        patch = {"metadata": {"annotations": {EXPIRES_AT: rfc3339(at)}}}
        await self.kube.patch_object(ENVIRONMENT, self.namespace, name, patch, field_manager=USER)

    def sandbox(self, cluster: Cluster, elsewhere: KubeClient | None = None, **faults: bool) -> SpaceRequestController:
        """Makes namespaces in a cluster; ``elsewhere`` speaks to that if it is another one than ours."""
        return SpaceRequestController(self.kube, self.namespace, cluster.url, cluster.kubeconfig(), elsewhere, **faults)

    async def secret(self, name: str, kubeconfig: str, type_: str = "Opaque") -> None:
        identity = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": self.namespace}}
        content = {"type": type_, "stringData": {"kubeconfig": kubeconfig}}
        await self.kube.create_object(SECRET, identity | content, field_manager=USER)

    async def until(self, kind: ApiResource, name: str, is_so: Callable[[Manifest], bool]) -> Manifest:
        found: Manifest | None = None
        try:
            async with asyncio.timeout(SECONDS):
                while True:
                    found = await self.kube.get_object(kind, self.namespace, name)
                    if is_so(found):
                        return found
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(found) from None

    async def until_phase(self, kind: ApiResource, name: str, phase: str) -> Manifest:
        return await self.until(kind, name, lambda each: (each.get("status") or {}).get("phase") == phase)

    async def until_gone(self, kind: ApiResource, name: str) -> None:
        with pytest.raises(NotFound):
            await self.until(kind, name, lambda _: False)

    async def until_copied(self, content: str) -> None:
        """Wait until the Secret with the name of the environment's copy has this content."""
        expected = {"kubeconfig": base64.b64encode(content.encode()).decode()}
        async with asyncio.timeout(SECONDS):
            while True:
                with suppress(NotFound):
                    if (await self.kube.get_object(SECRET, self.namespace, COPY)).get("data") == expected:
                        return
                await asyncio.sleep(0.1)

    async def spaces(self) -> list[str]:
        """Names of the SpaceRequests."""
        pages = self.kube.list_pages(SPACE_REQUEST, self.namespace)
        return [each["metadata"]["name"] async for page in pages for each in page.items]

    async def until_asked(self) -> None:
        """Wait until there is a SpaceRequest."""
        async with asyncio.timeout(SECONDS):
            while True:
                if await self.spaces():
                    return
                await asyncio.sleep(0.1)

    async def until_spaces_of(self, claims: set[str]) -> None:
        """Wait until there is one SpaceRequest for each of these claims, and none for another one."""
        left: list[str] = []
        try:
            async with asyncio.timeout(SECONDS):
                while True:
                    left = await self.spaces()
                    if sorted(name.rpartition("-")[0] for name in left) == sorted(claims):
                        return
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(left) from None

    async def set_class(self, **spec: Any) -> None:
        patch = {"spec": spec}
        await self.kube.patch_object(DEPLOYMENT_TARGET_CLASS, None, self.class_name, patch, field_manager=USER)

    async def create(self, kind: ApiResource, name: str, spec: dict[str, Any]) -> None:
        manifest = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": spec,
        }
        await self.kube.create_object(kind, manifest, field_manager=USER)


def message_of(claim: Manifest) -> str:
    """What it says that is wrong; empty: nothing is."""
    found = condition(claim.get("status") or {}, "ErrorOccurred")
    return str(found["message"]) if found.get("status") == "True" else ""
