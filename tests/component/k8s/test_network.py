"""Who may reach whom, as the network policies say it."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from services.common import addresses
from tests.component.k8s.manifests import (
    FOLDER,
    PART,
    SERVICES,
    Pod,
    Rendered,
    allowed,
    built,
    environment,
    may_reach,
    of_kind,
    selects,
    within,
    workloads,
)

EVERY = {"watcher", "planner", "agent", "connector-keeper", "database-upgrade", "key-rotation", "backup"}
WAYS = {
    "from-metrics": {*SERVICES},
    "to-dns": EVERY,
    "to-kafka": {*SERVICES},
    "to-schema-registry": {*SERVICES},
    "to-postgresql": {"planner", "database-upgrade", "backup"},
    "to-backup-store": {"backup"},
    "to-connect": {"connector-keeper"},
    "to-api-server": {"watcher", "agent", "key-rotation"},
    "to-tenants": {"agent"},
}
"""Whom each policy lets through."""

OWN = "gitops-service"
METADATA = ("169.254.169.254", "fd00:ec2::254", "100.100.100.200")


def test_pods_when_no_policy_says_otherwise_then_nothing_goes_in_or_out(rendered: Rendered) -> None:
    policy = of_kind("NetworkPolicy", rendered.base)["default-deny"]["spec"]
    assert policy == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def test_connect_when_it_is_called_then_by_its_keeper_and_other_workers_alone(
    rendered: Rendered, kustomize: Path
) -> None:
    policies = [*rendered.example, *built(kustomize, FOLDER / "overlays" / "example" / "connect")]
    policies = [item for item in policies if item["kind"] == "NetworkPolicy"]
    worker = Pod("kafka", {PART: "kafka-connect"})
    pods = {name: Pod(OWN, item["metadata"]["labels"]) for name, item in workloads(rendered.everything).items()}
    strangers = {
        "beside it": Pod("kafka", {PART: "any"}),
        "a tenant's": Pod("tenant", {PART: "connector-keeper"}),
        "another worker": worker,
    }
    callers = {name for name, pod in (pods | strangers).items() if may_reach(pod, worker, 8083, policies)}
    assert callers == {"connector-keeper", "another worker"}


def test_policies_when_rendered_then_they_are_those_of_the_table(rendered: Rendered) -> None:
    assert of_kind("NetworkPolicy", within(OWN, rendered.example)).keys() == {*WAYS, "default-deny"}


@pytest.mark.parametrize("name", WAYS)
def test_policy_when_it_opens_a_way_then_to_those_who_need_it(rendered: Rendered, name: str) -> None:
    selector = of_kind("NetworkPolicy", rendered.example)[name]["spec"]["podSelector"]
    assert {pod for pod, item in workloads(rendered.everything).items() if selects(selector, item)} == WAYS[name]


@pytest.mark.parametrize("name", WAYS)
def test_policy_when_it_opens_a_way_then_in_one_direction_with_peers_and_ports(rendered: Rendered, name: str) -> None:
    spec = of_kind("NetworkPolicy", rendered.example)[name]["spec"]
    way, peers = ("ingress", "from") if name.startswith("from-") else ("egress", "to")
    assert spec["policyTypes"] == [way.capitalize()]
    assert all(rule[peers] and rule["ports"] for rule in spec[way])


def test_tenants_servers_when_reached_then_nowhere_that_the_agents_refuse_themselves(rendered: Rendered) -> None:
    policy = of_kind("NetworkPolicy", rendered.base)["to-tenants"]["spec"]
    excepted = {item for rule in policy["egress"] for peer in rule["to"] for item in peer["ipBlock"]["except"]}
    refused = {str(network) for _, networks in addresses._REFUSED for network in networks}
    assert excepted == refused


@pytest.mark.parametrize("address", METADATA)
def test_metadata_service_when_asked_then_no_policy_lets_through(rendered: Rendered, address: str) -> None:
    policies = of_kind("NetworkPolicy", rendered.base).values()
    assert not any(allowed(address, policy) for policy in policies if policy["spec"].get("egress"))


def test_own_cluster_when_the_operator_names_its_networks_then_agents_do_not_reach_it(rendered: Rendered) -> None:
    policy = of_kind("NetworkPolicy", rendered.example)["to-tenants"]
    assert allowed("10.20.0.7", policy)  # a tenant's cluster beside ours
    assert not allowed("10.128.0.7", policy)
    assert not allowed("172.30.0.1", policy)


@pytest.mark.parametrize("name", ["to-api-server", "argocd-to-api-server"])
def test_api_server_when_the_operator_names_it_then_by_address_and_by_the_port_behind_its_service(
    rendered: Rendered, name: str
) -> None:
    named = {"to": [{"ipBlock": {"cidr": "10.20.0.1/32"}}], "ports": [{"port": 6443}]}
    assert of_kind("NetworkPolicy", rendered.example)[name]["spec"]["egress"] == [named]


def test_names_when_agents_look_them_up_then_none_is_completed_to_one_of_this_cluster(rendered: Rendered) -> None:
    first_as_it_is = {"options": [{"name": "ndots", "value": "1"}]}
    assert workloads(rendered.base)["agent"]["spec"]["dnsConfig"] == first_as_it_is
    pod = workloads(rendered.example)["agent"]["spec"]
    assert pod["dnsPolicy"] == "None"  # nothing of the node's or the cluster's is added
    assert pod["dnsConfig"] == first_as_it_is | {"nameservers": ["172.30.0.10"]}


def test_names_when_nothing_completes_them_then_the_agents_own_are_complete(rendered: Rendered) -> None:
    settings = environment("agent", rendered.example)
    registry = urlsplit(settings["SCHEMA_REGISTRY_URL"]).netloc
    places = [*settings["KAFKA_BOOTSTRAP_SERVERS"].split(","), registry]
    assert [place for place in places if not place.partition(":")[0].endswith(".svc.cluster.local")] == []
