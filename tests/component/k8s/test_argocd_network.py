"""What Argo CD, which goes where tenants' repositories send it, reaches from an engine namespace."""

from __future__ import annotations

import pytest

from services.common import addresses
from services.common.kubernetes import Manifest
from services.common.settings import parse_engine_namespaces
from tests.component.k8s.manifests import PART, Rendered, allowed, of_kind, selects, within

REPO_SERVER, CONTROLLER = "argocd-repo-server", "argocd-application-controller"
WAYS = {
    "argocd-to-dns": {REPO_SERVER, CONTROLLER},
    "argocd-to-redis": {REPO_SERVER, CONTROLLER},
    "argocd-to-repo-server": {CONTROLLER},
    "argocd-to-api-server": {CONTROLLER},
    "argocd-to-tenants": {REPO_SERVER, CONTROLLER},
}
"""Whom each policy lets out."""

PRIVATE = ("10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1", "fd00::1")
PUBLIC = ("140.82.112.3", "2606:50c0:8000::1")


def engines(rendered: Rendered) -> list[str]:
    """The engine namespaces of the example."""
    (agent,) = [item["data"] for name, item in of_kind("ConfigMap", rendered.example).items() if "agent-" in name]
    return sorted(parse_engine_namespaces(agent["ENGINE_NAMESPACES"]).values())


def policies_of(pod: str, rendered: Rendered, namespace: str) -> list[Manifest]:
    """Of the policies in one namespace those that hold for pods of one name."""
    template = {"metadata": {"labels": {PART: pod}}}
    policies = of_kind("NetworkPolicy", within(namespace, rendered.example)).values()
    return [item for item in policies if selects(item["spec"]["podSelector"], template)]


def test_engine_namespaces_when_rendered_then_each_has_the_policies_of_the_table(rendered: Rendered) -> None:
    found = {name: of_kind("NetworkPolicy", within(name, rendered.example)).keys() for name in engines(rendered)}
    assert len(found) > 1
    assert found == dict.fromkeys(engines(rendered), WAYS.keys())


@pytest.mark.parametrize("pod", [REPO_SERVER, CONTROLLER])
def test_pod_when_it_lets_tenants_choose_then_it_gets_out_by_these_ways_alone(rendered: Rendered, pod: str) -> None:
    for namespace in engines(rendered):
        policies = policies_of(pod, rendered, namespace)
        assert {item["metadata"]["name"] for item in policies} == {way for way, pods in WAYS.items() if pod in pods}
        for policy in policies:
            assert policy["spec"]["policyTypes"] == ["Egress"]
            assert all(rule["to"] and rule["ports"] for rule in policy["spec"]["egress"])


@pytest.mark.parametrize("address", [str(next(iter(n))) for _, networks in addresses._REFUSED for n in networks])
def test_address_when_agents_refuse_it_then_no_policy_lets_argocd_through(rendered: Rendered, address: str) -> None:
    for pod in (REPO_SERVER, CONTROLLER):
        for namespace in engines(rendered):
            assert not any(allowed(address, policy) for policy in policies_of(pod, rendered, namespace))


@pytest.mark.parametrize("address", PRIVATE)
def test_repo_server_when_an_address_is_private_then_nothing_lets_it_through_but_what_the_operator_names(
    rendered: Rendered, address: str
) -> None:
    for namespace in engines(rendered):
        policies = policies_of(REPO_SERVER, rendered, namespace)
        assert not any(allowed(address, policy) for policy in policies)
        assert any(allowed("10.30.0.7", policy) for policy in policies)  # the example's


@pytest.mark.parametrize("address", PUBLIC)
def test_repo_server_when_an_address_is_public_then_it_gets_there(rendered: Rendered, address: str) -> None:
    for namespace in engines(rendered):
        assert any(allowed(address, policy) for policy in policies_of(REPO_SERVER, rendered, namespace))
