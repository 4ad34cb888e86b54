"""The manifests of k8s/rbac grant what the services ask for at their start, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from devstack.components.steps import SIMULATOR_RBAC
from devstack.stack.identities import ACCOUNTS, ACCOUNTS_NAMESPACE
from devstack.stack.pki import Account
from services.agent.health.probe import OWNERS
from services.agent.instances.controller_rights import REVIEW
from services.agent.instances.workload_requirements import GENERATORS, PARAMETERS
from services.agent.objects.managed_kinds import KINDS as AGENT_KINDS
from services.agent.objects.managed_kinds import VERBS as AGENT_VERBS
from services.cli.installation.rbac import ADMISSION, KINDS, placed
from services.common.argocd_names import CONFIG
from services.common.kubernetes import LEASE, SECRET
from services.common.package_data import RBAC
from services.kinds.shared.api_group import FINALIZER
from services.watcher.followed_kinds import ACCESS_TO_NAMESPACES, LEADING, LOOKED_UP, access_to
from services.watcher.followed_kinds import KINDS as WATCHED

NAMESPACES = ["argocd-1", "argocd-2"]
MANIFESTS = [*placed(RBAC, NAMESPACES), *placed(SIMULATOR_RBAC, NAMESPACES)]


def rules(kind: str, name: str) -> list[dict[str, Any]]:
    """Of one role, in whichever namespace it is placed first."""
    found = [item["rules"] for item in MANIFESTS if (item["kind"], item["metadata"]["name"]) == (kind, name)]
    return list(found[0]) if found else []


def granted(kind: str, name: str) -> set[tuple[str, str, str]]:
    """Group, resource and verb of every right of a role."""
    return {
        (group, resource, verb)
        for rule in rules(kind, name)
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_watcher_when_granted_then_exactly_what_it_needs() -> None:
    wanted = {
        (kind.resource.group, "/".join(filter(None, (kind.resource.plural, subresource))), verb)
        for kind in (*WATCHED, *LOOKED_UP)
        for verb, subresource in access_to(kind).rights
    }
    namespaces = {("", ACCESS_TO_NAMESPACES.resource.plural, verb) for verb, _ in ACCESS_TO_NAMESPACES.rights}
    assert granted("ClusterRole", "gitops-service-watcher") == wanted | namespaces
    assert granted("Role", "gitops-service-watcher") == {(LEASE.group, LEASE.plural, verb) for verb in LEADING}


def test_agent_when_granted_then_exactly_what_it_needs_in_its_namespaces() -> None:
    wanted = {
        (kind.resource.group, kind.resource.plural, verb) for kind in AGENT_KINDS.values() for verb in AGENT_VERBS
    }
    assert granted("Role", "gitops-service-agent") == wanted | {
        ("", "configmaps", "get"),
        ("", "pods", "list"),
        ("", "pods", "delete"),
        ("apps", "deployments", "get"),
        ("apps", "statefulsets", "get"),
        (REVIEW.group, REVIEW.plural, "create"),
    }
    named = {tuple(rule["resources"]): rule.get("resourceNames") for rule in rules("Role", "gitops-service-agent")}
    assert named["configmaps",] == [CONFIG, PARAMETERS, GENERATORS]
    owners: dict[str, list[str]] = {resource.plural: [] for resource in OWNERS.values()}
    for name, resource in OWNERS.items():
        owners[resource.plural].append(name)
    assert {plural: named[plural,] for plural in owners} == owners
    assert granted("ClusterRole", "gitops-service-agent") == set()
    placed_in = {item["metadata"]["namespace"] for item in MANIFESTS if item["metadata"]["name"].endswith("-agent")}
    assert placed_in == set(NAMESPACES)


def test_watcher_when_it_may_patch_resources_then_a_policy_confines_it_there() -> None:
    (policy,) = [item["spec"] for item in MANIFESTS if item["kind"] == "ValidatingAdmissionPolicy"]
    (binding,) = [item["spec"] for item in MANIFESTS if item["kind"] == "ValidatingAdmissionPolicyBinding"]
    matched = {group: rule for rule in policy["matchConstraints"]["resourceRules"] for group in rule["apiGroups"]}
    changed = {group for group, _, verb in granted("ClusterRole", "gitops-service-watcher") if verb == "patch"}
    assert changed == matched.keys()
    assert {rule["apiVersions"] == ["*"] for rule in matched.values()} == {True}
    assert {group: rule["resources"] for group, rule in matched.items() if rule["resources"] != ["*/*"]} == {
        SECRET.group: ["secrets"]
    }
    assert (policy["failurePolicy"], binding["validationActions"]) == ("Fail", ["Deny"])
    (condition,) = policy["matchConditions"]
    watcher = Account(ACCOUNTS_NAMESPACE, "watcher", token="", kubeconfig=Path())
    assert f'"{watcher.user}"' in condition["expression"]
    assert f'"{FINALIZER}"' in str(policy["validations"])


def wildcards(value: Any) -> Iterator[str]:
    """Every ``*`` in a manifest."""
    if isinstance(value, str):
        yield from (value for _ in [1] if "*" in value)
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from wildcards(item)


def test_manifests_when_read_then_no_right_is_a_wildcard_and_each_kind_can_be_applied() -> None:
    rights = [item for item in MANIFESTS if not item["apiVersion"].startswith(ADMISSION)]
    assert [*wildcards(rights)] == []
    assert {item["kind"] for item in MANIFESTS} <= KINDS.keys()


def test_accounts_when_the_local_stack_makes_tokens_then_they_are_those_of_the_manifests() -> None:
    accounts = [item["metadata"] for item in MANIFESTS if item["kind"] == "ServiceAccount"]
    assert {item["name"] for item in accounts} == set(ACCOUNTS)
    assert {item["namespace"] for item in accounts} == {ACCOUNTS_NAMESPACE}


@pytest.mark.parametrize("path", sorted(RBAC.glob("*.yaml")), ids=lambda path: path.name)
def test_bindings_when_read_then_their_role_and_account_are_in_the_same_file(path: Path) -> None:
    manifests = list(yaml.safe_load_all(path.read_text()))
    roles = {(item["kind"], item["metadata"]["name"]) for item in manifests}
    for binding in (item for item in manifests if "roleRef" in item):
        assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) in roles
        assert all((subject["kind"], subject["name"]) in roles for subject in binding["subjects"])
