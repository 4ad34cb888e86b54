"""Targets that are made on demand in the other cluster, with real Argo CD: what is deployed there, and for how long.

Previews have minutes, and so has whoever makes namespaces. Nobody waits for them here: the planner's clock is set.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from devstack.appstudio.gitops_repositories import KustomizedRepositories
from devstack.appstudio.rollouts import DEPLOYMENT, Rollouts
from devstack.appstudio.serving import played
from devstack.appstudio.shop import COMPONENTS, opened_shop
from devstack.git.repository import Repository
from devstack.git.site import PUBLIC, GitSite
from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import mirrored
from services.common.kubernetes import KubeClient
from services.kinds.deployment_target.model import DEPLOYMENT_TARGET
from services.kinds.deployment_target_claim.catalogue import MINUTES, SPACE_NOT_READY
from services.kinds.deployment_target_claim.model import DEPLOYMENT_TARGET_CLAIM
from services.kinds.deployment_target_claim.provisioning import READY_WITHIN
from services.kinds.environment.model import ENVIRONMENT
from tests.argocd.deployed import Deployed
from tests.argocd.planner_clock import later
from tests.argocd.test_appstudio_promotions import Running, images
from tests.e2e.api import Cluster
from tests.e2e.claims import Namespace, fresh_class, message_of
from tests.e2e.tenant import Tenant, application_name, find

LIFE = timedelta(minutes=10)
"""Of a preview."""
RECLAIMED, RETAINED = PREVIEWS = ("qa", "kept")
"""Each is an environment on a claim of its name, and one class has its targets deleted with their claims."""


@pytest.fixture
def ours(tenant: Tenant, target_class: str) -> Namespace:
    return Namespace(tenant, target_class)


@pytest.fixture
def theirs(other_tenant: Tenant, target_class: str) -> Namespace:
    return Namespace(other_tenant, target_class)


@pytest.fixture
async def retaining_class(kube: KubeClient) -> AsyncIterator[str]:
    async with fresh_class(kube, "Retain") as name:
        yield name


@pytest.fixture
async def previews(
    ours: Namespace, retaining_class: str, cluster: Cluster, far: Deployed, site: GitSite
) -> AsyncIterator[dict[str, Running]]:
    """By name, while they have time left: all of them of one Snapshot, each on a target that was made for it."""
    over_at = datetime.now(UTC) + LIFE
    async with (
        played(ours.sandbox(cluster, far.kube), Rollouts(far.kube)),
        mirrored(far.kube, DEPLOYMENT) as workloads,
        opened_shop(ours.kube, ours.namespace, KustomizedRepositories(site)) as shop,
    ):
        await shop.snapshot("one")
        await ours.claim(RECLAIMED)
        await ours.claim(RETAINED, deploymentTargetClassName=retaining_class)
        made = {}
        for name in PREVIEWS:
            await ours.environment(name, claim=name)
            await ours.end_environment(name, over_at)
            await shop.bind(name, name, "one")
            await ours.until_phase(DEPLOYMENT_TARGET_CLAIM, name, "Bound")
            target = await ours.kube.get_object(DEPLOYMENT_TARGET, ours.namespace, f"{name}-dt")
            made[name] = Running(shop, workloads, target["spec"]["kubernetesCredentials"]["defaultNamespace"])
        yield made


async def test_previews_when_their_time_is_over_then_all_that_they_have_deployed_goes_and_targets_as_their_classes_say(
    ours: Namespace, tenant: Tenant, previews: dict[str, Running], site: GitSite, stack: HostedStack
) -> None:
    for name, preview in previews.items():
        await preview.until_images(**{name: images("one")})
    head = Repository(site.repositories / PUBLIC / f"{ours.namespace}-shop.git").head()
    for name, preview in previews.items():
        await preview.until_deployed(name, head)
    deployed = [each for (where, _), each in tenant.deployments.objects.items() if where == ours.namespace]
    assert len(deployed) == len(PREVIEWS) * len(COMPONENTS)

    with later(stack, LIFE):
        for name in PREVIEWS:
            await ours.until_gone(ENVIRONMENT, name)
            await ours.until_gone(DEPLOYMENT_TARGET_CLAIM, name)
        left = [name for each in deployed if find(tenant.applications.objects, name := application_name(each))]
        assert left == [], "what was deployed was removed before its environment"
        for name, preview in previews.items():
            await preview.until_images(**{name: {}})
            assert preview.shop.binding(name) == {}
        await ours.until_gone(DEPLOYMENT_TARGET, f"{RECLAIMED}-dt")
        released = await ours.until_phase(DEPLOYMENT_TARGET, f"{RETAINED}-dt", "Released")
        assert "claimRef" not in released["spec"]
        (space,) = await ours.spaces()
        assert space.startswith(RETAINED)


async def test_claim_when_its_space_is_not_ready_in_time_then_it_says_why_until_it_is_and_others_get_theirs(
    ours: Namespace, theirs: Namespace, cluster: Cluster, far: Deployed, stack: HostedStack
) -> None:
    await ours.claim()
    async with played(ours.sandbox(cluster, far.kube, hangs=True), theirs.sandbox(cluster, far.kube)):
        await ours.until_asked()
        (space,) = await ours.spaces()
        told = SPACE_NOT_READY.text(request=space, minutes=MINUTES, why="Provisioning")
        with later(stack, READY_WITHIN):
            late = await ours.until(DEPLOYMENT_TARGET_CLAIM, "dev", lambda each: message_of(each) == told)
            assert late["status"]["phase"] == "Pending"
            await theirs.claim()
            bound = await theirs.until_phase(DEPLOYMENT_TARGET_CLAIM, "dev", "Bound")
            assert message_of(bound) == ""
    async with played(ours.sandbox(cluster, far.kube)):
        bound = await ours.until_phase(DEPLOYMENT_TARGET_CLAIM, "dev", "Bound")
        assert (message_of(bound), await ours.spaces()) == ("", [space])
