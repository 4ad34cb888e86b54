"""With a service's own credentials, what it must not do is refused by the real API server."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

import pytest

from devstack.components.stack import ENGINE_NAMESPACES
from devstack.harness.hosted import HostedStack
from devstack.stack.identities import ACCOUNTS_NAMESPACE
from services.common.kubernetes import (
    APP_PROJECT,
    APPLICATION,
    CONFIG_MAP,
    NAMESPACE,
    SECRET,
    ApiResource,
    KubeClient,
    Manifest,
    NotFound,
    Rejected,
    connect,
)
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.shared.api_group import FINALIZER
from services.watcher.rows.status_writer import release_finalizer, replace_status

POD = ApiResource("", "v1", "Pod", "pods")
ROLE_BINDING = ApiResource("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
CLUSTER_ROLE = ApiResource("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles")
ACCOUNT = ApiResource("", "v1", "ServiceAccount", "serviceaccounts")
BY_KIND = {
    item.kind: item
    for item in (GITOPS_DEPLOYMENT, APPLICATION, APP_PROJECT, SECRET, CONFIG_MAP, POD, ROLE_BINDING, CLUSTER_ROLE)
} | {"Namespace": NAMESPACE, "ServiceAccount": ACCOUNT}

EVERYWHERE, TENANT, ARGOCD, OURS = "", "tenant", ENGINE_NAMESPACES[0], ACCOUNTS_NAMESPACE


@dataclass(frozen=True)
class Case:
    """One call and whether it is permitted."""

    account: str
    verb: str
    kind: str
    namespace: str
    allowed: bool = False
    subresource: str | None = None


CASES = (
    Case("watcher", "list", "GitOpsDeployment", EVERYWHERE, allowed=True),
    Case("watcher", "get", "GitOpsDeployment", TENANT, allowed=True),
    Case("watcher", "patch", "GitOpsDeployment", TENANT, allowed=True),
    Case("watcher", "patch", "GitOpsDeployment", TENANT, allowed=True, subresource="status"),
    # Child objects: the policy lets it make, change and delete no others (component/watcher/test_confinement.py).
    Case("watcher", "create", "GitOpsDeployment", TENANT, allowed=True),
    Case("watcher", "delete", "GitOpsDeployment", TENANT, allowed=True),
    Case("watcher", "patch", "Secret", TENANT, allowed=True),
    Case("watcher", "create", "Secret", TENANT, allowed=True),
    Case("watcher", "delete", "Secret", TENANT, allowed=True),
    Case("watcher", "list", "Secret", EVERYWHERE, allowed=True),
    Case("watcher", "get", "Secret", TENANT, allowed=True),
    Case("watcher", "list", "Application", ARGOCD),
    Case("watcher", "list", "ConfigMap", TENANT),
    Case("watcher", "list", "Namespace", EVERYWHERE),
    Case("watcher", "create", "Pod", TENANT),
    Case("watcher", "create", "RoleBinding", TENANT),
    Case("watcher", "patch", "ClusterRole", EVERYWHERE),
    Case("watcher", "create", "ServiceAccount", OURS, subresource="token"),
    Case("agent", "list", "Application", ARGOCD, allowed=True),
    Case("agent", "create", "Application", ARGOCD, allowed=True),
    Case("agent", "patch", "AppProject", ARGOCD, allowed=True),
    Case("agent", "delete", "AppProject", ARGOCD, allowed=True),
    Case("agent", "list", "Secret", ARGOCD, allowed=True),
    Case("agent", "create", "Secret", ARGOCD, allowed=True),
    Case("agent", "list", "Secret", TENANT),
    Case("agent", "get", "Secret", TENANT),
    Case("agent", "list", "Secret", EVERYWHERE),
    Case("agent", "list", "Application", EVERYWHERE),
    Case("agent", "create", "Application", TENANT),
    Case("agent", "list", "GitOpsDeployment", TENANT),
    Case("agent", "patch", "GitOpsDeployment", TENANT, subresource="status"),
    Case("agent", "list", "ConfigMap", ARGOCD),
    Case("agent", "get", "ConfigMap", ARGOCD),  # of any other name than argocd-cm
    Case("agent", "create", "RoleBinding", ARGOCD),
    Case("agent", "list", "Pod", ARGOCD, allowed=True),
    Case("agent", "create", "Pod", ARGOCD),
    Case("agent", "create", "ServiceAccount", OURS, subresource="token"),
    Case("argocd-simulator", "list", "Application", ARGOCD, allowed=True),
    Case("argocd-simulator", "create", "Application", ARGOCD),
    Case("argocd-simulator", "list", "Secret", ARGOCD),
)


@pytest.fixture
async def tenant(infrastructure: HostedStack) -> AsyncIterator[str]:
    """A namespace of a tenant's."""
    async with await connect(Path(infrastructure.environment["KUBECONFIG"])) as admin:
        name = f"tenant-{uuid.uuid4().hex[:8]}"
        await admin.create_object(NAMESPACE, {"metadata": {"name": name}}, field_manager="tests")
        yield name
        await admin.delete_object(NAMESPACE, None, name)


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(filter(None, vars(case).values() and (
    case.account, case.verb, case.kind, case.subresource, case.namespace or "everywhere"))))  # fmt: skip
async def test_api_server_when_a_service_calls_then_only_what_its_role_says_is_permitted(
    infrastructure: HostedStack, tenant: str, case: Case
) -> None:
    kubeconfig = Path(infrastructure.environment_of(case.account)["KUBECONFIG"])
    async with await connect(kubeconfig) as kube:
        assert await permitted(kube, case, tenant if case.namespace == TENANT else case.namespace) == case.allowed


FOREIGN = "example.com/keeps-it"
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "any", "uid": "0f6d7f8e-0000-4000-8000-000000000000"}
BEYOND: dict[str, tuple[Manifest, str]] = {
    "spec": ({"spec": {"type": "manual"}}, "does not change a spec"),
    "label": ({"metadata": {"labels": {"a": "b"}}}, "does not change labels"),
    "annotation": ({"metadata": {"annotations": {"a": "b"}}}, "does not change labels, annotations"),
    "owner": ({"metadata": {"ownerReferences": [OWNER]}}, "annotations or owners"),
    "finalizer-added": ({"metadata": {"finalizers": [FINALIZER, FOREIGN, "example.com/more"]}}, "takes off no"),
    "finalizer-of-another": ({"metadata": {"finalizers": [FINALIZER]}}, "takes off no"),
    "finalizer-of-what-lives": ({"metadata": {"finalizers": [FOREIGN]}}, "of what is being deleted"),
}
"""What a watcher's role would let it patch, and what the refusal says."""


@pytest.fixture
async def watcher(infrastructure: HostedStack) -> AsyncIterator[KubeClient]:
    async with await connect(Path(infrastructure.environment_of("watcher")["KUBECONFIG"])) as kube:
        yield kube


@pytest.fixture
async def deployment(infrastructure: HostedStack, tenant: str, watcher: KubeClient) -> AsyncIterator[Manifest]:
    """A tenant's, with two finalizers; the policy that confines the watcher is in force."""
    manifest = {
        "apiVersion": GITOPS_DEPLOYMENT.api_version,
        "kind": GITOPS_DEPLOYMENT.kind,
        "metadata": {"name": "web", "namespace": tenant, "finalizers": [FINALIZER, FOREIGN]},
        "spec": {"type": "automated", "source": {"repoURL": "https://github.com/example/config.git", "path": "."}},
    }
    async with await connect(Path(infrastructure.environment["KUBECONFIG"])) as admin:
        made = await admin.create_object(GITOPS_DEPLOYMENT, manifest, field_manager="tests")
        async with asyncio.timeout(30):  # an API server learns of a policy some time after it is applied
            while not await refusal(watcher, tenant, {"metadata": {"labels": {"try": uuid.uuid4().hex}}}):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        yield made
        await admin.patch_object(
            GITOPS_DEPLOYMENT, tenant, "web", {"metadata": {"finalizers": None}}, field_manager="tests"
        )


async def refusal(kube: KubeClient, namespace: str, patch: Manifest | list[Manifest]) -> str:
    """Why the deployment may not be patched so; "" if it may."""
    try:
        await kube.patch_object(GITOPS_DEPLOYMENT, namespace, "web", patch, field_manager="tests")
    except Rejected as error:
        if not error.is_forbidden:
            raise
        return str(error)
    return ""


@pytest.mark.parametrize("beyond", BEYOND)
async def test_watcher_when_it_patches_more_than_its_work_then_the_policy_refuses_by_name(
    watcher: KubeClient, deployment: Manifest, beyond: str
) -> None:
    patch, reason = BEYOND[beyond]
    said = await refusal(watcher, deployment["metadata"]["namespace"], patch)
    assert "ValidatingAdmissionPolicy 'gitops-service-watcher'" in said
    assert reason in said


async def test_watcher_when_it_does_its_work_then_the_policy_lets_it(
    infrastructure: HostedStack, watcher: KubeClient, deployment: Manifest
) -> None:
    namespace, uid = deployment["metadata"]["namespace"], deployment["metadata"]["uid"]
    status = replace_status(uid, '{"health": {"status": "Healthy"}}')
    shown = await watcher.patch_object(
        GITOPS_DEPLOYMENT, namespace, "web", status, field_manager="tests", subresource="status"
    )
    assert shown["status"]["health"]["status"] == "Healthy"
    async with await connect(Path(infrastructure.environment["KUBECONFIG"])) as admin:
        assert await refusal(admin, namespace, {"spec": {"type": "manual"}}) == ""  # others it does not concern
        await admin.delete_object(GITOPS_DEPLOYMENT, namespace, "web")
    leaving = await watcher.get_object(GITOPS_DEPLOYMENT, namespace, "web")
    assert await refusal(watcher, namespace, release_finalizer(leaving)) == ""
    assert (await watcher.get_object(GITOPS_DEPLOYMENT, namespace, "web"))["metadata"]["finalizers"] == [FOREIGN]
    assert "takes off no" in await refusal(watcher, namespace, {"metadata": {"finalizers": None}})


async def permitted(kube: KubeClient, case: Case, namespace: str) -> bool:
    """Whether authorisation let the call pass, whatever became of it then: objects are missing, manifests are bad."""
    resource, name = BY_KIND[case.kind], "no-such"
    manifest: Manifest = {"metadata": {"name": name, **({"namespace": namespace} if namespace else {})}}
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "get": lambda: kube.get_object(resource, namespace, name),
        "list": lambda: _first_page(kube, resource, namespace),
        "create": lambda: _create(kube, resource, manifest, case.subresource),
        "patch": lambda: kube.patch_object(
            resource, namespace or None, name, {"status": {}}, field_manager="tests", subresource=case.subresource
        ),
        "delete": lambda: kube.delete_object(resource, namespace, name),
    }
    try:
        await calls[case.verb]()
    except NotFound:
        return True
    except Rejected as error:
        if error.status not in {400, 403, 422}:
            raise
        return error.status != 403
    return True


async def _first_page(kube: KubeClient, resource: ApiResource, namespace: str) -> None:
    async with aclosing(kube.list_pages(resource, namespace or None, limit=1)) as pages:
        await anext(pages)


async def _create(kube: KubeClient, resource: ApiResource, manifest: Manifest, subresource: str | None) -> None:
    """Refused for its content if it was not for its author: nothing stays."""
    path = resource.path(manifest["metadata"]["namespace"], manifest["metadata"]["name"] if subresource else None)
    target = ApiResource(resource.group, resource.version, resource.kind, resource.plural)
    manifest = manifest | {"apiVersion": target.api_version, "kind": "Wrong"}
    await kube._call("POST", f"{path}/{subresource}" if subresource else path, {}, manifest)


def test_environment_when_a_service_has_no_business_there_then_it_has_no_address_either(
    infrastructure: HostedStack,
) -> None:
    given = {name: infrastructure.environment_of(name) for name in ("watcher", "planner", "agent", "argocd-simulator")}
    assert {name for name, values in given.items() if any("DATABASE" in key for key in values)} == {"planner"}
    assert {name for name, values in given.items() if "KUBECONFIG" not in values} == {"planner"}
    assert {name for name, values in given.items() if "SEALING_PRIVATE_KEYS" in values} == {"agent"}
    assert len({values["KUBECONFIG"] for values in given.values() if "KUBECONFIG" in values}) == 3
    assert infrastructure.environment["KUBECONFIG"] not in [values.get("KUBECONFIG") for values in given.values()]
