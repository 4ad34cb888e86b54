"""Cluster Secrets against a real API server: the stack's own plays the tenant's cluster."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import uuid
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from devstack.harness.hosted import HostedStack
from devstack.stack.pki import Pki
from services.agent.credentials.check_result import CheckResult, ClusterUnavailable
from services.agent.credentials.credential_checker import CredentialChecker
from services.common.addresses import AddressPolicy
from services.common.clock import SystemClock
from services.common.kubernetes import NAMESPACE, ApiResource, KubeClient, Manifest, NotFound
from services.common.messages import EngineResource
from tests.component.rights import until_granted
from tests.unit.agent.credentials.given import Given, Keys, data_of
from tests.unit.agent.credentials.given import kubeconfig as kubeconfig_text

RBAC = "rbac.authorization.k8s.io"
SERVICE_ACCOUNT = ApiResource("", "v1", "ServiceAccount", "serviceaccounts")
ROLE = ApiResource(RBAC, "v1", "Role", "roles")
ROLE_BINDING = ApiResource(RBAC, "v1", "RoleBinding", "rolebindings")
CLUSTER_ROLE = ApiResource(RBAC, "v1", "ClusterRole", "clusterroles")
CLUSTER_ROLE_BINDING = ApiResource(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings")
EVERYTHING = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}


class Shifted(SystemClock):
    """The real time, and then some."""

    ahead = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead


@dataclass
class Cluster:
    """The API server as its administrator, as tenants, and as whoever bears a token."""

    kube: KubeClient
    url: str
    authority: bytes
    given: Given
    clock: Shifted = field(default_factory=Shifted)
    uid: str = field(default_factory=lambda: str(uuid.uuid4()))

    def checker(self) -> CredentialChecker:
        return CredentialChecker(self.given.keys.opening, self.given.policy, self.given.settings, self.clock)

    def row(self, token: str, **recipe: Any) -> EngineResource:
        values = {"kubeconfig": kubeconfig_text(self.url, authority=self.authority, token=token)}
        return self.given.cluster_row(self.url, values, **({"uid": self.uid, "createServiceAccount": True} | recipe))

    async def compose_secret(self, token: str, live: Manifest | None = None, **recipe: Any) -> CheckResult:
        return await self.checker().compose_secret(self.row(token, **recipe), live)

    async def tenant(self, *rules: Manifest, namespace: str = "") -> str:
        """A token of a new account with ``rules`` everywhere, or in one namespace."""
        name = f"tenant-{uuid.uuid4().hex[:8]}"
        role, binding = (ROLE, ROLE_BINDING) if namespace else (CLUSTER_ROLE, CLUSTER_ROLE_BINDING)
        meta = {"name": name} | ({"namespace": namespace} if namespace else {})
        await self._create(SERVICE_ACCOUNT, {"metadata": {"name": name, "namespace": "kube-system"}})
        await self._create(role, {"metadata": meta, "rules": list(rules)})
        subject = {"kind": "ServiceAccount", "name": name, "namespace": "kube-system"}
        reference = {"apiGroup": RBAC, "kind": role.kind, "name": name}
        await self._create(binding, {"metadata": meta, "subjects": [subject], "roleRef": reference})
        await until_granted(self.kube, f"system:serviceaccount:kube-system:{name}", rules, namespace)
        path = SERVICE_ACCOUNT.path("kube-system", name, "token")
        answer = await self.kube._call("POST", path, body={"spec": {}})
        return str(answer["status"]["token"])

    async def namespace(self) -> str:
        name = f"target-{uuid.uuid4().hex[:8]}"
        await self._create(NAMESPACE, {"metadata": {"name": name}})
        return name

    async def _create(self, resource: ApiResource, body: Manifest) -> None:
        manifest = {"apiVersion": resource.api_version, "kind": resource.kind} | body
        await self.kube.create_object(resource, manifest, field_manager="tests")

    async def may(self, token: str, verb: str, path: str, namespace: str = "") -> bool:
        """Whether ``token`` has a right; ``path`` is group/plural."""
        group, _, plural = path.rpartition("/")
        attributes = {"group": group, "resource": plural, "verb": verb, "namespace": namespace}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        answer = await self.call(token, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
        return bool(answer["status"]["allowed"])

    async def until_may(self, token: str, *right: str) -> None:
        """Wait until ``token`` has a right."""
        async with asyncio.timeout(20):
            while not await self.may(token, *right):  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    async def call(self, token: str, method: str, path: str, body: Any = None) -> Any:
        tls = ssl.create_default_context(cadata=self.authority.decode())
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, f"{self.url}{path}", json=body, headers=headers, ssl=tls) as response,
        ):
            return {"code": response.status} | await response.json()

    async def left(self) -> list[str]:
        """HostResolver of what there is for the environment."""
        found = []
        for resource in (SERVICE_ACCOUNT, ROLE, ROLE_BINDING, CLUSTER_ROLE, CLUSTER_ROLE_BINDING):
            async for page in self.kube.list_pages(
                resource, selector=f"managed-gitops.redhat.com/managed-environment={self.uid}"
            ):
                found += [
                    f"{item['metadata'].get('namespace', '')}/{item['metadata']['name']}".replace(f"-{self.uid}", "")
                    for item in page.items
                ]
        return sorted(found)


@pytest.fixture
def cluster(kube: KubeClient, kubeconfig: Path, tmp_path: Path) -> Cluster:
    entry = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]
    authority = base64.b64decode(entry["certificate-authority-data"])
    return Cluster(kube, entry["server"], authority, Given(Keys(tmp_path), AddressPolicy.parse("127.0.0.0/8")))


def token_of(composed: CheckResult) -> str:
    assert composed.secret is not None, (composed.reason, composed.message)
    return str(json.loads(data_of(composed.secret)["config"])["bearerToken"])


def by_certificate(cluster: Cluster, stack: HostedStack, **recipe: Any) -> EngineResource:
    """With the kubeconfig that kubeadm or kind give an administrator: a certificate, and no token."""
    pki = Pki(stack.state.root / "kubernetes")
    files = {"client-certificate-data": pki.admin_certificate, "client-key-data": pki.admin_key}
    identity = {name: base64.b64encode(path.read_bytes()).decode() for name, path in files.items()}
    text = kubeconfig_text(cluster.url, authority=cluster.authority, users=[{"name": "u", "user": identity}])
    values = {"kubeconfig": text}
    return cluster.given.cluster_row(cluster.url, values, **({"uid": cluster.uid} | recipe))


async def test_kubeconfig_when_it_has_a_certificate_then_an_account_is_made_and_removed_with_it(
    cluster: Cluster, stack: HostedStack
) -> None:
    mine, other = await cluster.namespace(), await cluster.namespace()
    row = by_certificate(cluster, stack, createServiceAccount=True, namespaces=[mine])
    composed = await cluster.checker().compose_secret(row, None)
    token = token_of(composed)
    assert (composed.reason, composed.message) == ("Succeeded", "")
    assert await cluster.may(token, "create", "apps/deployments", mine)
    assert not await cluster.may(token, "list", "configmaps", other)
    tls = json.loads(data_of(composed.secret or {})["config"])["tlsClientConfig"]
    assert tls.keys() == {"insecure", "caData"}
    again = await cluster.checker().compose_secret(row, composed.secret)
    assert token_of(again) == token
    await cluster.checker().remove_account(row, composed.secret)
    assert await cluster.left() == []


async def test_kubeconfig_when_it_has_a_certificate_and_no_account_is_wanted_then_refused(
    cluster: Cluster, stack: HostedStack
) -> None:
    composed = await cluster.checker().compose_secret(by_certificate(cluster, stack), None)
    assert (composed.secret, composed.reason) == (None, "UnableToParseKubeconfigData")
    assert "client-certificate is not supported" in composed.message


async def test_token_when_a_certificate_comes_with_it_then_it_is_the_token_that_is_tried(
    cluster: Cluster, stack: HostedStack
) -> None:
    """An API server looks at certificates first: any token would seem to work."""
    mine = await cluster.namespace()
    row = by_certificate(cluster, stack, createServiceAccount=True, namespaces=[mine])
    secret = (await cluster.checker().compose_secret(row, None)).secret
    assert secret is not None
    config = json.loads(data_of(secret)["config"]) | {"bearerToken": "wrong"}
    data = secret["data"] | {"config": base64.b64encode(json.dumps(config).encode()).decode()}
    again = await cluster.checker().compose_secret(row, secret | {"data": data})
    assert token_of(again) != "wrong"
    assert await cluster.may(token_of(again), "create", "apps/deployments", mine)


READ_NAMESPACES = {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list"]}


async def test_kubeconfig_when_its_token_may_list_namespaces_then_used_as_it_is(cluster: Cluster) -> None:
    token = await cluster.tenant(READ_NAMESPACES)
    composed = await cluster.compose_secret(token, createServiceAccount=False)
    assert (composed.reason, token_of(composed)) == ("Succeeded", token)
    assert await cluster.left() == []


async def test_kubeconfig_when_its_token_may_only_read_one_namespace_then_good_for_that_one(cluster: Cluster) -> None:
    mine, other = await cluster.namespace(), await cluster.namespace()
    token = await cluster.tenant(READ_NAMESPACES, namespace=mine)
    outcomes = [
        (await cluster.compose_secret(token, createServiceAccount=False, namespaces=namespaces)).reason
        for namespaces in ([mine], [other], [])
    ]
    assert outcomes == ["Succeeded"] + 2 * ["UnableToValidateClusterCredentials"]


async def test_kubeconfig_when_its_token_is_wrong_then_not_validated(cluster: Cluster) -> None:
    composed = await cluster.compose_secret("wrong", createServiceAccount=False)
    assert composed.reason == "UnableToValidateClusterCredentials"
    assert composed.message.startswith("Unable to validate the credentials provided")


async def test_account_when_namespaces_are_given_then_it_may_do_everything_there_and_nothing_elsewhere(
    cluster: Cluster,
) -> None:
    mine, other = await cluster.namespace(), await cluster.namespace()
    token = token_of(await cluster.compose_secret(await cluster.tenant(EVERYTHING), namespaces=[mine]))
    assert await cluster.may(token, "delete", "apps/deployments", mine)
    assert await cluster.may(token, "create", f"{RBAC}/roles", mine)
    refused = [("get", "configmaps", other), ("list", "namespaces", ""), ("create", f"{RBAC}/clusterroles", "")]
    assert [await cluster.may(token, *right) for right in refused] == [False] * 3
    assert await cluster.left() == sorted(
        [
            "kube-system/argocd-manager",
            f"{mine}/argocd-manager-role",
            f"{mine}/argocd-manager-role-binding",
        ]
    )


async def test_account_when_the_whole_cluster_is_meant_then_it_reads_all_and_writes_no_cluster_resources(
    cluster: Cluster,
) -> None:
    mine = await cluster.namespace()
    token = token_of(await cluster.compose_secret(await cluster.tenant(EVERYTHING)))
    allowed = [
        ("list", "apps/deployments", ""),
        ("watch", f"{RBAC}/clusterroles", ""),
        ("create", "apps/deployments", mine),
        ("delete", "configmaps", mine),
        ("create", "argoproj.io/applications", mine),
        ("create", "namespaces", ""),
    ]
    refused = [
        ("create", f"{RBAC}/clusterroles", ""),
        ("patch", f"{RBAC}/clusterrolebindings", ""),
        ("create", "apiextensions.k8s.io/customresourcedefinitions", ""),
        ("patch", "nodes", ""),
        ("delete", "namespaces", ""),
        ("create", "admissionregistration.k8s.io/validatingwebhookconfigurations", ""),
        ("impersonate", "users", ""),
    ]
    assert [right for right in allowed if not await cluster.may(token, *right)] == []
    assert [right for right in refused if await cluster.may(token, *right)] == []


async def test_account_when_cluster_resources_are_asked_for_then_it_may_write_them(cluster: Cluster) -> None:
    composed = await cluster.compose_secret(await cluster.tenant(EVERYTHING), clusterResources=True)
    assert await cluster.may(token_of(composed), "create", f"{RBAC}/clusterroles")


async def test_account_when_namespaces_change_then_rights_follow(cluster: Cluster) -> None:
    tenant = await cluster.tenant(EVERYTHING)
    first, second = await cluster.namespace(), await cluster.namespace()
    composed = await cluster.compose_secret(tenant, namespaces=[first, second])
    await cluster.until_may(token_of(composed), "get", "configmaps", second)  # composing waits for the first only
    composed = await cluster.compose_secret(tenant, composed.secret, namespaces=[first])
    assert f"{second}/argocd-manager-role" not in await cluster.left()
    composed = await cluster.compose_secret(tenant, composed.secret)
    assert f"{first}/argocd-manager-role" not in await cluster.left()
    assert "/argocd-manager-cluster-role" in await cluster.left()
    await cluster.compose_secret(tenant, composed.secret, namespaces=[first])
    assert await cluster.left() == sorted(
        ["kube-system/argocd-manager", f"{first}/argocd-manager-role", f"{first}/argocd-manager-role-binding"]
    )


async def test_token_when_half_its_life_is_over_then_renewed_and_the_old_one_still_works(cluster: Cluster) -> None:
    tenant = await cluster.tenant(EVERYTHING)
    first = await cluster.compose_secret(tenant)
    assert first.renew_at is not None
    assert timedelta(hours=11) < first.renew_at - cluster.clock.now() <= timedelta(hours=12)
    again = await cluster.compose_secret(tenant, first.secret)
    assert again == first
    cluster.clock.ahead = timedelta(hours=12, minutes=1)
    renewed = await cluster.compose_secret(tenant, again.secret)
    assert token_of(renewed) != token_of(first)
    assert await cluster.may(token_of(first), "list", "configmaps")


async def test_token_when_its_account_was_deleted_then_renewed_at_once(cluster: Cluster) -> None:
    tenant = await cluster.tenant(EVERYTHING)
    first = await cluster.compose_secret(tenant)
    await cluster.kube.delete_object(SERVICE_ACCOUNT, "kube-system", f"argocd-manager-{cluster.uid}")
    renewed = await cluster.compose_secret(tenant, first.secret)
    assert token_of(renewed) != token_of(first)


async def test_environment_when_it_wants_no_account_any_more_then_removed_after_argo_cd_has_the_other_token(
    cluster: Cluster,
) -> None:
    tenant = await cluster.tenant(EVERYTHING)
    made = await cluster.compose_secret(tenant)
    between = await cluster.compose_secret(tenant, made.secret, createServiceAccount=False)
    assert token_of(between) == tenant
    assert between.renew_at is not None
    assert await cluster.may(token_of(made), "list", "configmaps")
    after = await cluster.compose_secret(tenant, between.secret, createServiceAccount=False)
    assert (token_of(after), after.renew_at) == (tenant, None)
    assert await cluster.left() == []


ACCOUNTS = {"apiGroups": [""], "resources": ["serviceaccounts", "serviceaccounts/token"], "verbs": ["*"]}
ROLES = {"apiGroups": [RBAC], "resources": ["roles", "rolebindings"], "verbs": ["get", "create", "patch", "delete"]}

MISSING = {
    "nothing": ((), "get serviceaccounts in namespace kube-system"),
    "no-roles": ((ACCOUNTS,), "create and patch roles.rbac.authorization.k8s.io in namespace"),
    "not-the-rights-themselves": ((ACCOUNTS, ROLES), "does not itself have the rights it would give"),
}


@pytest.mark.parametrize(("rules", "text"), MISSING.values(), ids=MISSING)
async def test_identity_when_it_lacks_a_right_then_the_right_is_named(
    cluster: Cluster, rules: tuple[Manifest, ...], text: str
) -> None:
    namespace = await cluster.namespace()
    composed = await cluster.compose_secret(await cluster.tenant(*rules), namespaces=[namespace])
    assert composed.secret is None
    assert composed.reason == "UnableToInstallServiceAccount"
    assert composed.message.startswith("unable to install service account from secret 'kube': ")
    assert text in composed.message


async def test_environment_when_disposed_then_nothing_is_left_and_its_token_is_dead(cluster: Cluster) -> None:
    tenant = await cluster.tenant(EVERYTHING)
    namespaces = [await cluster.namespace(), await cluster.namespace()]
    composed = await cluster.compose_secret(tenant, namespaces=namespaces)
    await cluster.checker().remove_account(cluster.row(tenant, namespaces=namespaces), composed.secret)
    assert await cluster.left() == []
    with pytest.raises(NotFound):
        await cluster.kube.get_object(SERVICE_ACCOUNT, "kube-system", f"argocd-manager-{cluster.uid}")
    deadline = asyncio.get_running_loop().time() + 20  # authorizer and authenticator remember for some seconds
    path = f"/api/v1/namespaces/{namespaces[0]}"
    while (await cluster.call(token_of(composed), "GET", path))["code"] != HTTPStatus.UNAUTHORIZED:
        assert asyncio.get_running_loop().time() < deadline


async def test_environment_when_disposed_by_an_identity_without_rights_then_given_up(cluster: Cluster) -> None:
    await cluster.checker().remove_account(cluster.row("wrong"), None)


async def test_environment_when_its_cluster_is_silent_then_that_is_said(cluster: Cluster) -> None:
    silent = replace(cluster, url="https://127.0.0.1:1")
    with pytest.raises(ClusterUnavailable):
        await silent.checker().remove_account(silent.row("token"), None)


async def test_api_url_when_it_is_only_spelled_otherwise_then_the_account_is_there_and_its_new_token_works(
    cluster: Cluster,
) -> None:
    tenant = await cluster.tenant(EVERYTHING)
    first = await cluster.compose_secret(tenant)
    url = f"{cluster.url}/"
    second = await cluster.compose_secret(tenant, first.secret, apiURL=url, server=f"{url}?managedEnvironment=e1")
    assert token_of(second) != token_of(first)
    assert await cluster.may(token_of(second), "create", "namespaces")
    assert "kube-system/argocd-manager" in await cluster.left()


WITHDRAWN: dict[str, tuple[dict[str, Any], set[str]]] = {
    "cluster-resources": ({"clusterResources": True}, {"/argocd-manager-cluster-role"}),
    "whole-cluster": ({}, {"/argocd-manager-cluster-role", "/argocd-manager-cluster-role-binding"}),
    "namespaces": ({"namespaces": ["default"]}, {"kube-system/argocd-manager", "default/argocd-manager-role"}),
}
"""What may be left where an account removes itself: an account, or rights, but never an account with rights."""


@pytest.mark.parametrize(("recipe", "left"), WITHDRAWN.values(), ids=WITHDRAWN)
async def test_account_when_only_its_own_token_is_left_to_remove_it_then_nobody_has_its_rights_any_more(
    cluster: Cluster, recipe: dict[str, Any], left: set[str]
) -> None:
    made = await cluster.compose_secret(await cluster.tenant(EVERYTHING), **recipe)
    url = "https://127.0.0.1:1"
    turned_away = {"apiURL": url, "server": f"{url}?managedEnvironment=e1", "createServiceAccount": False}
    await cluster.checker().remove_account(cluster.row("token", **turned_away), made.secret)
    assert set(await cluster.left()) <= left


async def test_environment_when_disposed_and_its_token_is_not_good_any_more_then_its_account_goes_by_its_own(
    cluster: Cluster,
) -> None:
    made = await cluster.compose_secret(await cluster.tenant(EVERYTHING))
    await cluster.checker().remove_account(cluster.row("expired"), made.secret)
    assert set(await cluster.left()) <= WITHDRAWN["whole-cluster"][1]
