"""Hostile tenants: what they try reaches nobody else, and they are told what is wrong."""

from __future__ import annotations

import asyncio

import pytest

from devstack.harness.mirror import Mirror
from services.common.kubernetes import KubeClient, Rejected
from tests.e2e.api import Api, Cluster
from tests.e2e.conftest import QUOTA
from tests.e2e.tenant import Tenant, application_name, condition, find

CROWD = QUOTA + 60
WRITERS = 8


async def test_tenants_when_all_their_names_are_equal_then_they_share_nothing(
    api: Api, other_api: Api, tenant: Tenant, other_tenant: Tenant, cluster: Cluster, projects: Mirror
) -> None:
    applications = []
    for one, deploying in ((api, tenant), (other_api, other_tenant)):
        await one.secret("kubeconfig", "managed-environment", kubeconfig=cluster.kubeconfig())
        await one.environment(apiURL=cluster.url)
        created = await deploying.create(destination={"environment": "prod", "namespace": "web"})
        applications.append(await deploying.application_of(created))
    first, second = (item["spec"] for item in applications)
    assert first["project"] != second["project"]
    assert first["destination"]["name"] != second["destination"]["name"]
    mine = find(projects.objects, first["project"])
    assert mine is not None
    clusters = {entry["name"] for entry in mine["spec"]["destinations"]}
    assert clusters == {"in-cluster", first["destination"]["name"]}


async def test_deployment_when_it_names_an_environment_of_another_tenant_then_there_is_none(
    api: Api, other_tenant: Tenant, cluster: Cluster
) -> None:
    await api.secret("kubeconfig", "managed-environment", kubeconfig=cluster.kubeconfig())
    await api.environment(apiURL=cluster.url)
    await api.until_connection("Succeeded")
    await other_tenant.create(destination={"environment": "prod", "namespace": "web"})
    error = await other_tenant.until_condition("ErrorOccurred", "True")
    assert error["message"].startswith("Unable to reconcile the ManagedEnvironment.")


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ({"path": "../../other/secrets"}, "path"),
        ({"path": "/etc"}, "path"),
        ({"repoURL": "file:///etc"}, "repoURL"),
        ({"repoURL": "ext::sh"}, "repoURL"),
        ({"repoURL": "--upload-pack=/bin/sh"}, "repoURL"),
        ({"repoURL": "https://169.254.169.254/latest.git"}, "repoURL"),
        ({"repoURL": "https://2130706433/a.git"}, "repoURL"),
        ({"repoURL": "https://git.example.com/*"}, "repoURL"),
    ],
    ids=lambda value: next(iter(value.values())) if isinstance(value, dict) else "",
)
async def test_source_when_it_is_a_trick_then_there_is_no_application_and_the_user_is_told(
    tenant: Tenant, source: dict[str, str], word: str
) -> None:
    created = await tenant.create(source=source)
    error = await tenant.until_condition("ErrorOccurred", "True")
    assert word in error["message"]
    assert find(tenant.applications.objects, application_name(created)) is None


async def test_kubeconfig_when_it_is_a_yaml_bomb_then_it_is_refused_and_nobody_notices(
    api: Api, cluster: Cluster, other_tenant: Tenant
) -> None:
    levels = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    bomb = "\n".join(["a0: &a0 lol", *levels])
    await api.secret("kubeconfig", "managed-environment", kubeconfig=bomb)
    await api.environment(apiURL=cluster.url)
    await api.until_connection("UnableToParseKubeconfigData")
    await other_tenant.application_of(await other_tenant.create())


async def test_finalizers_when_a_user_puts_on_others_then_only_that_cr_waits(tenant: Tenant, kube: KubeClient) -> None:
    created = await tenant.create("stuck", finalizers=("example.com/never-removed",))
    await tenant.application_of(created)
    await tenant.delete("stuck")
    await tenant.until_application_gone(created)
    await tenant.application_of(await tenant.create("other"))
    await tenant.patch("stuck", {"metadata": {"finalizers": None}})


async def test_name_when_it_cannot_be_one_then_the_api_server_refuses_it(api: Api) -> None:
    for name in ("../../kube-system", "UPPER", "a" * 254, "\uff41dmin"):
        with pytest.raises(Rejected):
            await api.environment(name, apiURL="https://cluster.example.com")


async def test_tenant_when_it_makes_more_than_it_may_then_it_is_told_and_others_do_not_notice(
    tenant: Tenant, other_tenant: Tenant
) -> None:
    """Beyond the quota there is a condition and no Application; what goes makes room for the oldest."""
    pending = iter(range(CROWD))

    async def write() -> None:
        for number in pending:
            await tenant.create(f"app-{number:05d}")

    crowd = asyncio.gather(*(write() for _ in range(WRITERS)))
    await other_tenant.application_of(await other_tenant.create())
    await crowd
    await tenant.deployments.until(
        "the newest are told that there is no room",
        lambda objects: _refused(tenant, objects) == CROWD - QUOTA,
        timeout_seconds=120,
    )
    await other_tenant.until_status("Synced", sync__status="Synced")
    admitted = next(name for name in _names(tenant) if not _is_refused(tenant, name))
    await tenant.delete(admitted)
    await tenant.deployments.until("one more has room", lambda objects: _refused(tenant, objects) == CROWD - QUOTA - 1)


def _names(tenant: Tenant) -> list[str]:
    return [name for namespace, name in tenant.deployments.objects if namespace == tenant.namespace]


def _refused(tenant: Tenant, _: object) -> int:
    return sum(_is_refused(tenant, name) for name in _names(tenant))


def _is_refused(tenant: Tenant, name: str) -> bool:
    error = condition(tenant.status(name), "ErrorOccurred")
    return error.get("status") == "True" and error["message"].startswith("quota exceeded: ")
