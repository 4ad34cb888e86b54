"""Promotions through every real component: what a user writes, what becomes of it, and who else has a part in it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from devstack.appstudio.gitops_repositories import PretendedRepositories
from devstack.appstudio.shop import COMPONENTS, Shop, opened_shop
from services.common.kubernetes import KubeClient
from services.kinds.environment.model import ENVIRONMENT
from services.kinds.promotion_run.model import PROMOTION_RUN
from services.kinds.snapshot.model import SNAPSHOT
from services.kinds.snapshot.promotion import run_name
from tests.e2e.tenant import USER, Tenant, condition


@pytest.fixture
async def shop(tenant: Tenant) -> AsyncIterator[Shop]:
    """One that is open, with three environments and two snapshots."""
    async with opened_shop(tenant.kube, tenant.namespace, PretendedRepositories()) as made:
        await made.environments()
        for name in ("one", "two"):
            await made.snapshot(name)
        yield made


async def test_snapshot_when_promoted_automatically_and_by_hand_then_each_environment_has_it_and_keeps_it(
    shop: Shop, kube: KubeClient
) -> None:
    namespace = shop.namespace
    await shop.promote("first", "one", automatedPromotion={"initialEnvironment": "dev"})
    await shop.promote("second", "two", manualPromotion={"targetEnvironment": "dev"})
    assert await shop.until_complete("first") == "Success"
    assert shop.steps("first") == [("dev", "Success"), ("staging", "Success")]
    assert await shop.until_complete("second") == "Success"
    await shop.bindings.until("dev alone has snapshot two", lambda _: shop.bound() == {"dev": "two", "staging": "one"})
    for item in shop.bindings.objects.values():
        assert "ownerReferences" not in item["metadata"], "what was promoted outlives the run"
        assert {each["name"] for each in item["status"]["components"]} == set(COMPONENTS), "the build service's part"
        assert {each["syncStatus"] for each in item["status"]["gitopsDeployments"]} == {"Synced"}
    for name in ("first", "second"):
        await kube.delete_object(PROMOTION_RUN, namespace, name)
    await shop.runs.until("the runs are gone", lambda objects: not objects)
    assert shop.bound() == {"dev": "two", "staging": "one"}


async def test_run_when_its_snapshot_is_not_there_then_it_says_so_and_goes_on_once_it_is(shop: Shop) -> None:
    await shop.promote("early", "three", manualPromotion={"targetEnvironment": "prod"})
    message = "Snapshot: three referred in Binding: shop-prod-generated-binding does not exist."
    await shop.runs.until(
        f"it says so; it says {shop.status('early')}",
        lambda _: message in condition(shop.status("early"), "ErrorOccurred").get("message", ""),
    )
    assert shop.bound() == {}
    await shop.snapshot("three")
    assert await shop.until_complete("early") == "Success"
    assert shop.bound() == {"prod": "three"}


async def test_run_when_its_snapshot_is_deleted_meanwhile_then_it_says_so_until_it_is_back_and_nothing_else_changes(
    shop: Shop, kube: KubeClient
) -> None:
    """It is to an environment that is never there, so it goes on for as long as the test wants."""
    await shop.environment("far", claim="none")
    await shop.bind("at-dev", "dev", "two")
    await shop.promote("run", "one", manualPromotion={"targetEnvironment": "far"})
    bound = {"dev": "two", "far": "one"}
    await shop.bindings.until("the snapshot is there", lambda _: shop.bound() == bound)
    await kube.delete_object(SNAPSHOT, shop.namespace, "one")
    message = f"Snapshot: one referred in Binding: {shop.binding('far')['metadata']['name']} does not exist."
    await shop.runs.until(
        f"it says so; it says {shop.status('run')}",
        lambda _: condition(shop.status("run"), "ErrorOccurred").get("message") == message,
    )
    assert (shop.status("run")["state"], shop.bound()) == ("Active", bound)
    await shop.snapshot("one")
    await shop.runs.until(
        "it goes on", lambda _: condition(shop.status("run"), "ErrorOccurred").get("status") == "False"
    )
    await kube.delete_object(SNAPSHOT, shop.namespace, "one")
    await shop.promote("next", "two", manualPromotion={"targetEnvironment": "dev"})
    await kube.delete_object(PROMOTION_RUN, shop.namespace, "run")
    await shop.runs.until(
        "the next one has its turn", lambda _: shop.status("next").get("state") in {"Active", "Complete"}
    )
    assert shop.bound() == bound


async def test_run_when_it_never_can_succeed_then_it_fails_at_once_and_the_next_one_has_its_turn(shop: Shop) -> None:
    await shop.create(SNAPSHOT, "of-blog", {"application": "blog"})
    to_prod = {"manualPromotion": {"targetEnvironment": "prod"}}
    await shop.promote("hopeless", "of-blog", **to_prod)
    assert await shop.until_complete("hopeless") == "Failure"
    message = "Snapshot 'of-blog' is one of application 'blog', not of 'shop'; name one of this application"
    assert condition(shop.status("hopeless"), "ErrorOccurred")["message"] == message
    await shop.promote("next", "one", **to_prod)
    await shop.runs.until("it has begun", lambda _: shop.status("next").get("state") in {"Active", "Complete"})


async def test_snapshot_when_it_is_new_then_it_is_promoted_as_far_as_environments_are_automated(
    shop: Shop, kube: KubeClient
) -> None:
    automated = {"spec": {"deploymentStrategy": "AppStudioAutomated"}}
    for name in ("one", "two"):  # they are new, too, and may be of the same second
        await kube.delete_object(SNAPSHOT, shop.namespace, name)
    await kube.patch_object(ENVIRONMENT, shop.namespace, "dev", automated, field_manager=USER)
    await shop.snapshot("three")
    run = run_name("three", "dev")
    await shop.runs.until("its run is made", lambda objects: (shop.namespace, run) in objects, 120)
    assert await shop.until_complete(run) == "Success"
    assert shop.steps(run) == [("dev", "Success"), ("staging", "Success")]
    assert shop.bound() == {"dev": "three", "staging": "three"}
    await shop.promote("by-hand", "three", manualPromotion={"targetEnvironment": "prod"})
    assert await shop.until_complete("by-hand") == "Success"
    assert shop.bound() == {"dev": "three", "staging": "three", "prod": "three"}
