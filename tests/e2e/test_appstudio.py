"""The AppStudio kinds through every real component: what a user writes, and what comes of it in their namespace."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from devstack.harness.mirror import Mirror, mirrored
from services.common.kubernetes import KubeClient, Manifest
from services.kinds.environment.model import ENVIRONMENT
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from tests.e2e.api import Api, Cluster
from tests.e2e.tenant import USER, Tenant, condition

MANAGED = "managed-environment-staging"


@pytest.fixture
async def environments(kube: KubeClient, tenant: Tenant) -> AsyncIterator[Mirror]:
    """Every Environment of the tenant, live."""
    async with mirrored(kube, ENVIRONMENT, tenant.namespace) as mirror:
        yield mirror


async def create_environment(api: Api, name: str = "staging", **credentials: Any) -> Manifest:
    spec: dict[str, Any] = {"displayName": name, "deploymentStrategy": "Manual"}
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


def _is_as_wanted(managed: Manifest) -> bool:
    spec = managed["spec"]
    return not spec.get("namespaces") and spec["allowInsecureSkipTLSVerify"] is False
