"""Agents, planners and the policy of the API server have one list of the platform's namespaces."""

from __future__ import annotations

import re

import pytest
import yaml

from devstack.setup.argocd_requirements import RIGHTS
from services.common.platform_namespaces import NAMES, PREFIXES, is_platform

(POLICY,) = [
    item
    for item in yaml.safe_load_all((RIGHTS / "boundaries.yaml").read_text())
    if item["kind"] == "ValidatingAdmissionPolicy"
]
VARIABLES = {item["name"]: item["expression"] for item in POLICY["spec"]["variables"]}
ENGINES = "gitops-service-argocd"
"""How engine namespaces are called in k8s/README.md; others take a label. Agents know theirs by name."""


@pytest.mark.parametrize("namespace", ["gitops-service", "kube-system", "openshift", "openshift-config"])
def test_namespace_when_it_is_the_platforms_then_that_is_known(namespace: str) -> None:
    assert is_platform(namespace)


@pytest.mark.parametrize("namespace", ["team-a", "gitops-service-e2e", "kubernetes", "my-kube-system", ""])
def test_namespace_when_it_is_only_called_alike_then_it_is_a_tenants(namespace: str) -> None:
    assert not is_platform(namespace)


def test_policy_when_it_names_namespaces_then_the_same_as_the_services_and_the_engines() -> None:
    expression = VARIABLES["isPlatform"]
    assert re.findall(r'request\.namespace == "([^"]+)"', expression) == [*NAMES]
    assert {*re.findall(r'startsWith\("([^"]+)"\)', expression)} == {*PREFIXES, ENGINES}


def test_policy_when_it_asks_who_deploys_for_tenants_then_for_what_the_tenants_role_gives() -> None:
    role = yaml.safe_load((RIGHTS / "writes.yaml").read_text())
    ((group, resource, verb),) = re.findall(
        r'group\("([^"]+)"\)\.resource\("([^"]+)"\)\.check\("([^"]+)"\)\.allowed\(\) &&', VARIABLES["deploysForTenants"]
    )
    assert {"apiGroups": [group], "resources": [resource], "verbs": [verb]} in role["rules"]
