"""The AppStudio kinds through every real component: what a user writes, and what comes of it in their namespace."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from devstack.harness.mirror import Mirror, Objects, mirrored
from services.common.kubernetes import KubeClient, Manifest
from services.kinds.application.kind import APPLICATION
from services.kinds.environment.model import ENVIRONMENT
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from services.kinds.shared.api_group import APPSTUDIO_LABELS
from services.kinds.shared.text import MAX_LABEL, MAX_NAME
from services.kinds.snapshot_environment_binding.model import BINDING
from services.kinds.snapshot_environment_binding.rules import deployment_name
from tests.e2e.api import Api, Cluster
from tests.e2e.tenant import USER, Tenant, condition

MANAGED = "managed-environment-staging"


@pytest.fixture
async def environments(kube: KubeClient, tenant: Tenant) -> AsyncIterator[Mirror]:
    """Every Environment of the tenant, live."""
    async with mirrored(kube, ENVIRONMENT, tenant.namespace) as mirror:
        yield mirror


async def create_environment(
    api: Api, name: str = "staging", *, parent: str = "", claim: str = "", **credentials: Any
) -> Manifest:
    spec: dict[str, Any] = {"displayName": name, "deploymentStrategy": "Manual"}
    if parent:
        spec["parentEnvironment"] = parent
    if claim:
        spec["configuration"] = {"target": {"deploymentTargetClaim": {"claimName": claim}}}
    if credentials:
        terms = {"targetNamespace": "web", "clusterCredentialsSecret": "kubeconfig"}
        terms |= {"allowInsecureSkipTLSVerify": False} | credentials
        spec["unstableConfigurationFields"] = {"kubernetesCredentials": terms}
    manifest = {
        "apiVersion": ENVIRONMENT.api_version,
        "kind": ENVIRONMENT.kind,
        "metadata": {"name": name, "namespace": api.namespace},
        "spec": spec,
    }
    return await api.kube.create_object(ENVIRONMENT, manifest, field_manager=USER)


async def until_reason(mirror: Mirror, api: Api, reason: str, name: str = "staging") -> dict[str, Any]:
    """Wait until a resource's condition Reconciled has this reason."""

    def found() -> dict[str, Any]:
        status: dict[str, Any] = mirror.objects.get((api.namespace, name), {}).get("status", {})
        return condition(status, "Reconciled")

    await mirror.until(f"{name} says {reason}; it says {found()}", lambda _: found().get("reason") == reason)
    return found()


async def test_environment_when_it_has_credentials_then_it_has_a_managed_environment_that_works_and_stays_so(
    api: Api, cluster: Cluster, environments: Mirror
) -> None:
    created = await create_environment(api, apiURL=cluster.url)
    managed, key = api.kinds.environments, (api.namespace, MANAGED)
    assert "kubeconfig" in (await until_reason(environments, api, "SecretNotFound"))["message"]
    await api.secret("kubeconfig", "managed-environment", kubeconfig=cluster.kubeconfig())
    await until_reason(environments, api, "SecretNotFoundResolved")
    await api.until_connection("Succeeded", MANAGED)
    (owner,) = managed.objects[key]["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Environment", created["metadata"]["uid"], True)

    drift = {"spec": {"namespaces": ["default"], "allowInsecureSkipTLSVerify": True}}
    await api.kube.patch_object(MANAGED_ENVIRONMENT, api.namespace, MANAGED, drift, field_manager=USER)
    await managed.until("its drift is undone", lambda objects: _is_as_wanted(objects[key]))
    uid = managed.objects[key]["metadata"]["uid"]
    await api.delete(MANAGED_ENVIRONMENT, MANAGED)
    await managed.until("it is made again", lambda objects: key in objects and objects[key]["metadata"]["uid"] != uid)

    await api.delete(ENVIRONMENT, "staging")
    await managed.until("it goes with its environment", lambda objects: key not in objects)


async def test_environments_when_something_is_wrong_with_them_then_each_says_so_until_it_is_mended(
    api: Api, cluster: Cluster, environments: Mirror
) -> None:
    await create_environment(api, "both", claim="dev", apiURL=cluster.url)
    await create_environment(api, "north", parent="south")
    await until_reason(environments, api, "ParentNotFound", "north")
    await create_environment(api, "south", parent="north")
    for name, way in (("north", "north -> south -> north"), ("south", "south -> north -> south")):
        assert way in (await until_reason(environments, api, "ParentCycle", name))["message"]
    await until_reason(environments, api, "InvalidEnvironment", "both")

    mended = {"spec": {"parentEnvironment": None}}
    await api.kube.patch_object(ENVIRONMENT, api.namespace, "south", mended, field_manager=USER)
    without = {"spec": {"unstableConfigurationFields": None, "configuration": None}}
    await api.kube.patch_object(ENVIRONMENT, api.namespace, "both", without, field_manager=USER)
    for name in ("north", "south"):
        await until_reason(environments, api, "ParentCycleResolved", name)
    await until_reason(environments, api, "InvalidEnvironmentResolved", "both")


@pytest.fixture
async def bindings(kube: KubeClient, tenant: Tenant) -> AsyncIterator[Mirror]:
    """Every SnapshotEnvironmentBinding of the tenant, live."""
    async with mirrored(kube, BINDING, tenant.namespace) as mirror:
        yield mirror


async def create_binding(
    api: Api, *components: str, name: str = "web", application: str = "shop", environment: str = "staging"
) -> Manifest:
    manifest = {
        "apiVersion": BINDING.api_version,
        "kind": BINDING.kind,
        "metadata": {
            "name": name,
            "namespace": api.namespace,
            "labels": {f"{APPSTUDIO_LABELS}/owner": "team", "example.com/mine": "yes"},
        },
        "spec": {
            "application": application,
            "environment": environment,
            "snapshot": "one",
            "components": [{"name": name} for name in components],
        },
    }
    return await api.kube.create_object(BINDING, manifest, field_manager=USER)


async def create_application(api: Api) -> None:
    manifest = {
        "apiVersion": APPLICATION.api_version,
        "kind": APPLICATION.kind,
        "metadata": {"name": "shop", "namespace": api.namespace},
        "spec": {"displayName": "Shop"},
    }
    await api.kube.create_object(APPLICATION, manifest, field_manager=USER)


async def tell_components(api: Api, *components: str, binding: str = "web") -> None:
    """Say of these where their manifests are, as the build service does."""
    told = [
        {
            "name": name,
            "gitopsRepository": {
                "url": f"https://git.example.com/{api.namespace}/gitops.git",
                "branch": "main",
                "path": f"components/{name}/overlays/staging",
                "commitID": "c1",
            },
        }
        for name in components
    ]
    patch = {"status": {"components": told}}
    await api.kube.patch_object(
        BINDING, api.namespace, binding, patch, field_manager="build-service", subresource="status"
    )


def reason(bindings: Mirror, api: Api, name: str = "web") -> str:
    """What a binding says of itself."""
    status = bindings.objects.get((api.namespace, name), {}).get("status", {})
    return str(condition({"conditions": status.get("bindingConditions") or []}, "Reconciled").get("reason", ""))


async def test_binding_when_components_are_told_then_they_are_deployed_shown_and_kept_as_they_are_wanted(
    api: Api, tenant: Tenant, bindings: Mirror
) -> None:
    await create_environment(api)
    created = await create_binding(api, "cart", "basket")

    def status() -> dict[str, Any]:
        found: dict[str, Any] = bindings.objects.get((api.namespace, "web"), {}).get("status", {})
        return found

    def said(type_: str, member: str = "bindingConditions") -> str:
        return str(condition({"conditions": status().get(member) or []}, type_).get("reason", ""))

    await bindings.until("it waits", lambda _: said("Reconciled") == "WaitingForComponentStatus")
    await tell_components(api, "cart", "basket")
    cart, basket = "web-shop-staging-cart", "web-shop-staging-basket"
    await tenant.until_status("it is synced", cart, sync__status="Synced", health__status="Healthy")
    await tenant.until_status("it is synced", basket, sync__status="Synced", health__status="Healthy")
    await bindings.until(
        "all components are deployed",
        lambda _: said("AllComponentsDeployed", "componentDeploymentConditions") == "CommitsSynced",
    )
    shown = {each["componentName"]: each for each in status()["gitopsDeployments"]}
    assert {name: each["gitopsDeployment"] for name, each in shown.items()} == {"cart": cart, "basket": basket}
    assert {(each["syncStatus"], each["health"]) for each in shown.values()} == {("Synced", "Healthy")}
    assert shown["cart"]["commitID"] == tenant.status(cart)["sync"]["revision"]
    assert [each["name"] for each in status()["components"]] == ["cart", "basket"], "the build service's part is kept"

    deployment = tenant.deployments.objects[api.namespace, cart]
    (owner,) = deployment["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == (BINDING.kind, created["metadata"]["uid"], True)
    labels = {f"{APPSTUDIO_LABELS}/{what}": name for what, name in SAID_BY_LABELS.items()}
    assert deployment["metadata"]["labels"] == labels
    await tenant.until_path(deployment, "components/cart/overlays/staging")

    drift = {"spec": {"type": "manual"}, "metadata": {"labels": {f"{APPSTUDIO_LABELS}/component": "basket"}}}
    await tenant.patch(cart, drift)
    await tenant.deployments.until("drift is undone", lambda objects: _is_cart(objects[api.namespace, cart]))

    await tell_components(api, "cart")
    await tenant.deployments.until("it goes with its component", lambda objects: (api.namespace, basket) not in objects)
    await api.delete(BINDING, "web")
    await tenant.deployments.until("all go with the binding", lambda objects: (api.namespace, cart) not in objects)
    await tenant.until_application_gone(deployment)


async def test_binding_when_somebody_has_made_a_deployment_of_its_name_then_that_stays_until_they_delete_it(
    api: Api, tenant: Tenant, bindings: Mirror
) -> None:
    name = "web-shop-staging-cart"
    theirs = await tenant.create(name)
    await create_environment(api)
    created = await create_binding(api, "cart")
    await tell_components(api, "cart")

    await bindings.until("it says whose the name is", lambda _: reason(bindings, api) == "NameExists")
    assert tenant.deployments.objects[api.namespace, name]["spec"] == theirs["spec"]
    await tenant.delete(name)
    await bindings.until("it has the name", lambda _: reason(bindings, api) == "Reconciled")

    def controller(objects: Objects) -> str:
        (owner,) = objects.get((api.namespace, name), {}).get("metadata", {}).get("ownerReferences") or [{}]
        return str(owner.get("uid", ""))

    await tenant.deployments.until(
        "there is one of its own", lambda objects: controller(objects) == created["metadata"]["uid"]
    )
    await api.delete(BINDING, "web")


async def test_binding_when_its_application_is_deleted_then_it_goes_unless_that_is_there_again_in_time(
    api: Api, tenant: Tenant, bindings: Mirror
) -> None:
    name = "web-shop-staging-cart"
    await create_application(api)
    await create_environment(api)
    await create_binding(api, "cart")
    await tell_components(api, "cart")
    await tenant.until_status("it is synced", name, sync__status="Synced", health__status="Healthy")
    deployment = tenant.deployments.objects[api.namespace, name]

    await api.delete(APPLICATION, "shop")
    await bindings.until("it says until when it stays", lambda _: reason(bindings, api) == "ApplicationNotFound")
    await create_application(api)
    await bindings.until("it stays", lambda _: reason(bindings, api) == "Reconciled")

    await api.delete(APPLICATION, "shop")
    await bindings.until("it says so again", lambda _: reason(bindings, api) == "ApplicationNotFound")
    assert (api.namespace, name) in tenant.deployments.objects
    await bindings.until("it is deleted", lambda objects: (api.namespace, "web") not in objects)
    await tenant.deployments.until("all go with it", lambda objects: (api.namespace, name) not in objects)
    await tenant.until_application_gone(deployment)


async def test_bindings_when_something_is_wrong_with_them_then_each_says_so_until_it_is_mended(
    api: Api, tenant: Tenant, bindings: Mirror
) -> None:
    first, second = "web-shop-staging-cart", "web-later-shop-staging-cart"

    async def until_reason(reason_: str, name: str = "web") -> None:
        await bindings.until(f"{name} says {reason_}", lambda _: reason(bindings, api, name) == reason_)

    await create_binding(api, "cart")
    await tell_components(api, "cart")
    await until_reason("EnvironmentNotFound")
    await create_environment(api)
    await tenant.until_status("it is synced", first, sync__status="Synced")

    await tell_components(api, "cart", "cart")
    await until_reason("DuplicateComponents")
    assert (api.namespace, first) in tenant.deployments.objects, "what was deployed before stays"
    await tell_components(api, "cart")
    await until_reason("Reconciled")

    await create_binding(api, "cart", name="web-later")
    await tell_components(api, "cart", binding="web-later")
    await until_reason("DuplicateBinding", "web-later")
    assert (api.namespace, second) not in tenant.deployments.objects
    await api.delete(BINDING, "web")
    await until_reason("Reconciled", "web-later")
    await tenant.until_status("it is synced", second, sync__status="Synced")
    await api.delete(BINDING, "web-later")
    await tenant.deployments.until("all are gone", lambda objects: (api.namespace, second) not in objects)


async def test_binding_when_every_name_is_as_long_as_may_be_then_it_is_deployed_all_the_same(
    api: Api, tenant: Tenant, bindings: Mirror
) -> None:
    component, application, environment = ("c" * MAX_LABEL, "a" * MAX_LABEL, "e" * MAX_LABEL)
    name = "b" * MAX_NAME
    await create_environment(api, environment)
    await create_binding(api, component, name=name, application=application, environment=environment)
    await tell_components(api, component, binding=name)
    deployment = deployment_name(name, application, environment, component)
    await tenant.until_status("it is synced", deployment, sync__status="Synced", health__status="Healthy")
    await bindings.until("it shows that", lambda _: reason(bindings, api, name) == "Reconciled")
    await api.delete(BINDING, name)
    await tenant.deployments.until("it goes, too", lambda objects: (api.namespace, deployment) not in objects)


SAID_BY_LABELS = {"application": "shop", "component": "cart", "environment": "staging", "owner": "team"}


def _is_cart(deployment: Manifest) -> bool:
    labels = deployment["metadata"]["labels"]
    return deployment["spec"]["type"] == "automated" and labels[f"{APPSTUDIO_LABELS}/component"] == "cart"


def _is_as_wanted(managed: Manifest) -> bool:
    spec = managed["spec"]
    return not spec.get("namespaces") and spec["allowInsecureSkipTLSVerify"] is False
