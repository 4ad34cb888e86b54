"""Claims and targets, through every real component: bound, kept, released and reclaimed as their class says."""

from __future__ import annotations

import asyncio
import base64
import json
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml

from devstack.appstudio.build_service import BuildService
from devstack.appstudio.gitops_repositories import PretendedRepositories
from devstack.appstudio.space_requests import SpaceRequestController, made_for
from devstack.harness.hosted import HostedStack
from devstack.stack.identities import WORKSPACE
from examples.provisioner.provisioner import NAME, Provisioner, login_of, space_of, target_of
from examples.provisioner.topic import ClaimKey, open_topic
from services.common.kubernetes import NAMESPACE, SECRET, ApiResource, KubeClient, Manifest, NotFound
from services.common.messages import PendingClaim
from services.common.package_data import CRDS
from services.common.settings import KafkaSettings
from services.common.times import rfc3339
from services.kinds.application.kind import APPLICATION
from services.kinds.deployment_target.catalogue import NOT_TERMINATED
from services.kinds.deployment_target.model import DEPLOYMENT_TARGET
from services.kinds.deployment_target_claim.model import DEPLOYMENT_TARGET_CLAIM
from services.kinds.deployment_target_claim.rows import BIND_COMPLETE, FINALIZER, PROVISIONER
from services.kinds.deployment_target_class.model import DEPLOYMENT_TARGET_CLASS
from services.kinds.environment.catalogue import EXPIRES_AT
from services.kinds.environment.model import ENVIRONMENT
from services.kinds.managed_environment.model import ENVIRONMENT_SECRET
from services.kinds.snapshot.model import SNAPSHOT
from services.kinds.snapshot_environment_binding.model import BINDING
from services.kinds.space_request.model import SPACE_REQUEST
from tests.e2e.api import Cluster
from tests.e2e.tenant import Tenant, application_name, condition, find

USER = "a-user"
SECONDS = 60
CREDENTIALS = {
    "defaultNamespace": "spaces-1",
    "apiURL": "https://api.example.com:6443",
    "clusterCredentialsSecret": "login",
    "allowInsecureSkipTLSVerify": False,
}
COPY = "managed-environment-secret-dev"
SHIPPED = yaml.safe_load((CRDS.parent / "classes" / "isolation-level-namespace.yaml").read_text())


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
        """An environment, dev, on a claim that is bound to a target."""
        await self.claim()
        await self.target()
        claimed = {"target": {"deploymentTargetClaim": {"claimName": "dev"}}}
        spec = {"displayName": "Dev", "deploymentStrategy": "Manual", "configuration": claimed}
        await self.create(ENVIRONMENT, "dev", spec)

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

    async def set_policy(self, policy: str) -> None:
        patch = {"spec": {"reclaimPolicy": policy}}
        await self.kube.patch_object(DEPLOYMENT_TARGET_CLASS, None, self.class_name, patch, field_manager=USER)

    async def create(self, kind: ApiResource, name: str, spec: dict[str, Any]) -> None:
        manifest = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": spec,
        }
        await self.kube.create_object(kind, manifest, field_manager=USER)


def reason(environment: Manifest) -> str:
    """Of its condition Reconciled; empty if it has none."""
    return str(condition(environment.get("status") or {}, "Reconciled").get("reason", ""))


@pytest.fixture
async def ours(tenant: Tenant, kube: KubeClient) -> AsyncIterator[Namespace]:
    """With a class of the test's own, like the one that is shipped."""
    name = f"class-{uuid.uuid4().hex[:8]}"
    await kube.create_object(DEPLOYMENT_TARGET_CLASS, SHIPPED | {"metadata": {"name": name}}, field_manager=USER)
    yield Namespace(tenant, name)
    await kube.delete_object(DEPLOYMENT_TARGET_CLASS, None, name)


async def test_claim_when_a_target_is_free_then_it_is_bound_kept_so_and_reclaimed_as_its_class_says(
    ours: Namespace,
) -> None:
    await ours.claim()
    waiting = await ours.until(DEPLOYMENT_TARGET_CLAIM, "dev", lambda each: bool(each["metadata"].get("annotations")))
    assert waiting["metadata"]["annotations"] == {PROVISIONER: ours.class_name}
    await ours.claim("named", targetName="spare")
    await ours.target()
    bound = await ours.until_phase(DEPLOYMENT_TARGET_CLAIM, "named", "Bound")
    target = await ours.until(DEPLOYMENT_TARGET, "spare", lambda each: each["spec"].get("claimRef") == "named")
    assert target["status"]["phase"] == "Bound"
    bound = await ours.until(
        DEPLOYMENT_TARGET_CLAIM, "named", lambda each: BIND_COMPLETE in (each["metadata"].get("annotations") or {})
    )
    assert FINALIZER in bound["metadata"]["finalizers"]
    undone = {"metadata": {"annotations": {BIND_COMPLETE: None}}}
    await ours.kube.patch_object(DEPLOYMENT_TARGET_CLAIM, ours.namespace, "named", undone, field_manager=USER)
    await ours.until(
        DEPLOYMENT_TARGET_CLAIM, "named", lambda each: BIND_COMPLETE in (each["metadata"].get("annotations") or {})
    )
    await ours.kube.delete_object(DEPLOYMENT_TARGET_CLAIM, ours.namespace, "named")
    await ours.until_gone(DEPLOYMENT_TARGET_CLAIM, "named")
    await ours.until_gone(DEPLOYMENT_TARGET, "spare")


async def test_class_when_operators_change_it_then_the_claims_of_all_tenants_follow_the_new_policy(
    ours: Namespace,
) -> None:
    await ours.target()
    await ours.claim()
    await ours.until_phase(DEPLOYMENT_TARGET_CLAIM, "dev", "Bound")
    await ours.set_policy("Retain")
    await ours.claim("witness")  # is told with the newest state of its class, and that counts for all
    await ours.until_phase(DEPLOYMENT_TARGET_CLAIM, "witness", "Pending")
    await ours.kube.delete_object(DEPLOYMENT_TARGET_CLAIM, ours.namespace, "dev")
    await ours.until_gone(DEPLOYMENT_TARGET_CLAIM, "dev")
    released = await ours.until_phase(DEPLOYMENT_TARGET, "spare", "Released")
    assert "claimRef" not in released["spec"]


async def test_secret_of_a_target_when_it_comes_changes_and_goes_then_the_environments_copy_follows_at_once(
    ours: Namespace,
) -> None:
    """Its type is its provisioner's own, so nobody follows it."""
    await ours.environment_on_target()
    await ours.until(ENVIRONMENT, "dev", lambda each: reason(each) == "SecretNotFound")
    await ours.secret("login", "first")
    await ours.until_copied("first")
    await ours.until(ENVIRONMENT, "dev", lambda each: reason(each) == "SecretNotFoundResolved")
    changed = {"stringData": {"kubeconfig": "second"}}
    await ours.kube.patch_object(SECRET, ours.namespace, "login", changed, field_manager=USER)
    await ours.until_copied("second")
    await ours.kube.delete_object(SECRET, ours.namespace, "login")
    await ours.until_gone(SECRET, COPY)
    await ours.until(ENVIRONMENT, "dev", lambda each: reason(each) == "SecretNotFound")
    await ours.kube.delete_object(ENVIRONMENT, ours.namespace, "dev")


@pytest.mark.parametrize("type_", ["Opaque", ENVIRONMENT_SECRET])
async def test_secret_of_somebody_else_when_it_has_the_name_of_a_copy_then_the_environment_says_so_until_it_goes(
    ours: Namespace, type_: str
) -> None:
    await ours.secret(COPY, "theirs", type_)
    await ours.secret("login", "ours")
    await ours.environment_on_target()
    await ours.until(ENVIRONMENT, "dev", lambda each: reason(each) == "NameExists")
    await ours.until_copied("theirs")
    await ours.kube.delete_object(SECRET, ours.namespace, COPY)
    await ours.until_copied("ours")
    await ours.until(ENVIRONMENT, "dev", lambda each: reason(each) == "NameExistsResolved")
    await ours.kube.delete_object(ENVIRONMENT, ours.namespace, "dev")


@asynccontextmanager
async def sandboxed(ours: Namespace, *, refuses_to_terminate: bool = False) -> AsyncIterator[str]:
    """With a controller of SpaceRequests, which makes namespaces in the cluster with this URL."""
    url = ours.kube.configuration.host
    controller = SpaceRequestController(
        ours.kube, ours.namespace, url, "kubeconfig", refuses_to_terminate=refuses_to_terminate
    )
    serving = asyncio.create_task(controller.run())
    try:
        yield url
    finally:
        serving.cancel()
        await asyncio.wait([serving])


async def test_claim_when_nothing_is_free_then_the_sandbox_makes_a_target_for_it_that_goes_with_it(
    ours: Namespace,
) -> None:
    async with sandboxed(ours) as url:
        await ours.claim()
        await ours.until_phase(DEPLOYMENT_TARGET_CLAIM, "dev", "Bound")
        target = await ours.until_phase(DEPLOYMENT_TARGET, "dev-dt", "Bound")
        credentials = target["spec"]["kubernetesCredentials"]
        assert (target["spec"]["claimRef"], credentials["apiURL"]) == ("dev", url)
        (space,) = await ours.spaces()
        assert credentials["defaultNamespace"] == made_for(ours.namespace, space)
        await ours.kube.delete_object(DEPLOYMENT_TARGET_CLAIM, ours.namespace, "dev")
        await ours.until_gone(DEPLOYMENT_TARGET, "dev-dt")
        assert await ours.spaces() == []


async def test_target_when_its_space_refuses_to_terminate_then_it_has_failed_names_that_and_goes_once_it_has_gone(
    ours: Namespace,
) -> None:
    """The sandbox says that it has failed for longer than two minutes, and the claim is in nobody's way meanwhile."""
    async with sandboxed(ours, refuses_to_terminate=True):
        await ours.claim()
        await ours.until_phase(DEPLOYMENT_TARGET_CLAIM, "dev", "Bound")
        (space,) = await ours.spaces()
        await ours.kube.delete_object(DEPLOYMENT_TARGET_CLAIM, ours.namespace, "dev")
        failed = await ours.until_phase(DEPLOYMENT_TARGET, "dev-dt", "Failed")
        assert condition(failed["status"], "ErrorOccurred")["message"] == NOT_TERMINATED.text(request=space)
        await ours.until_gone(DEPLOYMENT_TARGET_CLAIM, "dev")
    async with sandboxed(ours):
        await ours.until_gone(DEPLOYMENT_TARGET, "dev-dt")
        assert await ours.spaces() == []


@pytest.fixture
async def served(ours: Namespace) -> Provisioner:
    """By the example of docs/operations/provisioners.md, with its own rights at the brokers; not started yet."""
    patch = {"spec": {"provisioner": NAME, "parameters": {"size": "small"}}}
    await ours.kube.patch_object(DEPLOYMENT_TARGET_CLASS, None, ours.class_name, patch, field_manager=USER)
    return Provisioner(ours.kube, WORKSPACE, ours.kube.configuration.host, "kubeconfig", every_seconds=0.5)


def settings_of(stack: HostedStack) -> KafkaSettings:
    given = {name.lower(): value for name, value in stack.environment_of("target-provisioner").items()}
    return KafkaSettings(**given)  # type: ignore[arg-type]


@asynccontextmanager
async def running(provisioner: Provisioner, stack: HostedStack) -> AsyncIterator[None]:
    with open_topic(settings_of(stack)) as topic:
        serving = asyncio.create_task(provisioner.run(topic))
        yield
        serving.cancel()
        with suppress(asyncio.CancelledError):  # not what else it may have ended with
            await serving


async def until(what: str, is_so: Callable[[], bool]) -> None:
    try:
        async with asyncio.timeout(SECONDS):
            while True:
                if is_so():
                    return
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"never {what}") from None


def read_topic(stack: HostedStack) -> dict[ClaimKey, PendingClaim | None]:
    with open_topic(settings_of(stack)) as topic:
        return topic.read_all()


async def key_of(ours: Namespace) -> ClaimKey:
    claim = await ours.kube.get_object(DEPLOYMENT_TARGET_CLAIM, ours.namespace, "dev")
    return ClaimKey(WORKSPACE, ours.namespace, "dev", claim["metadata"]["uid"])


async def until_removed(ours: Namespace, key: ClaimKey) -> None:
    """What the example has made: its Secret, and its namespace, which no controller of this stack finishes."""
    await ours.until_gone(SECRET, login_of(key))
    with suppress(NotFound):
        async with asyncio.timeout(SECONDS):
            while True:
                left = await ours.kube.get_object(NAMESPACE, None, space_of(key))
                if left["status"]["phase"] == "Terminating":
                    return
                await asyncio.sleep(0.1)


async def test_claim_when_a_service_of_others_serves_its_class_then_it_gets_its_target_that_goes_with_it(
    ours: Namespace, served: Provisioner, stack: HostedStack
) -> None:
    await ours.claim()
    await ours.until_phase(DEPLOYMENT_TARGET_CLAIM, "dev", "Pending")
    key = await key_of(ours)
    async with running(served, stack):
        await ours.until_phase(DEPLOYMENT_TARGET_CLAIM, "dev", "Bound")
        target = await ours.until_phase(DEPLOYMENT_TARGET, target_of(key), "Bound")
        credentials = target["spec"]["kubernetesCredentials"]
        assert (credentials["defaultNamespace"], credentials["clusterCredentialsSecret"]) == (
            space_of(key),
            login_of(key),
        )
        await ours.kube.get_object(SECRET, ours.namespace, login_of(key))
        made = await ours.kube.get_object(NAMESPACE, None, space_of(key))
        assert made["status"]["phase"] == "Active"
        await until("is its row gone", lambda: key not in served.rows)
        await ours.kube.delete_object(DEPLOYMENT_TARGET_CLAIM, ours.namespace, "dev")
        await ours.until_gone(DEPLOYMENT_TARGET, target_of(key))
        await until_removed(ours, key)


@pytest.mark.usefixtures("served")
async def test_claim_when_its_provisioner_does_not_answer_then_it_waits_and_goes_when_it_is_deleted(
    ours: Namespace, stack: HostedStack
) -> None:
    await ours.claim()
    await ours.until_phase(DEPLOYMENT_TARGET_CLAIM, "dev", "Pending")
    key = await key_of(ours)
    await until("on the topic", lambda: read_topic(stack).get(key) is not None)
    row = read_topic(stack)[key]
    assert row is not None
    assert (row.state, row.provisioner, row.class_name) == ("wanted", NAME, ours.class_name)
    assert json.loads(row.parameters) == {"size": "small"}
    await ours.kube.delete_object(DEPLOYMENT_TARGET_CLAIM, ours.namespace, "dev")
    await ours.until_gone(DEPLOYMENT_TARGET_CLAIM, "dev")
    await until("gone from the topic", lambda: read_topic(stack).get(key) is None)


@pytest.fixture
async def made(ours: Namespace, served: Provisioner) -> ClaimKey:
    """A target that its claim does not have: that was given another class meanwhile, of which nobody makes any."""
    await ours.claim()
    await ours.until_phase(DEPLOYMENT_TARGET_CLAIM, "dev", "Pending")
    key = await key_of(ours)
    served.rows[key] = PendingClaim(*key, "other", NAME, "{}", 1, "wanted", datetime.now(UTC), deleted=False)
    for _ in range(2):
        await served.serve_claim(key)
    await ours.until_phase(DEPLOYMENT_TARGET, target_of(key), "Available")
    return key


async def test_provisioner_when_a_claim_is_withdrawn_then_it_takes_back_what_it_has_made(
    ours: Namespace, served: Provisioner, made: ClaimKey
) -> None:
    served.rows[made] = replace(served.rows[made], state="withdrawn")
    await served.serve_claim(made)
    await ours.until_gone(DEPLOYMENT_TARGET, target_of(made))
    await served.serve_claim(made)
    await until_removed(ours, made)


async def test_provisioner_when_a_claim_is_gone_while_it_was_away_then_it_takes_back_what_it_has_made(
    ours: Namespace, served: Provisioner, made: ClaimKey, stack: HostedStack
) -> None:
    await ours.kube.delete_object(DEPLOYMENT_TARGET_CLAIM, ours.namespace, "dev")
    await ours.until_gone(DEPLOYMENT_TARGET_CLAIM, "dev")
    async with running(replace(served, rows={}), stack):
        await ours.until_gone(DEPLOYMENT_TARGET, target_of(made))
        await until_removed(ours, made)


async def test_provisioner_when_a_tenant_names_another_namespace_in_its_target_then_that_stays(
    ours: Namespace, served: Provisioner, made: ClaimKey, stack: HostedStack
) -> None:
    patch = {"spec": {"kubernetesCredentials": {"defaultNamespace": ours.namespace}}}
    await ours.kube.patch_object(DEPLOYMENT_TARGET, ours.namespace, target_of(made), patch, field_manager=USER)
    await ours.kube.delete_object(DEPLOYMENT_TARGET_CLAIM, ours.namespace, "dev")
    await ours.until_gone(DEPLOYMENT_TARGET_CLAIM, "dev")
    async with running(replace(served, rows={}), stack):
        await ours.until_gone(DEPLOYMENT_TARGET, target_of(made))
        await until_removed(ours, made)
    own = await ours.kube.get_object(NAMESPACE, None, ours.namespace)
    assert own["status"]["phase"] == "Active"


async def test_preview_when_its_time_is_over_then_it_goes_with_what_it_deployed_its_claim_and_its_target(
    ours: Namespace, cluster: Cluster, tenant: Tenant
) -> None:
    sandbox = SpaceRequestController(ours.kube, ours.namespace, cluster.url, cluster.kubeconfig())
    building = BuildService(ours.kube, ours.namespace, PretendedRepositories())
    others = [asyncio.create_task(each.run()) for each in (sandbox, building)]
    try:
        await ours.claim()
        claim = {"target": {"deploymentTargetClaim": {"claimName": "dev"}}}
        preview = {"displayName": "qa", "deploymentStrategy": "Manual", "configuration": claim}
        await ours.create(ENVIRONMENT, "qa", preview)
        bound = {"application": "shop", "environment": "qa", "snapshot": "one", "components": [{"name": "cart"}]}
        await ours.create(APPLICATION, "shop", {"displayName": "Shop"})
        await ours.create(SNAPSHOT, "one", {"application": "shop"})
        await ours.create(BINDING, "web", bound)
        await tenant.until_status("it is synced", "web-shop-qa-cart", sync__status="Synced", health__status="Healthy")
        deployed = tenant.deployments.objects[tenant.namespace, "web-shop-qa-cart"]
        end = {"metadata": {"annotations": {EXPIRES_AT: rfc3339(datetime.now(UTC) + timedelta(seconds=2))}}}
        await ours.kube.patch_object(ENVIRONMENT, ours.namespace, "qa", end, field_manager=USER)
        await ours.until_gone(ENVIRONMENT, "qa")
        assert find(tenant.applications.objects, application_name(deployed)) is None, "that was removed first"
        await ours.until_gone(BINDING, "web")
        await ours.until_gone(DEPLOYMENT_TARGET_CLAIM, "dev")
        await ours.until_gone(DEPLOYMENT_TARGET, "dev-dt")
        assert await ours.spaces() == []
    finally:
        for each in others:
            each.cancel()
        await asyncio.wait(others)
