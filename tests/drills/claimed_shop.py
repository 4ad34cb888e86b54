"""An application whose environment is on a claim: what there is of it before something is lost, and afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from devstack.appstudio.gitops_repositories import PretendedRepositories
from devstack.appstudio.serving import played
from devstack.appstudio.shop import Shop, opened_shop
from devstack.appstudio.space_requests import SpaceRequestController
from services.common.kubernetes import SECRET, ApiResource, Manifest
from services.kinds.deployment_target.model import DEPLOYMENT_TARGET
from services.kinds.deployment_target_claim.model import DEPLOYMENT_TARGET_CLAIM
from services.kinds.environment.model import ENVIRONMENT
from services.kinds.environment.rules import SECRET_LABEL
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from services.kinds.snapshot_environment_binding.model import BINDING
from services.kinds.space_request.model import SPACE_REQUEST
from tests.e2e.api import Cluster
from tests.e2e.tenant import Tenant, application_name, find

KINDS = (
    DEPLOYMENT_TARGET_CLAIM,
    DEPLOYMENT_TARGET,
    SPACE_REQUEST,
    ENVIRONMENT,
    MANAGED_ENVIRONMENT,
    BINDING,
    GITOPS_DEPLOYMENT,
)
RECLAIMED_SECONDS = 120
Identity = tuple[str, str, str, str]
"""Kind, name, uid and phase of an object; of an Application the engine in place of a phase."""


class ClaimedShop:
    """One of a tenant's, with two snapshots."""

    def __init__(self, shop: Shop, tenant: Tenant, class_name: str) -> None:
        self._shop, self._tenant, self._class_name = shop, tenant, class_name

    async def begin(self) -> None:
        """The first snapshot is promoted to a namespace that is made on demand."""
        await self._shop.create(DEPLOYMENT_TARGET_CLAIM, "dev", {"deploymentTargetClassName": self._class_name})
        await self._shop.environment("dev", claim="dev")
        for name in ("one", "two"):
            await self._shop.snapshot(name)
        await self._promote("first", "one")
        self._before = await self._identities()
        assert {kind for kind, *_ in self._before} == {*(each.kind for each in KINDS), "Secret", "Application"}

    async def require_unchanged(self) -> None:
        """Everything is what it was, and follows the next promotion."""
        await self._promote("second", "two")
        assert self._shop.bound() == {"dev": "two"}
        assert await self._identities() == self._before
        assert await self._shop.until_complete("first") == "Success"

    async def close(self) -> None:
        """What was made on demand goes with the claim."""
        kube, namespace = self._shop.kube, self._shop.namespace
        await self._shop.close()
        for kind in (ENVIRONMENT, DEPLOYMENT_TARGET_CLAIM):
            await kube.delete_object(kind, namespace, "dev")
        async with asyncio.timeout(RECLAIMED_SECONDS):
            while True:
                if not await self._list(SPACE_REQUEST):
                    return
                await asyncio.sleep(0.1)

    async def _promote(self, run: str, snapshot: str) -> None:
        await self._shop.promote(run, snapshot, manualPromotion={"targetEnvironment": "dev"})
        assert await self._shop.until_complete(run) == "Success", self._shop.displayed(run)

    async def _identities(self) -> set[Identity]:
        found = {identity for kind in KINDS async for identity in self._of_kind(kind)}
        copies = await self._list(SECRET, selector=SECRET_LABEL)
        found |= {("Secret", each["metadata"]["name"], each["metadata"]["uid"], "") for each in copies}
        for deployment in await self._list(GITOPS_DEPLOYMENT):
            application = find(self._tenant.applications.objects, application_name(deployment)) or {}
            meta = application["metadata"]
            found.add(("Application", meta["name"], meta["uid"], meta["namespace"]))
        return found

    async def _of_kind(self, kind: ApiResource) -> AsyncIterator[Identity]:
        for each in await self._list(kind):
            phase = (each.get("status") or {}).get("phase", "")
            yield kind.kind, each["metadata"]["name"], each["metadata"]["uid"], phase

    async def _list(self, kind: ApiResource, selector: str = "") -> list[Manifest]:
        pages = self._shop.kube.list_pages(kind, self._shop.namespace, selector=selector)
        return [each async for page in pages for each in page.items]


@pytest.fixture
async def claimed_shop(other_tenant: Tenant, target_class: str, cluster: Cluster) -> AsyncIterator[ClaimedShop]:
    """Of another tenant than the drill's own, with a class of its own."""
    kube, namespace = other_tenant.kube, other_tenant.namespace
    sandbox = SpaceRequestController(kube, namespace, cluster.url, cluster.kubeconfig())
    async with played(sandbox), opened_shop(kube, namespace, PretendedRepositories()) as shop:
        yield (made := ClaimedShop(shop, other_tenant, target_class))
        await made.close()
