"""What Argo CD, which goes where tenants send it, reaches from an engine namespace, and who reaches it."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
import yaml

from devstack.toolchain.gobuild import ARGOCD, Build
from devstack.toolchain.install import ARGOCD_SOURCES
from services.common import addresses
from services.common.kubernetes import Manifest
from tests.component.k8s.manifests import (
    PART,
    Pod,
    Rendered,
    allowed,
    engine_namespaces,
    install_argocd,
    may_reach,
    of_kind,
    selects,
    within,
    workloads,
)

REPO_SERVER, CONTROLLER, REDIS = "argocd-repo-server", "argocd-application-controller", "argocd-redis"
WAYS = {
    "argocd-to-dns": {REPO_SERVER, CONTROLLER},
    "argocd-to-redis": {REPO_SERVER, CONTROLLER},
    "argocd-to-repo-server": {CONTROLLER},
    "argocd-to-api-server": {CONTROLLER, REDIS},
    "argocd-to-tenants": {REPO_SERVER, CONTROLLER},
}
"""Whom each policy lets out."""

SERVER, DEX = "argocd-server", "argocd-dex-server"
CONTROLLERS = {CONTROLLER, "argocd-applicationset-controller", "argocd-notifications-controller"}
PROXY, REPLICATED = "argocd-redis-ha-haproxy", "argocd-redis-ha"
METRICS = "prometheus"
ANYBODY: Manifest = {"namespaceSelector": {}}
VISITORS = {
    (REDIS, 6379): {REPO_SERVER, CONTROLLER, SERVER},
    (PROXY, 6379): {REPO_SERVER, CONTROLLER, SERVER},
    (PROXY, 9101): {METRICS},
    (REPLICATED, 6379): {PROXY, REPLICATED},
    (REPLICATED, 26379): {PROXY, REPLICATED},
    (REPO_SERVER, 8081): {*CONTROLLERS, SERVER},
    (REPO_SERVER, 8084): {METRICS},
    (CONTROLLER, 8082): {METRICS},
    ("argocd-applicationset-controller", 8080): {METRICS},
    ("argocd-applicationset-controller", 7000): {METRICS},
    ("argocd-notifications-controller", 9001): {METRICS},
    (DEX, 5558): {METRICS},
    (SERVER, 8083): {METRICS},
}
"""Who reaches which port of Argo CD's pods."""

INWARDS = {
    "argocd-redis-from-argocd",
    "argocd-redis-ha-from-redis",
    "argocd-repo-server-from-argocd",
    "argocd-from-metrics",
}

PRIVATE = ("10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1", "fd00::1")
PUBLIC = ("140.82.112.3", "2606:50c0:8000::1")


def policies_of(pod: str, rendered: Rendered, namespace: str) -> list[Manifest]:
    """Of the policies in one namespace those that hold for pods of one name."""
    template = {"metadata": {"labels": {PART: pod}}}
    policies = of_kind("NetworkPolicy", within(namespace, rendered.example)).values()
    return [item for item in policies if selects(item["spec"]["podSelector"], template)]


def test_engine_namespaces_when_rendered_then_each_has_the_policies_of_the_table(rendered: Rendered) -> None:
    found = {name: of_kind("NetworkPolicy", within(name, rendered.example)).keys() for name in engine_namespaces()}
    assert len(found) > 1
    assert found == dict.fromkeys(engine_namespaces(), WAYS.keys() | INWARDS)


def files_of_argocd() -> tuple[Path, Path]:
    """Argo CD's own manifests, and the highly available ones."""
    folder = Build(ARGOCD_SOURCES, ARGOCD).source() / "manifests"
    return folder / "namespace-install.yaml", folder / "ha" / "namespace-install.yaml"


@pytest.fixture(scope="module")
def own(kustomize: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Manifest]:
    """Argo CD's own policies, of both, as they are installed in the engine namespaces."""
    installed = [
        install_argocd(kustomize, path, tmp_path_factory.mktemp("install"), engine_namespaces())
        for path in files_of_argocd()
    ]
    return [item for manifests in installed for item in manifests if item["kind"] == "NetworkPolicy"]


def labels_of_argocd() -> dict[str, dict[str, str]]:
    """Labels of the pods in Argo CD's own manifests, the highly available ones too, by the name that they go by."""
    manifests = [item for path in files_of_argocd() for item in yaml.safe_load_all(path.read_text()) if item]
    found = [template["metadata"]["labels"] for template in workloads(manifests).values()]
    return {labels[PART]: labels for labels in found}


def test_policies_when_they_select_pods_then_such_are_in_argo_cds_own_manifests(rendered: Rendered) -> None:
    there = labels_of_argocd()
    for policy in of_kind("NetworkPolicy", within(engine_namespaces()[0], rendered.example)).values():
        rules = [*policy["spec"].get("ingress", []), *policy["spec"].get("egress", [])]
        peers = [peer for rule in rules for peer in [*rule.get("from", []), *rule.get("to", [])]]
        own = [item["podSelector"] for item in peers if "podSelector" in item and "namespaceSelector" not in item]
        for selector in (policy["spec"]["podSelector"], *own):
            (expression,) = selector.get("matchExpressions", [{"values": [*selector.get("matchLabels", {}).values()]}])
            assert set(expression["values"]) <= there.keys()


def test_policies_of_argo_cd_when_installed_then_they_let_anybody_in_to_the_server_that_asks_for_a_login_alone(
    own: list[Manifest],
) -> None:
    rules = [(item["metadata"]["name"], rule) for item in own for rule in item["spec"].get("ingress", [])]
    open_to_all = {name: rule for name, rule in rules if ANYBODY in rule.get("from", [ANYBODY])}
    assert open_to_all == {"argocd-server-network-policy": {"ports": [{"port": 8080}]}}


def test_pods_of_an_engine_when_they_are_called_then_only_by_those_of_the_table(
    rendered: Rendered, own: list[Manifest]
) -> None:
    here, other = engine_namespaces()[:2]
    policies = [*(item for item in rendered.example if item["kind"] == "NetworkPolicy"), *own]
    argocd = {name: Pod(here, labels) for name, labels in labels_of_argocd().items()}
    strangers = {
        "of another instance": Pod(other, labels_of_argocd()[CONTROLLER]),
        "beside it": Pod(here, {PART: "any"}),
        "a tenant's, labelled so": Pod("tenant", labels_of_argocd()[CONTROLLER]),
        METRICS: Pod("monitoring", {}),
    } | {name: Pod("gitops-service", item["metadata"]["labels"]) for name, item in workloads(rendered.example).items()}
    sources = argocd | strangers
    found: dict[tuple[str, int], set[str]] = {place: set() for place in VISITORS}
    for (target, port), (name, source) in product(VISITORS, sources.items()):
        if may_reach(source, argocd[target], port, policies):
            found[target, port].add(name)
    assert found == VISITORS


@pytest.mark.parametrize("pod", [REPO_SERVER, CONTROLLER, REDIS])
def test_pod_when_it_lets_tenants_choose_then_it_gets_out_by_these_ways_alone(rendered: Rendered, pod: str) -> None:
    for namespace in engine_namespaces():
        policies = [item for item in policies_of(pod, rendered, namespace) if item["spec"]["policyTypes"] == ["Egress"]]
        assert {item["metadata"]["name"] for item in policies} == {way for way, pods in WAYS.items() if pod in pods}
        for policy in policies:
            assert all(rule["to"] and rule["ports"] for rule in policy["spec"]["egress"])


@pytest.mark.parametrize("address", [str(next(iter(n))) for _, networks in addresses._REFUSED for n in networks])
def test_address_when_agents_refuse_it_then_no_policy_lets_argocd_through(rendered: Rendered, address: str) -> None:
    for pod in (REPO_SERVER, CONTROLLER):
        for namespace in engine_namespaces():
            assert not any(allowed(address, policy) for policy in policies_of(pod, rendered, namespace))


@pytest.mark.parametrize("address", PRIVATE)
def test_repo_server_when_an_address_is_private_then_nothing_lets_it_through_but_what_the_operator_names(
    rendered: Rendered, address: str
) -> None:
    for namespace in engine_namespaces():
        policies = policies_of(REPO_SERVER, rendered, namespace)
        assert not any(allowed(address, policy) for policy in policies)
        assert any(allowed("10.30.0.7", policy) for policy in policies)  # the example's


@pytest.mark.parametrize("address", PUBLIC)
def test_repo_server_when_an_address_is_public_then_it_gets_there(rendered: Rendered, address: str) -> None:
    for namespace in engine_namespaces():
        assert any(allowed(address, policy) for policy in policies_of(REPO_SERVER, rendered, namespace))
