"""The packet filter that network policies become: what each pod's chain lets through."""

from __future__ import annotations

import re
from typing import Any

import pytest

from devstack.node.network_policies import Cluster, ruleset, selects

Manifest = dict[str, Any]


def pod(name: str, address: str, namespace: str = "ours") -> Manifest:
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": {"name": name}},
        "spec": {"containers": [{"ports": [{"name": "metrics", "containerPort": 8000}]}]},
        "status": {"podIP": address, "phase": "Running"},
    }


def policy(namespace: str = "ours", **spec: Any) -> Manifest:
    return {"metadata": {"name": "any", "namespace": namespace}, "spec": {"podSelector": {}} | spec}


WEB, DATABASE = pod("web", "10.244.0.2"), pod("database", "10.244.0.3")
STRANGER = pod("stranger", "10.244.0.4", "theirs")
NAMESPACES = [{"metadata": {"name": name, "labels": {"team": name}}} for name in ("ours", "theirs")]


def chain(script: str, name: str) -> list[str]:
    """Rules of one chain."""
    block = re.search(rf"  chain {re.escape(name)} {{\n(.*?)\n  }}", script, re.DOTALL)
    assert block is not None, name
    return [line.strip() for line in block[1].splitlines()]


def rules(*policies: Manifest, of: str = "egress-10.244.0.2") -> list[str]:
    """What becomes of ``policies``."""
    return chain(ruleset(Cluster([WEB, DATABASE, STRANGER], NAMESPACES, list(policies))), of)


def egress(rule: Manifest) -> Manifest:
    return policy(policyTypes=["Egress"], egress=[rule])


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        pytest.param({}, ["return"], id="everybody"),
        pytest.param(
            {"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [{"port": 443}, {"port": 6443}]},
            ["ip daddr 10.0.0.0/8 tcp dport 443 return", "ip daddr 10.0.0.0/8 tcp dport 6443 return"],
            id="a block and ports",
        ),
        pytest.param(
            {"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8", "127.0.0.0/8"]}}]},
            ["ip daddr 0.0.0.0/0 ip daddr != { 10.0.0.0/8, 127.0.0.0/8 } return"],
            id="a block with exceptions",
        ),
        pytest.param({"to": [{"ipBlock": {"cidr": "fc00::/7"}}]}, [], id="no pod has such an address"),
        pytest.param({"to": [{"podSelector": {}}]}, ["ip daddr { 10.244.0.2, 10.244.0.3 } return"], id="own namespace"),
        pytest.param(
            {"to": [{"namespaceSelector": {"matchLabels": {"team": "theirs"}}, "podSelector": {}}]},
            ["ip daddr { 10.244.0.4 } return"],
            id="another namespace",
        ),
        pytest.param({"to": [{"podSelector": {"matchLabels": {"name": "none"}}}]}, [], id="a pod that is not there"),
        pytest.param(
            {"ports": [{"port": 9092, "endPort": 9094}, {"port": 53, "protocol": "UDP"}, {"protocol": "UDP"}]},
            ["tcp dport 9092-9094 return", "udp dport 53 return", "meta l4proto udp return"],
            id="ranges and protocols",
        ),
        pytest.param(
            {"to": [{"podSelector": {"matchLabels": {"name": "database"}}}], "ports": [{"port": "metrics"}]},
            ["ip daddr { 10.244.0.3 } tcp dport 8000 return"],
            id="a port by the name that the called pod gives it",
        ),
    ],
)
def test_egress_when_a_rule_lets_out_then_so_does_the_chain_and_all_else_is_dropped(
    rule: Manifest, expected: list[str]
) -> None:
    assert rules(egress(rule)) == [*expected, "drop"]


def test_ingress_when_a_rule_lets_in_then_by_the_address_that_a_packet_comes_from() -> None:
    rule = {"from": [{"podSelector": {"matchLabels": {"name": "web"}}}], "ports": [{"port": "metrics"}]}
    found = rules(policy(policyTypes=["Ingress"], ingress=[rule]), of="ingress-10.244.0.3")
    assert found == ["ip saddr { 10.244.0.2 } tcp dport 8000 return", "drop"]


def test_policies_when_several_hold_for_a_pod_then_each_lets_through() -> None:
    both = rules(
        egress({"ports": [{"port": 1}]}), policy(policyTypes=["Ingress", "Egress"]), egress({"ports": [{"port": 2}]})
    )
    assert both == ["tcp dport 1 return", "tcp dport 2 return", "drop"]


def test_pod_when_no_policy_holds_for_it_then_it_is_let_through_and_unknown_addresses_are_not() -> None:
    found = rules(policy("theirs", policyTypes=["Egress"]), of="egress")
    targets = "10.244.0.2 : return, 10.244.0.3 : return, 10.244.0.4 : goto egress-10.244.0.4"
    assert found == [f"ip saddr vmap {{ {targets} }}", "drop"]


@pytest.mark.parametrize(
    "change", [{"spec": {"hostNetwork": True, "containers": []}}, {"status": {"phase": "Pending"}}]
)
def test_pod_when_it_has_no_address_of_its_own_then_nothing_is_said_of_it(change: Manifest) -> None:
    script = ruleset(Cluster([WEB | change], NAMESPACES, []))
    assert chain(script, "egress") == ["drop"]


def test_types_when_a_policy_does_not_name_them_then_egress_only_if_it_has_rules_for_it() -> None:
    script = ruleset(Cluster([WEB], NAMESPACES, [policy()]))
    assert chain(script, "ingress-10.244.0.2") == ["drop"]
    assert "egress-10.244.0.2" not in script


def test_pods_when_they_send_then_nothing_leaves_the_machine() -> None:
    forward = rules(of="forward")
    assert 'ip saddr 10.244.0.0/24 oifname != { "gitops-pods", "gitops-node" } drop' in forward


@pytest.mark.parametrize(
    ("operator", "values", "taken"),
    [("In", ["web"], True), ("NotIn", ["web"], False), ("Exists", None, True), ("DoesNotExist", None, False)],
)
def test_selector_when_it_has_an_expression_then_labels_have_to_meet_it(
    operator: str, values: list[str] | None, taken: bool
) -> None:
    expression = {"key": "name", "operator": operator} | ({"values": values} if values else {})
    assert selects({"matchExpressions": [expression]}, WEB) is taken
