"""Claims and targets, through every real component: bound, kept, released and reclaimed as their class says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from devstack.appstudio.serving import played
from devstack.appstudio.space_requests import made_for
from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import Mirror
from devstack.harness.owners import partition_of
from devstack.stack.identities import WORKSPACE
from examples.provisioner.provisioner import NAME, Provisioner, login_of, space_of, target_of
from examples.provisioner.topic import ClaimKey, open_topic
from services.common.kubernetes import NAMESPACE, SECRET, KubeClient, Manifest, NotFound
from services.common.messages import PendingClaim
from services.common.settings import KafkaSettings
from services.kinds.deployment_target.catalogue import NOT_TERMINATED
from services.kinds.deployment_target.model import DEPLOYMENT_TARGET
from services.kinds.deployment_target_claim.catalogue import ALREADY_CLAIMED, CLASS_NOT_FOUND
from services.kinds.deployment_target_claim.model import DEPLOYMENT_TARGET_CLAIM, MAX_CLAIM_NAME
from services.kinds.deployment_target_claim.rows import BIND_COMPLETE, FINALIZER, PROVISIONER
from services.kinds.deployment_target_class.model import DEPLOYMENT_TARGET_CLASS
from services.kinds.environment.model import ENVIRONMENT
from services.kinds.managed_environment.model import ENVIRONMENT_SECRET
from tests.e2e.api import Cluster
from tests.e2e.claims import COPY, SECONDS, SHIPPED, Namespace, message_of
from tests.e2e.tenant import USER, Tenant, condition, fresh_namespace, fresh_tenant


def reason(environment: Manifest) -> str:
    """Of its condition Reconciled; empty if it has none."""
    return str(condition(environment.get("status") or {}, "Reconciled").get("reason", ""))


@pytest.fixture
def ours(tenant: Tenant, target_class: str) -> Namespace:
    return Namespace(tenant, target_class)


@pytest.fixture
async def theirs(
    ours: Namespace, kube: KubeClient, deployments: Mirror, applications: Mirror
) -> AsyncIterator[Namespace]:
    """Of another tenant, in another partition, with the same class."""
    while partition_of(name := fresh_namespace()) == partition_of(ours.namespace):
        pass
    async with fresh_tenant(kube, deployments, applications, name) as tenant:
        yield Namespace(tenant, ours.class_name)


async def test_claim_when_a_target_is_free_then_it_is_bound_kept_so_and_reclaimed_as_its_class_says(
    ours: Namespace,
) -> None:
    """One of them: two others that want it, too, stay Pending, and the one that names it says why."""
    await ours.claim()
    waiting = await ours.until(DEPLOYMENT_TARGET_CLAIM, "dev", lambda each: bool(each["metadata"].get("annotations")))
    assert waiting["metadata"]["annotations"] == {PROVISIONER: ours.class_name}
    for name in ("named", "rival"):
        await ours.claim(name, targetName="spare")
        await ours.until_phase(DEPLOYMENT_TARGET_CLAIM, name, "Pending")
    await ours.target()
    bound = await ours.until_phase(DEPLOYMENT_TARGET_CLAIM, "named", "Bound")
    await ours.until_phase(DEPLOYMENT_TARGET, "spare", "Bound")
    await ours.until(DEPLOYMENT_TARGET, "spare", lambda each: each["spec"].get("claimRef") == "named")
    for name, problem in (("rival", ALREADY_CLAIMED.text()), ("dev", "")):
        lost = await ours.until(DEPLOYMENT_TARGET_CLAIM, name, lambda each, said=problem: message_of(each) == said)
        assert (lost["status"]["phase"], "targetName" in lost["spec"]) == ("Pending", name == "rival")
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
    ours: Namespace, theirs: Namespace
) -> None:
    """Of a claim that waits there is a SpaceRequest once its tenant knows of the change; no claim is written then."""
    await ours.set_class(provisioner="example.com/nobody")
    tenants = (ours, theirs)
    for tenant in tenants:
        await tenant.target()
        await tenant.until_phase(DEPLOYMENT_TARGET, "spare", "Available")
        await tenant.claim()
        await tenant.until_phase(DEPLOYMENT_TARGET_CLAIM, "dev", "Bound")
        await tenant.claim("waiting")
        await tenant.until_phase(DEPLOYMENT_TARGET_CLAIM, "waiting", "Pending")
        assert await tenant.spaces() == []
    await ours.set_class(provisioner=SHIPPED["spec"]["provisioner"], reclaimPolicy="Retain")
    for tenant in tenants:
        await tenant.until_asked()
        await tenant.kube.delete_object(DEPLOYMENT_TARGET_CLAIM, tenant.namespace, "dev")
        await tenant.until_gone(DEPLOYMENT_TARGET_CLAIM, "dev")
        released = await tenant.until_phase(DEPLOYMENT_TARGET, "spare", "Released")
        assert "claimRef" not in released["spec"]


async def test_class_when_it_is_deleted_while_in_use_then_claims_keep_their_targets_and_new_ones_say_so(
    ours: Namespace,
) -> None:
    await ours.target()
    await ours.until_phase(DEPLOYMENT_TARGET, "spare", "Available")
    await ours.claim()
    await ours.until_phase(DEPLOYMENT_TARGET_CLAIM, "dev", "Bound")
    await ours.kube.delete_object(DEPLOYMENT_TARGET_CLASS, None, ours.class_name)
    await ours.claim("late")
    message = CLASS_NOT_FOUND.text(name=ours.class_name)
    await ours.until(DEPLOYMENT_TARGET_CLAIM, "late", lambda each: message_of(each) == message)
    kept = await ours.until_phase(DEPLOYMENT_TARGET_CLAIM, "dev", "Bound")
    assert kept["spec"]["targetName"] == "spare"
    await ours.kube.delete_object(DEPLOYMENT_TARGET_CLAIM, ours.namespace, "dev")
    await ours.until_gone(DEPLOYMENT_TARGET_CLAIM, "dev")
    await ours.until_phase(DEPLOYMENT_TARGET, "spare", "Released")


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


async def test_claim_when_nothing_is_free_then_the_sandbox_makes_a_target_for_it_that_goes_with_it(
    ours: Namespace, cluster: Cluster
) -> None:
    """Its name is as long as may be: labels carry that of its target."""
    name = "c" * MAX_CLAIM_NAME
    async with played(ours.sandbox(cluster)):
        await ours.claim(name)
        await ours.until_phase(DEPLOYMENT_TARGET_CLAIM, name, "Bound")
        target = await ours.until_phase(DEPLOYMENT_TARGET, f"{name}-dt", "Bound")
        credentials = target["spec"]["kubernetesCredentials"]
        assert (target["spec"]["claimRef"], credentials["apiURL"]) == (name, cluster.url)
        (space,) = await ours.spaces()
        assert credentials["defaultNamespace"] == made_for(ours.namespace, space)
        await ours.kube.delete_object(DEPLOYMENT_TARGET_CLAIM, ours.namespace, name)
        await ours.until_gone(DEPLOYMENT_TARGET, f"{name}-dt")
        assert await ours.spaces() == []


@pytest.mark.parametrize("takes_off_finalizer", [False, True], ids=["at once", "with its finalizer taken off"])
async def test_claims_when_a_tenant_makes_and_deletes_them_quickly_then_no_space_is_left(
    ours: Namespace, takes_off_finalizer: bool
) -> None:
    for _ in range(10):
        await ours.claim()
        if takes_off_finalizer:
            await ours.until(
                DEPLOYMENT_TARGET_CLAIM, "dev", lambda each: FINALIZER in each["metadata"].get("finalizers", ())
            )
            await ours.until_asked()
            undone = {"metadata": {"finalizers": None}}
            await ours.kube.patch_object(DEPLOYMENT_TARGET_CLAIM, ours.namespace, "dev", undone, field_manager=USER)
        with suppress(NotFound):
            await ours.kube.delete_object(DEPLOYMENT_TARGET_CLAIM, ours.namespace, "dev")
        await ours.until_gone(DEPLOYMENT_TARGET_CLAIM, "dev")
    await ours.claim("last")
    await ours.until_spaces_of({"last"})


async def test_target_when_its_space_refuses_to_terminate_then_it_has_failed_names_that_and_goes_once_it_has_gone(
    ours: Namespace, cluster: Cluster
) -> None:
    """The sandbox says that it has failed for longer than two minutes, and the claim is in nobody's way meanwhile."""
    async with played(ours.sandbox(cluster, refuses_to_terminate=True)):
        await ours.claim()
        await ours.until_phase(DEPLOYMENT_TARGET_CLAIM, "dev", "Bound")
        (space,) = await ours.spaces()
        await ours.kube.delete_object(DEPLOYMENT_TARGET_CLAIM, ours.namespace, "dev")
        failed = await ours.until_phase(DEPLOYMENT_TARGET, "dev-dt", "Failed")
        assert condition(failed["status"], "ErrorOccurred")["message"] == NOT_TERMINATED.text(request=space)
        await ours.until_gone(DEPLOYMENT_TARGET_CLAIM, "dev")
    async with played(ours.sandbox(cluster)):
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
