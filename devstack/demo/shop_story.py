"""An act of the AppStudio kinds: new images go from environment to environment, the last of which is made on demand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from devstack.appstudio.gitops_repositories import KustomizedRepositories
from devstack.appstudio.rollouts import DEPLOYMENT, Rollouts, images_of
from devstack.appstudio.shop import COMPONENTS, Shop, image, opened_shop
from devstack.appstudio.space_requests import SpaceRequestController
from devstack.demo.board import DEPLOYED, GONE, SHOWN, Row
from devstack.demo.users import FIELD_MANAGER, Act, Users
from devstack.git.site import GitSite
from devstack.harness.mirror import Mirror, Objects, mirrored
from services.common.errors import Unavailable
from services.common.kubernetes import KubeClient
from services.common.package_data import CRDS
from services.kinds.deployment_target.model import DEPLOYMENT_TARGET
from services.kinds.deployment_target_claim.model import DEPLOYMENT_TARGET_CLAIM
from services.kinds.deployment_target_class.model import DEPLOYMENT_TARGET_CLASS
from services.kinds.environment.model import ENVIRONMENT

TENANT, CLAIM = "team-shop", "prod"
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
            f"{TENANT}'s images go to dev and by themselves to staging, and by hand to prod, which is made on demand",
            self.promotion,
        )

    async def promotion(self) -> None:
        """Everything is deleted at its end: what follows is about the fleet."""
        await self.users.namespace(TENANT)
        repositories = KustomizedRepositories(self.site)
        async with self._other_services(), self._workloads() as (here, there):
            async with opened_shop(self.users.kube, TENANT, repositories) as shop:
                claim = await self._claim(shop)
                await shop.environments(claim=CLAIM)
                await shop.snapshot("v1")
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._until_bound(claim))
                    both.create_task(self._promote(shop, _row("dev, staging"), {"dev": here, "staging": here}))
                await self._promote(shop, _row("prod, by hand"), {"prod": there})
                deployed = self._deployed()
            await self._leave(deployed)

    async def _claim(self, shop: Shop) -> Row:
        """Nothing is free, so the sandbox makes a namespace, and the other services go on meanwhile."""
        shipped = yaml.safe_load(SHIPPED_CLASS.read_text())
        await self.users.kube.create_object(DEPLOYMENT_TARGET_CLASS, shipped, field_manager=FIELD_MANAGER)
        row = self.users.board.begin(Row(TENANT, CLAIM, "claim", "claim"))
        class_name = shipped["metadata"]["name"]
        await shop.create(DEPLOYMENT_TARGET_CLAIM, CLAIM, {"deploymentTargetClassName": class_name})
        return row

    async def _until_bound(self, row: Row) -> None:
        async with mirrored(self.users.kube, DEPLOYMENT_TARGET_CLAIM, TENANT) as claims:
            await claims.until("the claim has a target", lambda found: _phase(found.get((TENANT, CLAIM))) == "Bound")
        row.reach(SHOWN)
        row.outcome = "Bound"

    async def _promote(self, shop: Shop, row: Row, places: dict[str, Mirror]) -> None:
        """From the first of ``places`` on; returns when the images run in all of them, and the run says so."""
        first, snapshot = next(iter(places)), row.name
        manual = {"manualPromotion": {"targetEnvironment": first}}
        how = manual if len(places) == 1 else {"automatedPromotion": {"initialEnvironment": first}}
        run = self.users.board.begin(row)
        row.sent()
        await shop.promote(f"{snapshot}-{first}", snapshot, **how)
        for environment, workloads in places.items():
            await workloads.until(f"{snapshot} runs in {environment}", partial(_runs, environment, snapshot))
        run.reach(DEPLOYED)
        if await shop.until_complete(f"{snapshot}-{first}") != "Success":
            raise Unavailable(f"the promotion has failed: {shop.displayed(f'{snapshot}-{first}')}")
        run.reach(SHOWN)
        run.outcome = ", ".join(f"{name}: {status}" for name, status in shop.steps(f"{snapshot}-{first}"))

    def _deployed(self) -> frozenset[str]:
        """Uids of the tenant's GitOpsDeployments, with which the names of their Applications end."""
        found = self.users.deployments.objects.items()
        return frozenset(str(each["metadata"]["uid"]) for (namespace, _), each in found if namespace == TENANT)

    async def _leave(self, deployed: Collection[str]) -> None:
        """The deployments go with their bindings; the target goes with its claim, and with it all that was made."""
        kube, row = self.users.kube, self.users.board.begin(Row(TENANT, CLAIM, "delete", "claim's deletion"))
        await self.users.applications.until(
            "nothing is deployed any more",
            lambda found: not any(name.endswith(uid) for _, name in found for uid in deployed),
        )
        for environment in ("prod", "staging", "dev"):
            await kube.delete_object(ENVIRONMENT, TENANT, environment)
        async with mirrored(kube, DEPLOYMENT_TARGET, TENANT) as targets:
            await kube.delete_object(DEPLOYMENT_TARGET_CLAIM, TENANT, CLAIM)
            await targets.until("the target is gone", lambda found: not found)
        row.reach(GONE)
        row.outcome = "gone"

    @asynccontextmanager
    async def _other_services(self) -> AsyncIterator[None]:
        """Who makes namespaces, and who rolls out."""
        url = yaml.safe_load(self.remote_kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        sandbox = SpaceRequestController(
            self.users.kube, TENANT, url, self.remote_kubeconfig.read_text(), elsewhere=self.remote
        )
        steps = [sandbox.run(), Rollouts(self.users.kube, TENANT).run(), Rollouts(self.remote).run()]
        tasks = [asyncio.ensure_future(step) for step in steps]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @asynccontextmanager
    async def _workloads(self) -> AsyncIterator[tuple[Mirror, Mirror]]:
        """Deployments of the tenant's namespace, and of the other cluster."""
        async with (
            mirrored(self.users.kube, DEPLOYMENT, TENANT) as here,
            mirrored(self.remote, DEPLOYMENT) as there,
        ):
            yield here, there


def _row(where: str) -> Row:
    return Row(TENANT, "v1", where, "promotion")


def _runs(environment: str, snapshot: str, found: Objects) -> bool:
    """Whether the Deployments of an environment run the images of a snapshot."""
    workloads = {name: each for (_, name), each in found.items()}
    images = [images_of(workloads.get(f"{component}-{environment}")) for component in COMPONENTS]
    return images == [[image(component, snapshot)] for component in COMPONENTS]


def _phase(claim: Any) -> str:
    return str(((claim or {}).get("status") or {}).get("phase", ""))
