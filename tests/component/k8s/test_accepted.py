"""The real API server accepts every manifest to the letter, and every pod under the strictest of its standards."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from services.common.kubernetes import NAMESPACE, ApiResource, Manifest
from tests.component.k8s.manifests import Rendered, of_kind, workloads
from tests.component.plain_http import plain_client

POD = ApiResource("", "v1", "Pod", "pods")
STRICT = {"fieldValidation": "Strict", "fieldManager": "tests"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}


@pytest.fixture(scope="module")
def api(kubeconfig: Path) -> Iterator[httpx2.Client]:
    with plain_client(kubeconfig) as client:
        yield client


def resource_of(api: httpx2.Client, manifest: Manifest) -> ApiResource:
    """Where the API server has objects of this kind."""
    group, _, version = manifest["apiVersion"].rpartition("/")
    listing = api.get(f"/apis/{group}/{version}" if group else f"/api/{version}").json()["resources"]
    (plural,) = [item["name"] for item in listing if item["kind"] == manifest["kind"] and "/" not in item["name"]]
    return ApiResource(group, version, manifest["kind"], plural)


def verdict(answer: httpx2.Response) -> str:
    """Why the API server refuses something, or warns of it; "" if it does neither."""
    return answer.headers.get("Warning", "") if answer.is_success else answer.json()["message"]


def apply(api: httpx2.Client, manifest: Manifest, **query: str) -> str:
    """Server-side apply; the verdict."""
    meta = manifest["metadata"]
    path = resource_of(api, manifest).path(meta.get("namespace"), meta["name"])
    return verdict(api.patch(path, params=STRICT | {"force": "true"} | query, headers=APPLY, json=manifest))


def test_manifests_when_applied_as_a_dry_run_then_every_one_is_accepted(api: httpx2.Client, rendered: Rendered) -> None:
    refused = {
        f"{item['kind']} {item['metadata']['name']}": reason
        for item in rendered.everything
        if (reason := apply(api, item, dryRun="All"))
    }
    assert refused == {}


def test_manifest_when_a_field_is_misspelt_then_the_dry_run_tells(api: httpx2.Client, rendered: Rendered) -> None:
    deployment = of_kind("Deployment", rendered.example)["planner"]
    misspelt = deployment | {"spec": deployment["spec"] | {"replica": 2}}
    assert "replica" in apply(api, misspelt, dryRun="All")


@pytest.fixture(scope="module")
def restricted(api: httpx2.Client, rendered: Rendered) -> str:
    """A namespace with the labels of ours, and the priority that our pods name."""
    assert apply(api, of_kind("PriorityClass", rendered.base)["gitops-service"]) == ""
    labels = of_kind("Namespace", rendered.base)["gitops-service"]["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    name = f"test-{uuid.uuid4().hex[:12]}"
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    assert verdict(api.post(NAMESPACE.path(), json=manifest)) == ""
    return name


@pytest.mark.parametrize(
    "name", ["watcher", "planner", "agent", "connector-keeper", "database-upgrade", "key-rotation", "backup"]
)
def test_pod_when_the_namespace_admits_restricted_ones_only_then_it_is_admitted(
    api: httpx2.Client, rendered: Rendered, restricted: str, name: str
) -> None:
    template = workloads(rendered.everything)[name]
    pod = template | {"apiVersion": "v1", "kind": "Pod", "metadata": template["metadata"] | {"name": name}}
    answer = api.post(POD.path(restricted), params=STRICT | {"dryRun": "All"}, json=pod)
    assert verdict(answer) == ""
    assert answer.json()["spec"]["priority"] == of_kind("PriorityClass", rendered.base)["gitops-service"]["value"]


def test_pod_when_it_could_write_as_root_then_the_namespace_refuses_it(
    api: httpx2.Client, rendered: Rendered, restricted: str
) -> None:
    template = workloads(rendered.base)["planner"]
    spec = template["spec"] | {"securityContext": {"runAsUser": 0}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "root"}, "spec": spec}
    assert "violates PodSecurity" in verdict(api.post(POD.path(restricted), params={"dryRun": "All"}, json=pod))
