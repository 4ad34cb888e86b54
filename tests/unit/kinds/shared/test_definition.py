"""The CRDs are what the models say, and structural."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from devstack.generate.manifests import TENANTS, crd_files, tenant_rules, watcher_rules
from devstack.generate.markdown import with_block
from services.common.package_data import CRDS, RBAC
from services.kinds.managed_environment.model import ManagedEnvironmentSpec
from services.kinds.registry import REGISTRY
from services.kinds.shared.definition import custom_resource_definition, structural
from services.kinds.shared.kind import CustomKind, WaitExample


def test_crd_files_when_compared_with_the_models_then_they_are_up_to_date() -> None:
    generated = {str(name): text for name, text in crd_files(REGISTRY)}
    assert {path.name: path.read_text() for path in CRDS.iterdir()} == generated, "run 'make generate'"


def test_rights_when_compared_with_the_kinds_then_the_watcher_has_those_that_it_needs() -> None:
    text = (RBAC / "watcher.yaml").read_text()
    assert text == with_block(text, "kinds", watcher_rules(REGISTRY)), "run 'make generate'"


def test_rights_when_compared_with_the_kinds_then_tenants_have_them_in_the_cluster_s_own_roles() -> None:
    text = (RBAC / "tenants.yaml").read_text()
    for name, verbs in TENANTS.items():
        assert text == with_block(text, name, tenant_rules(REGISTRY, verbs)), "run 'make generate'"
    view, edit = yaml.safe_load_all(text)
    parts = {role["metadata"]["name"]: {*role["metadata"]["labels"]} for role in (view, edit)}
    aggregated = "rbac.authorization.k8s.io/aggregate-to-"
    assert parts == {
        "gitops-service-view": {f"{aggregated}{role}" for role in ("view", "edit", "admin")},
        "gitops-service-edit": {f"{aggregated}{role}" for role in ("edit", "admin")},
    }


def nodes(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    for member in schema.get("properties", {}).values():
        yield from nodes(member)
    if "items" in schema:
        yield from nodes(schema["items"])


@pytest.mark.parametrize("kind", REGISTRY.custom, ids=lambda kind: kind.name)
def test_crd_when_generated_then_every_part_has_a_type_and_no_reference(kind: Any) -> None:
    for model in (kind.spec, kind.status):
        for node in nodes(structural(model)):
            assert node.get("type"), node
            assert not {"$ref", "anyOf", "allOf", "title"} & node.keys(), node


@pytest.mark.parametrize("kind", REGISTRY.custom, ids=lambda kind: kind.name)
def test_condition_when_a_kind_shows_it_then_its_fields_are_those_of_all_kinds(kind: Any) -> None:
    condition = structural(kind.status)["properties"]["conditions"]["items"]
    wanted = {"type", "status", "reason", "message", "lastTransitionTime", "lastProbeTime"}
    assert condition["properties"].keys() == wanted


def test_status_when_generated_then_the_api_server_adds_nothing_to_it() -> None:
    for kind in REGISTRY.custom:
        assert not [node for node in nodes(structural(kind.status)) if "default" in node]


def test_environment_when_choices_are_left_out_then_the_crd_has_the_documented_defaults() -> None:
    members = structural(ManagedEnvironmentSpec)["properties"]
    defaults = {name: member["default"] for name, member in members.items() if "default" in member}
    assert defaults == {"createNewServiceAccount": False, "clusterResources": False}


@pytest.mark.parametrize("kind", REGISTRY.custom, ids=lambda kind: kind.name)
def test_rule_when_it_is_not_about_a_change_then_it_stands_at_the_part_that_it_reads(kind: Any) -> None:
    """Otherwise an update of another part would be refused for what was stored before the rule."""
    rules = structural(kind.spec).get("x-kubernetes-validations", [])
    assert all("oldSelf" in rule["rule"] for rule in rules)


@pytest.mark.parametrize("kind", REGISTRY.custom, ids=lambda kind: kind.name)
def test_spec_when_a_string_or_list_is_part_of_it_then_it_is_bounded(kind: Any) -> None:
    for node in nodes(structural(kind.spec)):
        if node["type"] == "string":
            assert "maxLength" in node, node
        if node["type"] == "array":
            assert "maxItems" in node, node


def test_columns_when_printed_then_they_are_the_documented_ones() -> None:
    connection = ".status.conditions[?(@.type=='ConnectionInitializationSucceeded')]"
    login = ".status.conditions[?(@.type=='ValidRepositoryCredential')]"
    age = ("Age", ".metadata.creationTimestamp")
    printed = {
        kind.name: [(column["name"], column["jsonPath"]) for column in columns(kind) if not column.get("priority")]
        for kind in REGISTRY.custom
    }
    assert printed == {
        "GitOpsDeployment": [("Sync Status", ".status.sync.status"), ("Health Status", ".status.health.status"), age],
        "GitOpsDeploymentManagedEnvironment": [
            ("Connected", f"{connection}.status"),
            ("Reason", f"{connection}.reason"),
            age,
        ],
        "GitOpsDeploymentRepositoryCredential": [("Valid", f"{login}.status"), ("Reason", f"{login}.reason"), age],
        "GitOpsDeploymentSyncRun": [
            ("Deployment", ".spec.gitopsDeploymentName"),
            ("Revision", ".spec.revisionID"),
            ("Phase", ".status.operation.phase"),
            age,
        ],
    }


def columns(kind: CustomKind) -> list[Any]:
    (version,) = custom_resource_definition(kind)["spec"]["versions"]
    return list(version["additionalPrinterColumns"])


@pytest.mark.parametrize(("kind", "wait"), [(kind, wait) for kind in REGISTRY.custom for wait in kind.waits])
def test_wait_when_documented_then_a_status_can_come_to_it(kind: CustomKind, wait: WaitExample) -> None:
    condition = re.fullmatch(r"condition=(\w+)", wait.flag)
    if condition is not None:
        assert (condition[1], "True") in {(entry.type, entry.status) for entry in kind.catalogue}
        return
    expression = re.fullmatch(r"jsonpath='\{\.status\.(\w+)\.(\w+)\}'=(\w+)", wait.flag)
    assert expression is not None, wait.flag
    member = structural(kind.status)["properties"][expression[1]]["properties"][expression[2]]
    assert re.search(rf"\b{expression[3]}\b", member["description"])


def test_short_names_when_compared_then_each_kind_has_its_own() -> None:
    names = [custom_resource_definition(kind)["spec"]["names"] for kind in REGISTRY.custom]
    assert [each["shortNames"] for each in names] == [["gdep"], ["genv"], ["gcred"], ["grun"]]
    assert {*map(tuple, (each["categories"] for each in names))} == {("gitops",)}
