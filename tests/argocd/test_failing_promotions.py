"""Promotions that fail, with real Argo CD: what a run says of it, where it stops, and what stays as it is.

A run has ten minutes for each environment. Nobody waits for them here: the planner's clock is set to their end. If it
were later, the planner would take it that it has been away, and the run would have some time more.
"""

from __future__ import annotations

from devstack.appstudio.gitops_repositories import KustomizedRepositories
from devstack.appstudio.shop import Shop
from devstack.git.site import GitSite
from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import Objects
from services.kinds.environment.model import AUTOMATED
from services.kinds.promotion_run.catalogue import FAILED_IN_TIME, NEWER_COMMIT
from services.kinds.promotion_run.rules import TIME_FOR_A_STEP, TIME_TO_ANSWER
from tests.argocd.planner_clock import later, left_of
from tests.argocd.test_appstudio_promotions import WAITING, images, running, until_waiting
from tests.e2e.tenant import Tenant, condition


def health(shop: Shop, environment: str) -> dict[str, str]:
    """Of each component, as the binding of an environment shows it."""
    shown = shop.binding(environment).get("status", {}).get("gitopsDeployments", ())
    return {each["componentName"]: each.get("health", "") for each in shown}


def reconciled(shop: Shop, environment: str) -> tuple[str, str]:
    """Reason and message of the binding of an environment."""
    shown = {"conditions": shop.binding(environment).get("status", {}).get("bindingConditions", ())}
    found = condition(shown, "Reconciled")
    return found.get("reason", ""), found.get("message", "")


async def until_reconciled(shop: Shop, environment: str, reason: str, about: str = "") -> str:
    """The message of a binding once this is its reason, and its end."""

    def is_so(_: Objects) -> bool:
        shown, message = reconciled(shop, environment)
        return shown == reason and message.endswith(about)

    await shop.bindings.until(f"the binding of {environment} says {reason} of {about or 'anything'}", is_so)
    return reconciled(shop, environment)[1]


async def test_automated_run_when_an_environment_is_degraded_then_it_fails_there_names_it_and_leaves_all_as_it_is(
    tenant: Tenant, site: GitSite, stack: HostedStack
) -> None:
    async with running(tenant, KustomizedRepositories(site), stuck={"api-staging"}) as ours:
        shop = ours.shop
        await shop.environment("qa", AUTOMATED, "staging")
        await shop.promote("first", "one", automatedPromotion={"initialEnvironment": "dev"})
        await shop.bindings.until(
            f"staging is Degraded; it is {health(shop, 'staging')}",
            lambda _: health(shop, "staging") == {"api": "Degraded", "web": "Healthy"},
        )
        degraded = "shop-staging-generated-binding-shop-staging-api"
        await shop.runs.until(
            f"it waits for {degraded} alone; it says {shop.displayed('first')}",
            lambda _: shop.displayed("first").endswith(f"{WAITING}{degraded}"),
        )
        with later(stack, left_of(TIME_FOR_A_STEP, shop.binding("staging")["metadata"]["creationTimestamp"])):
            assert await shop.until_complete("first") == "Failure"
        assert shop.steps("first") == [("dev", "Success"), ("staging", "Failed")]
        commit = ours.commits("staging")["api"][1]
        assert f"{FAILED_IN_TIME} api is Synced, Degraded, at {commit}; wanted: " in shop.displayed("first")
        assert shop.bound() == {"dev": "one", "staging": "one"}
        await ours.until_images(dev=images("one"), staging=images("one"), qa={}, prod={})


async def test_run_when_the_build_service_is_silent_or_fails_then_it_waits_says_for_what_and_goes_on_once_told(
    tenant: Tenant, site: GitSite, stack: HostedStack
) -> None:
    async with running(tenant, KustomizedRepositories(site)) as ours:
        shop, service = ours.shop, ours.shop.build_service
        service.silent_about = {"web"}
        await shop.promote("first", "one", manualPromotion={"targetEnvironment": "dev"})
        message = await until_reconciled(shop, "dev", "WaitingForComponentStatus", "nothing is known of web")
        api = {"api": images("one")["api"]}
        await ours.until_images(dev=api)
        with later(stack, left_of(TIME_FOR_A_STEP, shop.status("first")["promotionStartTime"])):
            assert await shop.until_complete("first") == "Failure"
        assert shop.displayed("first") == f"{FAILED_IN_TIME} {message}"
        assert ours.images("dev") == api

        service.silent_about, service.failing = set(), True
        await shop.promote("second", "two", manualPromotion={"targetEnvironment": "dev"})
        await until_reconciled(shop, "dev", "GitOpsRepoNotReady")
        await shop.runs.until("it is under way", lambda _: shop.status("second").get("state") == "Active")
        assert ours.images("dev") == api
        service.failing = False
        await shop.touch_binding("dev")
        assert await shop.until_complete("second") == "Success"
        await ours.until_images(dev=images("two"))


async def test_run_when_the_build_service_is_down_for_the_next_snapshot_then_it_fails_and_names_what_was_not_written(
    tenant: Tenant, site: GitSite, stack: HostedStack
) -> None:
    """It names no commit for that anyway: all is Synced and Healthy, with the images of the snapshot before."""
    async with running(tenant, KustomizedRepositories(site)) as ours:
        shop = ours.shop
        await shop.promote("first", "one", manualPromotion={"targetEnvironment": "dev"})
        assert await shop.until_complete("first") == "Success"
        shop.build_service.down = True
        await shop.promote("second", "two", manualPromotion={"targetEnvironment": "dev"})
        await shop.bindings.until("dev has the second snapshot", lambda _: shop.bound() == {"dev": "two"})
        with later(stack, TIME_TO_ANSWER):
            await until_waiting(shop, "second")
        with later(stack, left_of(TIME_FOR_A_STEP, shop.status("second")["promotionStartTime"])):
            assert await shop.until_complete("second") == "Failure"
        for component in images("two"):
            assert f"{component} is Synced, Healthy" in shop.displayed("second")
        assert shop.displayed("second").count(f"wanted: {NEWER_COMMIT}") == len(images("two"))
        assert ours.images("dev") == images("one")
