"""GitOpsDeploymentManagedEnvironment from its Secret to what deployments make of it, through every real component."""

from __future__ import annotations

import json

import pytest

from devstack.harness.mirror import Mirror, mirrored
from services.common.kubernetes import SECRET, ApiResource, KubeClient, Manifest, Rejected
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from tests.e2e.api import Api, Cluster, decoded
from tests.e2e.tenant import Tenant, find

SERVICE_ACCOUNT = ApiResource("", "v1", "ServiceAccount", "serviceaccounts")
REMOTE = {"environment": "prod", "namespace": "web"}


@pytest.fixture
async def connected(api: Api, cluster: Cluster) -> Manifest:
    """An environment that works."""
    await api.secret("kubeconfig", "managed-environment", kubeconfig=cluster.kubeconfig())
    created = await api.environment(apiURL=cluster.url)
    await api.until_connection("Succeeded")
    return created


async def test_environment_when_its_credentials_work_then_argocd_gets_a_cluster_secret(
    api: Api, cluster: Cluster, connected: Manifest, engine_secrets: Mirror, tenant: Tenant
) -> None:
    application = await tenant.application_of(await tenant.create(destination=REMOTE))
    name = application["spec"]["destination"]["name"]
    await engine_secrets.until("its cluster secret", lambda objects: find(objects, name) is not None)
    secret = find(engine_secrets.objects, name)
    assert secret is not None
    data = decoded(secret)
    assert secret["metadata"]["labels"]["argocd.argoproj.io/secret-type"] == "cluster"
    assert data["name"] == name
    assert data["server"] == f"{cluster.url}?managedEnvironment={name.removeprefix('managed-env-')}"
    assert data["project"] == application["spec"]["project"]
    assert json.loads(data["config"])["bearerToken"] == cluster.token


async def test_deployment_when_synced_on_an_environment_then_its_status_names_the_environment(
    connected: Manifest, tenant: Tenant
) -> None:
    await tenant.create(destination=REMOTE)
    status = await tenant.until_status("Synced", sync__status="Synced")
    assert status["reconciledState"]["destination"] == {"name": "prod", "namespace": "web"}


async def test_deployment_when_made_before_its_environment_then_it_follows(
    api: Api, cluster: Cluster, tenant: Tenant
) -> None:
    created = await tenant.create(destination=REMOTE)
    error = await tenant.until_condition("ErrorOccurred", "True")
    assert error["message"].startswith("Unable to reconcile the ManagedEnvironment.")
    await api.environment(apiURL=cluster.url)
    assert "kubeconfig" in (await api.until_connection("SecretNotFound"))["message"]
    await api.secret("kubeconfig", "managed-environment", kubeconfig=cluster.kubeconfig())
    await api.until_connection("Succeeded")
    await tenant.application_of(created)
    await tenant.until_condition("ErrorOccurred", "False")


async def test_environment_when_its_secret_changes_then_that_takes_effect(
    api: Api, cluster: Cluster, connected: Manifest
) -> None:
    await api.change_secret("kubeconfig", kubeconfig=cluster.kubeconfig(token="wrong"))
    await api.until_connection("UnableToValidateClusterCredentials")
    await api.change_secret("kubeconfig", kubeconfig=cluster.kubeconfig())
    await api.until_connection("Succeeded")


async def test_environment_when_deleted_then_its_deployments_say_so_and_its_secret_goes(
    api: Api, connected: Manifest, engine_secrets: Mirror, tenant: Tenant
) -> None:
    application = await tenant.application_of(await tenant.create(destination=REMOTE))
    name = application["spec"]["destination"]["name"]
    await engine_secrets.until("its cluster secret", lambda objects: find(objects, name) is not None)
    await api.delete(MANAGED_ENVIRONMENT, "prod")
    error = await tenant.until_condition("ErrorOccurred", "True")
    assert error["message"].startswith("unable to reconcile the ManagedEnvironment resource.")
    # Not before its notice has ended: an Application that is to stay goes there.
    await engine_secrets.until("it is gone", lambda objects: find(objects, name) is None)
    await tenant.applications.until(
        "its Application has no cluster",
        lambda objects: (
            (live := find(objects, application["metadata"]["name"])) is not None
            and live["spec"]["destination"].get("name", "") == ""
        ),
    )


async def test_environment_when_it_wants_an_account_then_it_is_made_and_removed_with_it(
    api: Api, kube: KubeClient, cluster: Cluster
) -> None:
    await api.secret("kubeconfig", "managed-environment", kubeconfig=cluster.kubeconfig())
    created = await api.environment(apiURL=cluster.url, createNewServiceAccount=True)
    await api.until_connection("Succeeded")
    account = ("kube-system", f"argocd-manager-{created['metadata']['uid']}")
    async with mirrored(kube, SERVICE_ACCOUNT, "kube-system") as accounts:
        assert account in accounts.objects
        await api.delete(MANAGED_ENVIRONMENT, "prod")
        await accounts.until("the account is gone", lambda objects: account not in objects)


@pytest.mark.parametrize(
    "user",
    [
        {"exec": {"command": "/bin/sh", "apiVersion": "client.authentication.k8s.io/v1"}},
        {"auth-provider": {"name": "gcp"}},
        {"tokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token"},
        {"client-key": "/etc/passwd"},
    ],
    ids=["exec", "auth provider", "token file", "key file"],
)
async def test_kubeconfig_when_it_would_make_us_run_or_read_something_then_it_is_refused(
    api: Api, cluster: Cluster, user: dict[str, object]
) -> None:
    await api.secret("kubeconfig", "managed-environment", kubeconfig=cluster.kubeconfig(**user))
    await api.environment(apiURL=cluster.url)
    condition = await api.until_connection("UnableToParseKubeconfigData")
    assert next(iter(user)) in condition["message"]


@pytest.mark.parametrize(
    "url", ["https://169.254.169.254", "https://kubernetes.default.svc", "https://[::ffff:a9fe:a9fe]"]
)
async def test_environment_when_it_names_an_address_that_tenants_must_not_reach_then_it_is_refused(
    api: Api, cluster: Cluster, url: str
) -> None:
    await api.secret("kubeconfig", "managed-environment", kubeconfig=cluster.kubeconfig())
    await api.environment(apiURL=url)
    await api.until_connection("UnsupportedAPIURL")


async def test_environment_when_it_is_not_https_then_the_api_server_refuses_it(api: Api) -> None:
    with pytest.raises(Rejected, match="cluster api url must start with https://"):
        await api.environment(apiURL="http://cluster.example.com")


async def test_environment_when_its_secret_is_in_another_namespace_then_it_is_not_found(
    api: Api, other_api: Api, cluster: Cluster
) -> None:
    await other_api.secret("kubeconfig", "managed-environment", kubeconfig=cluster.kubeconfig())
    await api.environment(apiURL=cluster.url)
    await api.until_connection("SecretNotFound")


async def test_environment_when_its_secret_has_another_type_then_it_says_so(api: Api, cluster: Cluster) -> None:
    await api.secret("kubeconfig", "Opaque", kubeconfig=cluster.kubeconfig())
    await api.environment(apiURL=cluster.url)
    condition = await api.until_connection("InvalidSecretType")
    assert condition["message"] == "invalid secret type: Opaque"
    await api.delete(SECRET, "kubeconfig")
    await api.secret("kubeconfig", "managed-environment", kubeconfig=cluster.kubeconfig())
    await api.until_connection("Succeeded")
