"""What an installation consists of: rendered manifests in the namespace of an instance."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from services.agent.provisioning.installation import (
    INSTANCE_LABEL,
    Renderings,
    described,
    differs,
    installation,
    is_rolled_out,
    namespace_of,
)
from services.common.errors import Permanent
from services.common.kubernetes import Manifest
from tests.unit.agent.instances_of_fleet import instance_row
from tests.unit.agent.provisioning.renderings import named, rendered, write

ONE = instance_row("one", namespace="argocd-one", wanted_version="3.2.11")


def test_installation_when_made_then_all_of_it_is_in_the_namespace_of_the_instance_and_pods_come_last() -> None:
    wanted = installation(rendered("3.2.11"), ONE)
    assert [each.resource.kind for each in wanted] == [
        "ServiceAccount", "Role", "RoleBinding", "ConfigMap", "StatefulSet", "ClusterRoleBinding",
    ]  # fmt: skip
    namespaced = [each.manifest["metadata"] for each in wanted[:-1]]
    assert {each["namespace"] for each in namespaced} == {"argocd-one"}
    assert all(each.manifest["metadata"]["labels"][INSTANCE_LABEL] == "one" for each in wanted)


def test_bindings_when_made_then_they_are_of_the_accounts_of_the_instance_and_of_no_other() -> None:
    wanted = {each.resource.kind: each.manifest for each in installation(rendered("3.2.11"), ONE)}
    binding = wanted["ClusterRoleBinding"]
    assert binding["metadata"]["name"] == "gitops-service-argocd-one"
    assert "namespace" not in binding["metadata"]
    assert binding["subjects"][0]["namespace"] == "argocd-one"
    assert wanted["RoleBinding"]["subjects"][0]["namespace"] == "gitops-service"


def test_binding_of_the_cluster_when_its_manifests_are_of_another_namespace_then_it_is_of_the_instance_alone() -> None:
    manifests = rendered("3.2.11")
    for each in manifests:
        if each["kind"] != "ClusterRoleBinding":
            each["metadata"]["namespace"] = "rendered-elsewhere"
    (binding,) = [each for each in installation(manifests, ONE) if each.resource.kind == "ClusterRoleBinding"]
    assert [each["namespace"] for each in binding.manifest["subjects"]] == ["argocd-one"]


REFUSED = {
    "a ClusterRole": (named("rbac.authorization.k8s.io/v1", "ClusterRole", "x"), "hold a rbac.authorization.k8s.io/v1"),
    "a CRD": (named("apiextensions.k8s.io/v1", "CustomResourceDefinition", "x"), "which no instance may bring"),
    "another version of a kind": (named("apps/v1beta1", "Deployment", "x"), "hold a apps/v1beta1 Deployment"),
    "another namespace": (
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x", "namespace": "kube-system"}},
        "of several namespaces: gitops-service-argocd, kube-system",
    ),
}


@pytest.mark.parametrize(("manifest", "message"), REFUSED.values(), ids=REFUSED)
def test_installation_when_its_manifests_hold_what_none_may_bring_then_it_is_refused(
    manifest: dict[str, Any], message: str
) -> None:
    with pytest.raises(Permanent, match=message):
        installation([*rendered("3.2.11"), manifest], ONE)


def test_installation_when_its_manifests_are_of_another_version_then_it_is_refused() -> None:
    with pytest.raises(Permanent, match=r"the manifests are of Argo CD 3\.1\.16, not 3\.2\.11: render them again"):
        installation(rendered("3.1.16"), ONE)


def test_manifests_when_there_are_none_of_a_version_then_operators_are_told_which_there_are(tmp_path: Path) -> None:
    renderings = Renderings(tmp_path)
    with pytest.raises(Permanent, match=r"no manifests of Argo CD 3\.2\.11, but of none: render them"):
        renderings.manifests_of("3.2.11", "")
    for name in ("3.2.11", "3.1.16", "3.2.11-fast"):
        write(tmp_path, name, rendered("3.2.11"))
    assert len(renderings.manifests_of("3.2.11", "fast")) == 6
    with pytest.raises(Permanent, match=r"3\.1\.16 with profile fast, but of 3\.1\.16, 3\.2\.11, 3\.2\.11-fast"):
        renderings.manifests_of("3.1.16", "fast")


UNREADABLE = {
    "no YAML": b"{",
    "no UTF-8": b"kind: \xff",
    "a date that there is not": b"kind: 2026-13-01",
    "a key that is no text": b"data: {8080: x}",
    "bytes": b"data: {x: !!binary aGk=}",
}


@pytest.mark.parametrize("content", UNREADABLE.values(), ids=UNREADABLE)
def test_manifests_when_they_cannot_be_read_then_that_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "3.2.11.yaml").write_bytes(content)
    with pytest.raises(Permanent, match=r"the manifests in 3\.2\.11\.yaml are not to be read"):
        Renderings(tmp_path).manifests_of("3.2.11", "")


RBAC = "rbac.authorization.k8s.io/v1"
MALFORMED = {
    "a text": "Error: no such kustomization",
    "a list": [named("v1", "ConfigMap", "x")],
    "no kind": {"apiVersion": "v1", "metadata": {"name": "x"}},
    "a kind that is no text": {"kind": ["ConfigMap"], "metadata": {"name": "x"}},
    "no metadata": {"kind": "ConfigMap", "metadata": None},
    "no name": {"kind": "ConfigMap", "metadata": {"namespace": "x"}},
    "a name that is no text": {"kind": "ConfigMap", "metadata": {"name": 1}},
    "a namespace that is no text": {"kind": "ConfigMap", "metadata": {"name": "x", "namespace": ["y"]}},
    "labels that are none": {"kind": "ConfigMap", "metadata": {"name": "x", "labels": ["y"]}},
    "subjects that are no list": named(RBAC, "RoleBinding", "x", subjects={"name": "y"}),
    "a subject that is none": named(RBAC, "RoleBinding", "x", subjects=["y"]),
    "a subject whose namespace is no text": named(RBAC, "RoleBinding", "x", subjects=[{"namespace": ["y"]}]),
}


@pytest.mark.parametrize("document", MALFORMED.values(), ids=MALFORMED)
def test_manifests_when_one_of_them_is_no_kubernetes_object_then_that_is_told(tmp_path: Path, document: Any) -> None:
    write(tmp_path, "3.2.11", [named("v1", "ConfigMap", "first"), document])
    with pytest.raises(Permanent, match=r"document 2 in 3\.2\.11\.yaml is no Kubernetes object: render it again"):
        Renderings(tmp_path).manifests_of("3.2.11", "")


def test_manifests_when_a_document_is_empty_then_the_others_are_read(tmp_path: Path) -> None:
    (tmp_path / "3.2.11.yaml").write_text(f"---\n---\n{yaml.safe_dump(named('v1', 'ConfigMap', 'x'))}---\n")
    assert [each["metadata"]["name"] for each in Renderings(tmp_path).manifests_of("3.2.11", "")] == ["x"]


def test_manifests_when_their_file_is_the_same_then_it_is_parsed_once(tmp_path: Path) -> None:
    write(tmp_path, "3.2.11", rendered("3.2.11"))
    renderings = Renderings(tmp_path)
    first, second = (renderings.manifests_of("3.2.11", "") for _ in range(2))
    assert all(one is other for one, other in zip(first, second, strict=True))


def test_manifests_when_their_file_changes_then_they_are_read_again(tmp_path: Path) -> None:
    renderings = Renderings(tmp_path)
    for number, name in enumerate(["one", "two", "three"]):
        write(tmp_path, "3.2.11", [named("v1", "ConfigMap", name)])
        os.utime(tmp_path / "3.2.11.yaml", (number, number))
        assert [each["metadata"]["name"] for each in renderings.manifests_of("3.2.11", "")] == [name]
    (tmp_path / "3.2.11.yaml").write_text("{")
    with pytest.raises(Permanent, match="are not to be read"):
        renderings.manifests_of("3.2.11", "")


def test_installation_when_made_then_the_manifests_stay_as_they_were_for_the_next_one() -> None:
    manifests = rendered("3.2.11")
    installation(manifests, ONE)
    assert manifests == rendered("3.2.11")


def test_namespace_when_made_then_it_is_the_platforms_and_known_by_its_instance() -> None:
    assert namespace_of(ONE)["metadata"] == {
        "name": "argocd-one",
        "labels": {
            INSTANCE_LABEL: "one",
            "managed-gitops.redhat.com/platform": "true",
            "pod-security.kubernetes.io/enforce": "restricted",
        },
    }


COMPARED: dict[str, tuple[Any, Any, bool]] = {
    "the same": ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 2}]}, False),
    "with defaults": ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}, "d": 3}, False),
    "an empty field that is left out": ({"a": {}, "b": ""}, {}, False),
    "another value": ({"a": {"b": 1}}, {"a": {"b": 2}}, True),
    "a field that is missing": ({"a": {"b": 1}}, {"a": {}}, True),
    "an element more": ({"a": [1]}, {"a": [1, 2]}, True),
    "a value emptied": ({"a": ""}, {"a": "x"}, True),
    "another type": ({"a": {"b": 1}}, {"a": "x"}, True),
}


@pytest.mark.parametrize(("wanted", "live", "expected"), COMPARED.values(), ids=COMPARED)
def test_object_when_compared_then_what_others_have_added_does_not_count(
    wanted: Any, live: Any, expected: bool
) -> None:
    assert differs(wanted, live) is expected


@pytest.mark.parametrize(
    ("names", "told"),
    [("", ""), ("b a", "a, b"), ("e d c b a", "a, b, c, d, e"), ("g f e d c b a", "a, b, c, d, e and 2 more")],
)
def test_names_when_told_then_a_few_of_them_are_and_the_others_are_counted(names: str, told: str) -> None:
    assert described(names.split()) == told


def workload(wanted: int | None, observed: int | None, **counts: int) -> Manifest:
    status = counts if observed is None else {"observedGeneration": observed, **counts}
    spec = {} if wanted is None else {"replicas": wanted}
    return {"metadata": {"generation": 2}, "spec": spec, "status": status}


ONE_OF_EACH = {"replicas": 1, "updatedReplicas": 1, "readyReplicas": 1}
ROLLED_OUT = {
    "all pods": (workload(1, 2, **ONE_OF_EACH), True),
    "one pod by default": (workload(None, 2, **ONE_OF_EACH), True),
    "no pods": (workload(0, 2), True),
    "nobody looks after it": (workload(1, None), True),
    "not looked at since it was changed": (workload(1, 1, **ONE_OF_EACH), False),
    "the new pod does not start": (workload(1, 2, replicas=2, updatedReplicas=1, readyReplicas=1), False),
    "the new pod cannot be made": (workload(1, 2, replicas=1, readyReplicas=1), False),
    "its pod is not ready": (workload(1, 2, replicas=1, updatedReplicas=1), False),
    "some pods": (workload(2, 2, **ONE_OF_EACH), False),
}


@pytest.mark.parametrize(("live", "expected"), ROLLED_OUT.values(), ids=ROLLED_OUT)
def test_workload_when_all_its_pods_are_those_that_it_wants_and_ready_then_it_is_rolled_out(
    live: Manifest, expected: bool
) -> None:
    assert is_rolled_out(live) == expected
