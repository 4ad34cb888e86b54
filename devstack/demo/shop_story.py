"""An act of the AppStudio kinds: new images go from environment to environment, the last of which is made on demand.

Meanwhile a preview of them is made on demand, too, and goes by itself when its time is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from devstack.appstudio.gitops_repositories import KustomizedRepositories
from devstack.appstudio.rollouts import DEPLOYMENT, Rollouts, images_of
from devstack.appstudio.serving import played
from devstack.appstudio.shop import COMPONENTS, Shop, image, opened_shop
from devstack.appstudio.space_requests import SpaceRequestController
from devstack.demo.board import DEPLOYED, GONE, SHOWN, Row
from devstack.demo.users import FIELD_MANAGER, Act, Users
from devstack.git.site import GitSite
from devstack.harness.mirror import Mirror, Objects, mirrored
from services.common.errors import Unavailable
from services.common.kubernetes import KubeClient
from services.common.package_data import CRDS
from services.common.times import rfc3339
from services.kinds.deployment_target.model import DEPLOYMENT_TARGET
from services.kinds.deployment_target_claim.model import DEPLOYMENT_TARGET_CLAIM
from services.kinds.deployment_target_class.model import DEPLOYMENT_TARGET_CLASS
from services.kinds.environment.catalogue import EXPIRES_AT
from services.kinds.environment.model import AUTOMATED, ENVIRONMENT
from services.kinds.snapshot.promotion import run_name

SETTINGS = {"NEW_SNAPSHOTS": "promoted"}
"""Of its stack."""
TENANT, SNAPSHOT = "team-shop", "v1"
PROD, PREVIEW = "prod", "change-17"
"""Environments with a claim of the same name each."""
REMAINING = timedelta(seconds=1)
"""Of a preview, once its user has seen it."""
SHIPPED_CLASS = CRDS.parent / "classes" / "isolation-level-namespace.yaml"


@dataclass(slots=True)
class ShopStory:
    """One tenant, whose environments are its own namespace but for one: that is a namespace of another cluster."""

    users: Users
    site: GitSite
    remote: KubeClient
    remote_kubeconfig: Path

    def act(self) -> Act:
        """The only one."""
        return (
            f"{TENANT}'s images go to dev and staging by themselves, and by hand to prod, which is made on demand; "
            "a preview goes when its time is over",
            self.promotion,
        )

    async def promotion(self) -> None:
        """Everything is deleted at its end: what follows is about the fleet."""
        await self.users.namespace(TENANT)
        repositories = KustomizedRepositories(self.site)
        rollouts = (Rollouts(self.users.kube, TENANT), Rollouts(self.remote))
        async with played(self._sandbox(), *rollouts), self._workloads() as (here, there):
            async with opened_shop(self.users.kube, TENANT, repositories) as shop:
                shipped = yaml.safe_load(SHIPPED_CLASS.read_text())
                await self.users.kube.create_object(DEPLOYMENT_TARGET_CLASS, shipped, field_manager=FIELD_MANAGER)
                await self._claim(shop, PROD)
                await shop.environments(claim=PROD, to_dev=AUTOMATED)
                row = self.users.board.begin(Row(TENANT, SNAPSHOT, "dev, staging", "new Snapshot"))
                await shop.snapshot(SNAPSHOT)
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._promotions(shop, row, here, there))
                    both.create_task(self._preview(shop, there))
                deployed = self._deployed()
            await self._leave(deployed)

    async def _claim(self, shop: Shop, name: str) -> None:
        """Nothing is free, so the sandbox makes a namespace; returns when the claim has it."""
        row = self.users.board.begin(Row(TENANT, name, "claim", "claim"))
        class_name = yaml.safe_load(SHIPPED_CLASS.read_text())["metadata"]["name"]
        async with mirrored(self.users.kube, DEPLOYMENT_TARGET_CLAIM, TENANT) as claims:
            row.sent()
            await shop.create(DEPLOYMENT_TARGET_CLAIM, name, {"deploymentTargetClassName": class_name})
            await claims.until("the claim has a target", lambda found: _phase(found.get((TENANT, name))) == "Bound")
        row.reach(SHOWN)
        row.outcome = "Bound"

    async def _promotions(self, shop: Shop, row: Row, here: Mirror, there: Mirror) -> None:
        """A new Snapshot is promoted as far as environments are automated; then its user promotes it."""
        await self._until_promoted(shop, row, run_name(SNAPSHOT, "dev"), {"dev": here, "staging": here})
        row = self.users.board.begin(Row(TENANT, SNAPSHOT, "prod, by hand", "promotion"))
        await shop.promote("by-hand", SNAPSHOT, manualPromotion={"targetEnvironment": PROD})
        await self._until_promoted(shop, row, "by-hand", {PROD: there})

    @staticmethod
    async def _until_promoted(shop: Shop, row: Row, run: str, places: dict[str, Mirror]) -> None:
        """Return when the images run in all of ``places``, and the run says so."""
        for environment, workloads in places.items():
            await workloads.until(f"{SNAPSHOT} runs in {environment}", partial(_runs, environment))
        row.reach(DEPLOYED)
        if await shop.until_complete(run) != "Success":
            raise Unavailable(f"the promotion has failed: {shop.displayed(run)}")
        row.reach(SHOWN)
        row.outcome = ", ".join(f"{name}: {status}" for name, status in shop.steps(run))

    async def _preview(self, shop: Shop, there: Mirror) -> None:
        """An environment on a claim of its own: all of it goes by itself when its time is over."""
        kube, row = self.users.kube, self.users.board.begin(Row(TENANT, PREVIEW, "preview", "preview"))
        await self._claim(shop, PREVIEW)
        await shop.environment(PREVIEW, claim=PREVIEW)
        await shop.bind(PREVIEW, PREVIEW, SNAPSHOT)
        await there.until(f"{SNAPSHOT} runs in {PREVIEW}", partial(_runs, PREVIEW))
        row.reach(DEPLOYED)
        async with mirrored(kube, ENVIRONMENT, TENANT) as environments, mirrored(kube, DEPLOYMENT_TARGET) as targets:
            end = rfc3339(datetime.now(UTC) + REMAINING)
            over = self.users.board.begin(Row(TENANT, PREVIEW, "its time is over", "preview's end"))
            over.since = datetime.fromisoformat(end)
            expiry = {"metadata": {"annotations": {EXPIRES_AT: end}}}
            await kube.patch_object(ENVIRONMENT, TENANT, PREVIEW, expiry, field_manager=FIELD_MANAGER)
            await environments.until("the preview is gone", lambda found: (TENANT, PREVIEW) not in found)
            await targets.until("its target is gone", lambda found: (TENANT, f"{PREVIEW}-dt") not in found)
        await there.until("none of it runs", lambda found: not any(name.endswith(PREVIEW) for _, name in found))
        over.reach(GONE)
        over.outcome = "gone with its claim"

    def _deployed(self) -> frozenset[str]:
        """Uids of the tenant's GitOpsDeployments, with which the names of their Applications end."""
        found = self.users.deployments.objects.items()
        return frozenset(str(each["metadata"]["uid"]) for (namespace, _), each in found if namespace == TENANT)

    async def _leave(self, deployed: Collection[str]) -> None:
        """The deployments go with their bindings; the target goes with its claim, and with it all that was made."""
        kube, row = self.users.kube, self.users.board.begin(Row(TENANT, PROD, "delete", "claim's deletion"))
        await self.users.applications.until(
            "nothing is deployed any more",
            lambda found: not any(name.endswith(uid) for _, name in found for uid in deployed),
        )
        for environment in (PROD, "staging", "dev"):
            await kube.delete_object(ENVIRONMENT, TENANT, environment)
        async with mirrored(kube, DEPLOYMENT_TARGET, TENANT) as targets:
            await kube.delete_object(DEPLOYMENT_TARGET_CLAIM, TENANT, PROD)
            await targets.until("the target is gone", lambda found: not found)
        row.reach(GONE)
        row.outcome = "gone"

    def _sandbox(self) -> SpaceRequestController:
        """Who makes namespaces, in the other cluster."""
        kubeconfig = self.remote_kubeconfig.read_text()
        url = yaml.safe_load(kubeconfig)["clusters"][0]["cluster"]["server"]
        return SpaceRequestController(self.users.kube, TENANT, url, kubeconfig, elsewhere=self.remote)

    @asynccontextmanager
    async def _workloads(self) -> AsyncIterator[tuple[Mirror, Mirror]]:
        """Deployments of the tenant's namespace, and of the other cluster."""
        async with (
            mirrored(self.users.kube, DEPLOYMENT, TENANT) as here,
            mirrored(self.remote, DEPLOYMENT) as there,
        ):
            yield here, there


def _runs(environment: str, found: Objects) -> bool:
    """Whether the Deployments of an environment run the images of the Snapshot."""
    workloads = {name: each for (_, name), each in found.items()}
    images = [images_of(workloads.get(f"{component}-{environment}")) for component in COMPONENTS]
    return images == [[image(component, SNAPSHOT)] for component in COMPONENTS]


def _phase(claim: Any) -> str:
    return str(((claim or {}).get("status") or {}).get("phase", ""))
