"""The CRDs are what the models say, and structural."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from devstack.generate.manifests import TENANTS, WATCHER, crd_files, tenant_rules
from devstack.generate.markdown import with_block
from services.common.package_data import CRDS, RBAC
from services.kinds.managed_environment.model import ManagedEnvironmentSpec
from services.kinds.registry import REGISTRY
from services.kinds.shared.definition import custom_resource_definition, structural
from services.kinds.shared.kind import DefinedKind, WaitExample


def test_crd_files_when_compared_with_the_models_then_they_are_up_to_date() -> None:
    generated = {str(name): text for name, text in crd_files(REGISTRY)}
    assert {path.name: path.read_text() for path in CRDS.iterdir()} == generated, "run 'make generate'"


def test_rights_when_compared_with_the_kinds_then_the_watcher_has_those_that_it_needs() -> None:
    text = (RBAC / "watcher.yaml").read_text()
    for name, rules in WATCHER.items():
        assert text == with_block(text, name, rules(REGISTRY)), "run 'make generate'"


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
    for member in (schema.get("items"), schema.get("additionalProperties")):
        if member is not None:
            yield from nodes(member)


def models(kind: DefinedKind) -> list[dict[str, Any]]:
    """The structural schemas of a kind's spec and, if it has one, status."""
    return [structural(model) for model in (kind.spec, kind.status) if model is not None]


TYPELESS = ("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields")
"""What a part without a type has to say instead."""


@pytest.mark.parametrize("kind", REGISTRY.defined, ids=lambda kind: kind.name)
def test_crd_when_generated_then_every_part_has_a_type_and_no_reference(kind: DefinedKind) -> None:
    for model in models(kind):
        for node in nodes(model):
            assert node.get("type") or any(node.get(each) for each in TYPELESS), node
            assert not {"$ref", "anyOf", "allOf", "title", "propertyNames"} & node.keys(), node


FOREIGN = (("SnapshotEnvironmentBinding", "gitopsRepoConditions"), ("Snapshot", "conditions"))
"""Conditions that other services write have what Kubernetes' own type has, too."""


@pytest.mark.parametrize("kind", [kind for kind in REGISTRY.defined if kind.status], ids=lambda kind: kind.name)
def test_condition_when_a_kind_shows_it_then_its_fields_are_those_of_all_kinds(kind: DefinedKind) -> None:
    assert kind.status is not None
    listed = {name: part for name, part in structural(kind.status)["properties"].items() if name.endswith("onditions")}
    assert listed
    for name, conditions in listed.items():
        wanted = {"type", "status", "reason", "message", "lastTransitionTime", "lastProbeTime"}
        wanted |= {"observedGeneration"} if (kind.name, name) in FOREIGN else set()
        assert conditions["items"]["properties"].keys() == wanted


def test_status_when_generated_then_the_api_server_adds_nothing_to_it() -> None:
    statuses = [structural(kind.status) for kind in REGISTRY.defined if kind.status is not None]
    assert not [node for status in statuses for node in nodes(status) if "default" in node]


def test_environment_when_choices_are_left_out_then_the_crd_has_the_documented_defaults() -> None:
    members = structural(ManagedEnvironmentSpec)["properties"]
    defaults = {name: member["default"] for name, member in members.items() if "default" in member}
    assert defaults == {"createNewServiceAccount": False, "clusterResources": False}


@pytest.mark.parametrize("kind", REGISTRY.defined, ids=lambda kind: kind.name)
def test_rule_when_it_is_not_about_a_change_then_it_stands_at_the_part_that_it_reads(kind: DefinedKind) -> None:
    """Otherwise an update of another part would be refused for what was stored before the rule."""
    rules = [*kind.rules, *structural(kind.spec).get("x-kubernetes-validations", [])]
    is_unchanging = any(rule["rule"] == "self == oldSelf" for rule in rules)
    assert all("oldSelf" in rule["rule"] or is_unchanging for rule in rules)


@pytest.mark.parametrize("kind", REGISTRY.defined, ids=lambda kind: kind.name)
def test_rule_when_it_is_about_the_whole_object_then_it_is_asked_on_creation_only(kind: DefinedKind) -> None:
    """It is asked on every update, of the status too: what was stored before the rule must not become unusable."""
    assert all(rule["optionalOldSelf"] and rule["rule"].startswith("oldSelf.hasValue() || ") for rule in kind.rules)


@pytest.mark.parametrize("kind", REGISTRY.defined, ids=lambda kind: kind.name)
def test_spec_when_a_string_or_list_is_part_of_it_then_it_is_bounded(kind: DefinedKind) -> None:
    for node in nodes(structural(kind.spec)):
        if node.get("type") == "string" or node.get("x-kubernetes-int-or-string"):
            assert {"maxLength", "enum"} & node.keys(), node
        if node.get("type") == "array":
            assert "maxItems" in node, node
        if "additionalProperties" in node:
            assert "maxProperties" in node, node


@pytest.mark.parametrize("kind", REGISTRY.defined, ids=lambda kind: kind.name)
def test_column_when_printed_then_its_path_is_not_of_a_whole_list(kind: DefinedKind) -> None:
    """The API server prints the first value that a path finds, as if there were no other."""
    assert not [each.heading for each in kind.columns if "[*]" in each.path]


def test_columns_when_printed_then_they_are_the_documented_ones() -> None:
    connection = ".status.conditions[?(@.type=='ConnectionInitializationSucceeded')]"
    login = ".status.conditions[?(@.type=='ValidRepositoryCredential')]"
    age = ("Age", ".metadata.creationTimestamp")
    printed = {
        kind.name: [(column["name"], column["jsonPath"]) for column in columns(kind) if not column.get("priority")]
        for kind in REGISTRY.defined
    }
    error = (".status.conditions[?(@.type=='ErrorOccurred')]", ".status.bindingConditions[?(@.type=='Reconciled')]")
    last = ".status.environmentStatus[-1:]"
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
        "Environment": [
            ("Strategy", ".spec.deploymentStrategy"),
            ("Parent", ".spec.parentEnvironment"),
            ("Claim", ".spec.configuration.target.deploymentTargetClaim.claimName"),
            ("Error", f"{error[0]}.status"),
            age,
        ],
        "Snapshot": [("Application", ".spec.application"), age],
        "SnapshotEnvironmentBinding": [
            ("Application", ".spec.application"),
            ("Environment", ".spec.environment"),
            ("Snapshot", ".spec.snapshot"),
            ("Deployed", ".status.componentDeploymentConditions[?(@.type=='AllComponentsDeployed')].message"),
            ("Reason", f"{error[1]}.reason"),
            age,
        ],
        "PromotionRun": [
            ("Application", ".spec.application"),
            ("Snapshot", ".spec.snapshot"),
            ("State", ".status.state"),
            ("Result", ".status.completionResult"),
            ("Failed", ".status.environmentStatus[?(@.status=='Failed')].environmentName"),
            ("Environment", f"{last}.environmentName"),
            ("Message", f"{last}.displayStatus"),
            age,
        ],
        "DeploymentTargetClaim": [
            ("Class", ".spec.deploymentTargetClassName"),
            ("Phase", ".status.phase"),
            ("Target", ".spec.targetName"),
            age,
        ],
        "DeploymentTarget": [
            ("Class", ".spec.deploymentTargetClassName"),
            ("Phase", ".status.phase"),
            ("Claim", ".spec.claimRef"),
            age,
        ],
        "DeploymentTargetClass": [
            ("Provisioner", ".spec.provisioner"),
            ("Reclaim Policy", ".spec.reclaimPolicy"),
            age,
        ],
    }


def columns(kind: DefinedKind) -> list[Any]:
    (version,) = custom_resource_definition(kind)["spec"]["versions"]
    return list(version["additionalPrinterColumns"])


@pytest.mark.parametrize(("kind", "wait"), [(kind, wait) for kind in REGISTRY.defined for wait in kind.waits])
def test_wait_when_documented_then_a_status_can_come_to_it(kind: DefinedKind, wait: WaitExample) -> None:
    condition = re.fullmatch(r"condition=(\w+)", wait.flag)
    if condition is not None:
        assert (condition[1], "True") in {(entry.type, entry.status) for entry in kind.catalogue}
        return
    expression = re.fullmatch(r"jsonpath='\{\.status\.([\w.]+)\}'=(\w+)", wait.flag)
    assert expression is not None, wait.flag
    assert kind.status is not None
    member = structural(kind.status)
    for name in expression[1].split("."):
        member = member["properties"][name]
    assert re.search(rf"\b{expression[2]}\b", member["description"])


def test_short_names_when_compared_then_each_kind_has_its_own() -> None:
    names = {kind.name: custom_resource_definition(kind)["spec"]["names"] for kind in REGISTRY.defined}
    short = [each["shortNames"] for each in names.values()]
    assert short[:4] == [["gdep"], ["genv"], ["gcred"], ["grun"]]
    appstudio = [["apr", "promotion"], ["as"], ["aseb", "binding"], ["dt"], ["dtc"], ["dtcls"], ["env"]]
    assert sorted(short[4:]) == appstudio


def test_category_when_a_kind_belongs_to_no_namespace_then_it_is_not_listed_with_those_that_do() -> None:
    definitions = [custom_resource_definition(kind)["spec"] for kind in REGISTRY.defined]
    listed = {each["names"]["kind"]: (each["scope"], each["names"].get("categories")) for each in definitions}
    assert listed.pop("DeploymentTargetClass") == ("Cluster", None)
    assert {(scope, *categories) for scope, categories in listed.values()} == {("Namespaced", "gitops")}


def test_class_when_defined_then_it_has_no_status_and_tenants_roles_do_not_name_it() -> None:
    kind = next(kind for kind in REGISTRY.defined if kind.status is None)
    (version,) = custom_resource_definition(kind)["spec"]["versions"]
    assert kind.name == "DeploymentTargetClass"
    assert "subresources" not in version
    assert "status" not in version["schema"]["openAPIV3Schema"]["properties"]
    assert kind.plural not in tenant_rules(REGISTRY, ["get"])
