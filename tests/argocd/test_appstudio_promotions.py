"""Promotions with real Argo CD: what runs in each environment is what its kustomize overlay says, at which commit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from devstack.appstudio.gitops_repositories import KustomizedRepositories
from devstack.appstudio.rollouts import DEPLOYMENT, Rollouts, images_of
from devstack.appstudio.serving import played
from devstack.appstudio.shop import COMPONENTS, Shop, image, opened_shop
from devstack.git.repository import Repository
from devstack.git.site import PUBLIC, GitSite
from devstack.harness.mirror import Mirror, mirrored
from services.kinds.environment.model import AUTOMATED
from services.kinds.promotion_run.catalogue import WAITS_FOR_DEPLOYMENTS
from tests.e2e.tenant import Tenant

WAITING = WAITS_FOR_DEPLOYMENTS.partition("{")[0]


@dataclass(frozen=True)
class Running:
    """A shop, and the Deployments that Argo CD makes of its repository."""

    shop: Shop
    workloads: Mirror
    namespace: str
    """Of its Deployments."""

    def images(self, environment: str) -> dict[str, str]:
        """What runs there, by component."""
        live = ((each, self.workloads.objects.get((self.namespace, f"{each}-{environment}"))) for each in COMPONENTS)
        return {component: images_of(found)[0] for component, found in live if found is not None}

    async def until_images(self, **wanted: dict[str, str]) -> None:
        """Wait until these run, by environment."""
        await self.workloads.until(
            f"the images are {wanted}; they are {[self.images(each) for each in wanted]}",
            lambda _: all(self.images(each) == expected for each, expected in wanted.items()),
        )

    def shown(self, environment: str) -> dict[str, tuple[str, ...]]:
        """Sync, health and commit of each component of the binding."""
        shown = self.shop.binding(environment).get("status", {}).get("gitopsDeployments", ())
        members = ("syncStatus", "health", "commitID")
        return {each["componentName"]: tuple(each.get(member, "") for member in members) for each in shown}

    async def until_deployed(self, environment: str, commit: str) -> None:
        """Wait until its binding says that all of it is as that commit says, and works."""
        wanted = dict.fromkeys(COMPONENTS, ("Synced", "Healthy", commit))
        await self.shop.bindings.until(
            f"all of {environment} is at {commit}; it is {self.shown(environment)}",
            lambda _: self.shown(environment) == wanted,
        )

    def commits(self, environment: str) -> dict[str, tuple[str, str]]:
        """Of each component of the binding: the one that the build service names, and the one that is deployed."""
        named = self.shop.binding(environment)["status"]["components"]
        deployed = {name: commit for name, (_, _, commit) in self.shown(environment).items()}
        return {each["name"]: (each["gitopsRepository"]["commitID"], deployed.get(each["name"], "")) for each in named}


@asynccontextmanager
async def running(
    tenant: Tenant, repositories: KustomizedRepositories, stuck: Collection[str] = ()
) -> AsyncIterator[Running]:
    """There is no controller of Deployments on the stack, so one is played; those in ``stuck`` never get ready."""
    async with (
        played(Rollouts(tenant.kube, tenant.namespace, stuck)),
        mirrored(tenant.kube, DEPLOYMENT, tenant.namespace) as workloads,
        opened_shop(tenant.kube, tenant.namespace, repositories) as shop,
    ):
        await shop.environments()
        for name in ("one", "two"):
            await shop.snapshot(name)
        yield Running(shop, workloads, tenant.namespace)


def images(snapshot: str) -> dict[str, str]:
    return {component: image(component, snapshot) for component in COMPONENTS}


async def test_snapshot_when_promoted_then_its_images_run_in_each_environment_that_it_has_come_to(
    tenant: Tenant, site: GitSite
) -> None:
    async with running(tenant, KustomizedRepositories(site)) as ours:
        await ours.shop.promote("first", "one", automatedPromotion={"initialEnvironment": "dev"})
        assert await ours.shop.until_complete("first") == "Success"
        assert ours.shop.steps("first") == [("dev", "Success"), ("staging", "Success")]
        await ours.until_images(dev=images("one"), staging=images("one"), prod={})
        await ours.shop.promote("release", "one", manualPromotion={"targetEnvironment": "prod"})
        assert await ours.shop.until_complete("release") == "Success"
        await ours.shop.promote("second", "two", manualPromotion={"targetEnvironment": "dev"})
        assert await ours.shop.until_complete("second") == "Success"
        await ours.until_images(dev=images("two"), staging=images("one"), prod=images("one"))


async def test_run_when_the_commit_that_the_build_service_names_is_not_deployed_yet_then_it_waits_for_it(
    tenant: Tenant, site: GitSite, tmp_path: Path
) -> None:
    """It names commits before it pushes them: until then everything is Synced and Healthy, at the commit before."""
    unpushed = replace(site, folder=tmp_path)
    name = f"{tenant.namespace}-shop"
    written, served = Repository(unpushed.repositories / PUBLIC / f"{name}.git"), site.create(name)
    async with running(tenant, KustomizedRepositories(unpushed, names_anew=True)) as ours:
        await ours.shop.promote("first", "one", manualPromotion={"targetEnvironment": "dev"})
        await until_waiting(ours.shop, "first")
        served.fetch(written)
        assert await ours.shop.until_complete("first") == "Success"

        await ours.shop.promote("second", "two", manualPromotion={"targetEnvironment": "dev"})
        await until_waiting(ours.shop, "second")
        states = {(sync, state) for sync, state, _ in ours.shown("dev").values()}
        assert (states, ours.shop.status("second")["state"]) == ({("Synced", "Healthy")}, "Active")
        assert ours.images("dev") == images("one")
        served.fetch(written)
        assert await ours.shop.until_complete("second") == "Success"
        await ours.until_images(dev=images("two"))
        named = {name: written.last_change(f"components/{name}/overlays/dev") for name in COMPONENTS}
        shown = {name: (commit, written.head()) for name, commit in named.items()}
        await ours.shop.bindings.until(
            f"the binding shows these commits, and the newest deployed; it shows {ours.commits('dev')}",
            lambda _: ours.commits("dev") == shown,
        )
        assert len({*named.values()}) == len(COMPONENTS)


async def test_automated_run_when_two_environments_share_the_repository_then_both_succeed_at_its_newest_commit(
    tenant: Tenant, site: GitSite
) -> None:
    """Each of two components has its own commit in each environment, and all of that is one branch."""
    async with running(tenant, KustomizedRepositories(site)) as ours:
        await ours.shop.environment("qa", AUTOMATED, "dev")
        await ours.shop.promote("first", "one", automatedPromotion={"initialEnvironment": "dev"})
        assert await ours.shop.until_complete("first") == "Success"
        assert ours.shop.steps("first") == [("dev", "Success"), ("qa", "Success"), ("staging", "Success")]
        everywhere = {name: images("one") for name in ("dev", "qa", "staging")}
        await ours.until_images(**everywhere)
        named = [commit for name in everywhere for commit, _ in ours.commits(name).values()]
        assert len({*named}) == len(named)


async def until_waiting(shop: Shop, run: str) -> None:
    """Wait until a run has all it needs but what its deployments show."""
    await shop.runs.until(
        f"{run} says {WAITING}; it says {shop.displayed(run)}", lambda _: shop.displayed(run).startswith(WAITING)
    )
