"""What ``kubectl get`` prints: the API server makes the table, and knows short names and categories."""

from __future__ import annotations

import asyncio
import re
import shlex
from pathlib import Path
from typing import Any

import orjson
import pytest

from services.common.kubernetes import ApiResource, KubeClient
from services.kinds.deployment_target.model import DEPLOYMENT_TARGET
from services.kinds.deployment_target_claim.model import DEPLOYMENT_TARGET_CLAIM
from services.kinds.environment.model import ENVIRONMENT
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from services.kinds.promotion_run.catalogue import COMPONENTS_OF_SNAPSHOT
from services.kinds.promotion_run.model import PROMOTION_RUN
from services.kinds.registry import REGISTRY
from services.kinds.repository_credential.model import REPOSITORY_CREDENTIAL
from services.kinds.shared.kind import DefinedKind, WaitExample
from services.kinds.snapshot.model import SNAPSHOT
from services.kinds.snapshot_environment_binding.model import BINDING
from services.kinds.sync_run.model import SYNC_RUN
from tests.component.api.cases import GOOD
from tests.component.k8s.conftest import kubectl

__all__ = ["kubectl"]

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
CONNECTED = {"type": "ConnectionInitializationSucceeded", "status": "True", "reason": "Succeeded", "message": "fine"}
VALID = {"type": "ValidRepositoryCredential", "status": "False", "reason": "InvalidCredentials", "message": "no"}

PRINTED: dict[ApiResource, tuple[dict[str, Any], dict[str, str]]] = {
    GITOPS_DEPLOYMENT: (
        {"sync": {"status": "Synced", "revision": "abc"}, "health": {"status": "Healthy"}},
        {"Sync Status": "Synced", "Health Status": "Healthy", "Revision": "abc"},
    ),
    MANAGED_ENVIRONMENT: (
        {"conditions": [CONNECTED]},
        {"Connected": "True", "Reason": "Succeeded", "Message": "fine", "API URL": "https://api.example.com:6443"},
    ),
    REPOSITORY_CREDENTIAL: (
        {"conditions": [VALID]},
        {"Valid": "False", "Reason": "InvalidCredentials", "Repository": "https://git.example.com/a.git"},
    ),
    SYNC_RUN: (
        {"operation": {"phase": "Failed", "message": "why"}},
        {"Deployment": "web", "Phase": "Failed", "Message": "why"},
    ),
    ENVIRONMENT: (
        {"conditions": [VALID | {"type": "ErrorOccurred", "status": "True"}]},
        {"Strategy": "Manual", "Error": "True", "Message": "no"},
    ),
    SNAPSHOT: ({}, {"Application": "shop"}),
    BINDING: (
        {
            "componentDeploymentConditions": [VALID | {"type": "AllComponentsDeployed", "message": "1 of 2"}],
            "bindingConditions": [VALID | {"type": "Reconciled", "reason": "DuplicateBinding"}],
        },
        {"Application": "shop", "Environment": "staging", "Deployed": "1 of 2", "Reason": "DuplicateBinding"},
    ),
    PROMOTION_RUN: (
        {
            "state": "Active",
            "environmentStatus": [
                {"step": 1, "environmentName": "development", "status": "Success"},
                {"step": 2, "environmentName": "eu", "status": "Failed", "displayStatus": "why"},
                {"step": 3, "environmentName": "us", "status": "Failed", "displayStatus": "why else"},
                {"step": 4, "environmentName": "staging", "status": "In Progress", "displayStatus": "waits"},
            ],
        },
        {"Snapshot": "one", "State": "Active", "Environment": "staging", "Message": "waits"}
        | {"Failed": "eu", "Failure": "why"},
    ),
    DEPLOYMENT_TARGET_CLAIM: ({"phase": "Bound"}, {"Class": "isolation-level-namespace", "Phase": "Bound"}),
    DEPLOYMENT_TARGET: ({"phase": "Available"}, {"Class": "own", "Phase": "Available", "Namespace": "shop"}),
}


async def table(kube: KubeClient, path: str) -> Any:
    async with kube._request("GET", path, accept=TABLE) as response:
        return orjson.loads(await response.read())


@pytest.mark.parametrize("resource", PRINTED, ids=lambda resource: resource.kind)
async def test_resource_when_printed_then_its_columns_are_filled_and_its_age_is_among_them(
    kube: KubeClient, namespace: str, resource: ApiResource
) -> None:
    status, shown = PRINTED[resource]
    meta = {"name": "web", "namespace": namespace}
    manifest = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta, "spec": GOOD[resource]}
    await kube.create_object(resource, manifest, field_manager="tests")
    await kube.patch_object(resource, namespace, "web", {"status": status}, field_manager="tests", subresource="status")
    printed = await table(kube, resource.path(namespace))
    (row,) = printed["rows"]
    cells = dict(zip((column["name"] for column in printed["columnDefinitions"]), row["cells"], strict=True))
    assert {heading: cells[heading] for heading in shown} == shown
    assert cells["Age"].endswith("s")


async def test_components_of_a_snapshot_when_listed_as_documented_then_all_of_them_are_printed(
    kube: KubeClient, namespace: str, kubectl: Path, kubeconfig: Path
) -> None:
    components = [{"name": each, "containerImage": f"registry.example.com/{each}"} for each in ("cart", "catalogue")]
    meta = {"name": "shop-1", "namespace": namespace}
    manifest = {"apiVersion": SNAPSHOT.api_version, "kind": SNAPSHOT.kind, "metadata": meta}
    spec = GOOD[SNAPSHOT] | {"components": components}
    await kube.create_object(SNAPSHOT, manifest | {"spec": spec}, field_manager="tests")
    _, *words = shlex.split(COMPONENTS_OF_SNAPSHOT.replace("NAME", meta["name"]))
    where = [f"--kubeconfig={kubeconfig}", f"--namespace={namespace}"]
    process = await asyncio.create_subprocess_exec(kubectl, *where, *words, stdout=asyncio.subprocess.PIPE)
    printed, _ = await process.communicate()
    assert printed.decode() == "cart catalogue"


async def test_kinds_when_discovered_then_each_has_a_short_name_and_all_are_of_one_category(kube: KubeClient) -> None:
    served: list[Any] = []
    for version in {kind.resource.api_version for kind in REGISTRY.defined}:
        async with kube._request("GET", f"/apis/{version}") as response:
            served += orjson.loads(await response.read())["resources"]
    plurals = {kind.plural for kind in REGISTRY.defined}  # of the same groups there are kinds of others, and of tests
    ours = [each for each in served if each["name"] in plurals]
    found = {each["kind"]: (each["shortNames"], each["namespaced"]) for each in ours}
    assert found == {kind.name: ([*kind.short_names], kind.scope == "Namespaced") for kind in REGISTRY.defined}
    listed = {each["kind"]: each.get("categories") for each in ours}
    assert listed == {kind.name: ["gitops"] if kind.scope == "Namespaced" else None for kind in REGISTRY.defined}


def status_that_is_waited_for(flag: str) -> dict[str, Any]:
    """With it the wait ends."""
    if (condition := re.fullmatch(r"condition=(\w+)", flag)) is not None:
        return {"conditions": [CONNECTED | {"type": condition[1]}]}
    *names, value = re.findall(r"\w+", flag.removeprefix("jsonpath='{.status"))
    status: Any = value
    for name in reversed(names):
        status = {name: status}
    return dict(status)


@pytest.mark.parametrize(("kind", "wait"), [(kind, wait) for kind in REGISTRY.defined for wait in kind.waits])
async def test_wait_when_typed_as_documented_then_it_lasts_until_the_status_is_so(
    kube: KubeClient, namespace: str, kind: DefinedKind, wait: WaitExample, kubectl: Path, kubeconfig: Path
) -> None:
    resource = kind.resource
    meta = {"name": "web", "namespace": namespace}
    manifest = {"apiVersion": resource.api_version, "kind": kind.name, "metadata": meta}
    await kube.create_object(resource, manifest | {"spec": GOOD[resource]}, field_manager="tests")
    (flag,) = shlex.split(wait.flag)
    words = [f"--kubeconfig={kubeconfig}", f"--namespace={namespace}", "wait", f"{kind.name}/web", f"--for={flag}"]

    async def waited(seconds: int) -> int:
        process = await asyncio.create_subprocess_exec(kubectl, *words, f"--timeout={seconds}s")
        return await process.wait()

    assert await waited(0) != 0
    status = status_that_is_waited_for(wait.flag)
    await kube.patch_object(resource, namespace, "web", {"status": status}, field_manager="tests", subresource="status")
    assert await waited(10) == 0
