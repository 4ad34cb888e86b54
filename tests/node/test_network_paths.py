"""Who gets where: every network policy of k8s/, enforced, by connections that pods make.

A Service is reached by its address, and judged by the pods and ports behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

from devstack.harness.hosted import HostedStack
from devstack.stack.node_addresses import NODE
from tests.component.k8s.manifests import FOLDER
from tests.node.kubectl import OURS, Kubectl
from tests.node.paths import (
    ELSEWHERE,
    METRICS_PORT,
    OF_ALL,
    PRIVATE_PLACES,
    PUBLIC,
    RESERVED_PLACES,
    Place,
    Source,
    address_of,
    answering_themselves,
    elsewhere_than,
    labelled,
    on_this_machine,
    stand_in,
)

pytestmark = pytest.mark.short

ENGINE, OTHER_ENGINE = "gitops-service-argocd", "gitops-service-argocd-2"
TENANT, MONITORING, CONNECT = "paths-tenant", "monitoring", "paths-connect"

REPO_SERVER, CONTROLLER, REDIS = "argocd-repo-server", "argocd-application-controller", "argocd-redis"
PROXY, REPLICA = "argocd-redis-ha-haproxy", "argocd-redis-ha"
APPLICATION_SETS, NOTIFICATIONS = "argocd-applicationset-controller", "argocd-notifications-controller"
AT_A_TIME = 4
"""Pods that connect: each waits for what does not answer."""
OTHER_PORT = 4000
"""That no policy names."""

TENANTS_PORTS = {
    "a tenant's pod": 8080,
    "a tenant's pod over TLS": 443,
    "a tenant's Kafka": 9093,
    "a tenant's registry": 8443,
    "a tenant's database": 5432,
    "a tenant's Connect": 8083,
    "a tenant's DNS": 53,
    "a tenant's redis": 6379,
    "a tenant's repo server": 8081,
}
"""What a tenant's pod listens on, beside the API server's port: a policy must not mean anybody's port."""

STAND_INS = {
    # A tenant may label a pod as it likes: in its own namespace that is no way in.
    "tenant": (TENANT, labelled("any") | {"k8s-app": "kube-dns"}, (*TENANTS_PORTS.values(),)),
    "tenant's keeper": (TENANT, labelled("connector-keeper"), (8080,)),
    "tenant's controller": (TENANT, labelled(CONTROLLER), (8080,)),
    "monitoring": (MONITORING, {}, (8080,)),
    "beside DNS": ("kube-system", labelled("any"), (53,)),
    "migration": (OURS, labelled("database-upgrade"), (8080,)),
    "key rotation": (OURS, labelled("key-rotation"), (8080,)),
    "backup": (OURS, labelled("backup"), (8080,)),
    "provisioner": (OURS, labelled("provisioner"), (8080, METRICS_PORT)),
    "beside ours": (OURS, labelled("any"), (8080,)),
    "Connect": (CONNECT, labelled("kafka-connect"), (8083, OTHER_PORT)),
    "Connect's other worker": (CONNECT, labelled("kafka-connect"), (8083,)),
    "beside Connect": (CONNECT, labelled("any"), (8080,)),
    "repo server": (ENGINE, labelled(REPO_SERVER), (8081, 8084, OTHER_PORT)),
    "controller": (ENGINE, labelled(CONTROLLER), (8082, OTHER_PORT)),
    "redis": (ENGINE, labelled(REDIS), (6379, OTHER_PORT)),
    # Of a highly available Argo CD.
    "redis proxy": (ENGINE, labelled(PROXY), (6379,)),
    "redis replica": (ENGINE, labelled(REPLICA), (6379, 26379, OTHER_PORT)),
    "other redis replica": (ENGINE, labelled(REPLICA), (6379,)),
    # Of an Argo CD that has more than is needed.
    "application sets": (ENGINE, labelled(APPLICATION_SETS), (8080, OTHER_PORT)),
    "notifications": (ENGINE, labelled(NOTIFICATIONS), (9001,)),
    "Argo CD's server": (ENGINE, labelled("argocd-server"), (8080,)),
    "other controller": (OTHER_ENGINE, labelled(CONTROLLER), (8082,)),
    "beside Argo CD": (ENGINE, labelled("any"), (6379, 8081)),
}
"""Namespace, labels and ports of pods that stand for others."""

NAMESPACE_NAME = "kubernetes.io/metadata.name"
NAME_SERVICE = {"dns", "dns over UDP"}
PUBLIC_PORTS = {"public ssh", "public https", "public 6443"}
# A tenant's cluster may be on a private network: agents try there, and only there, what Argo CD is told of apart.
TRIED_BY_AGENTS = PUBLIC_PORTS | PRIVATE_PLACES | RESERVED_PLACES
PATHS = {
    "watcher": {*NAME_SERVICE, "kafka", "registry", "api server"},
    "planner": {*NAME_SERVICE, "kafka", "registry", "postgres"},
    "agent": {*NAME_SERVICE, "kafka", "registry", "api server", *TRIED_BY_AGENTS},
    "connector-keeper": {*NAME_SERVICE, "connect", "Connect"},
    "migration": {*NAME_SERVICE, "postgres"},
    "key rotation": {*NAME_SERVICE, "api server"},
    "backup": {*NAME_SERVICE, "postgres", "public https"},  # where its store is
    "provisioner": {*NAME_SERVICE, "kafka", "registry", "api server"},
    "beside ours": set[str](),
    "repo server": {*NAME_SERVICE, "redis", "redis proxy", *PUBLIC_PORTS, "public http"},
    "controller": {
        *NAME_SERVICE, "redis", "redis proxy", "repo server", "api server", *PUBLIC_PORTS, "public http",
    },
    "redis": {"api server"},
}  # fmt: skip
"""Where each of our pods, and of Argo CD's, gets to; nothing comes back from any other place."""

METRICS = {
    "watcher's metrics",
    "planner's metrics",
    "agent's metrics",
    "provisioner's metrics",
    "repo server's metrics",
    "controller's metrics",
    "application sets' metrics",
    "notifications' metrics",
}
CACHES = {"redis", "redis proxy"}
GUARDED = METRICS | CACHES | {
    "migration",
    "key rotation",
    "backup",
    "provisioner",
    "beside ours",
    "redis, another port",
    "redis replica",
    "redis replica's sentinel",
    "redis replica, another port",
    "repo server",
    "repo server, another port",
    "controller, another port",
    "application sets, another port",
    "Connect",
    "Connect, another port",
}  # fmt: skip
VISITORS = {
    "tenant": set[str](),
    "tenant's keeper": set[str](),
    "tenant's controller": set[str](),
    "other controller": set[str](),
    "beside DNS": set[str](),
    "beside Argo CD": set[str](),
    "beside Connect": set[str](),
    "Connect's other worker": {"Connect"},
    "redis proxy": {"redis replica", "redis replica's sentinel"},
    "other redis replica": {"redis replica", "redis replica's sentinel"},
    "application sets": {"repo server"},
    "notifications": {"repo server"},
    "Argo CD's server": {*CACHES, "repo server"},
    "monitoring": METRICS,
}
"""Which guarded places others get to."""


@pytest.fixture(scope="module")
def api_port(stack: HostedStack) -> int:
    """What the API server itself listens on."""
    return int(stack.state.recall("ports")["kube-apiserver"])


@pytest.fixture(scope="module")
def sources(kubectl: Kubectl, api_port: int) -> Iterator[dict[str, Source]]:
    """Pods by the names that the tables have for them: our own, and those that stand for others."""
    ours = {name: Source(OURS, kubectl.pods_of(name)[0]["metadata"]["name"]) for name in list(PATHS)[:4]}
    with stand_ins(kubectl, api_port) as others:
        yield ours | others


@contextmanager
def stand_ins(kubectl: Kubectl, tenants_port: int) -> Iterator[dict[str, Source]]:
    """While the block lasts; the tenant's listens on one more port."""
    namespaces = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in (TENANT, MONITORING, CONNECT)
    ]
    policies = policies_of_overlays(tenants_port)
    found = {name: Source(place, f"paths-{number}") for number, (name, (place, _, _)) in enumerate(STAND_INS.items())}
    pods = [
        stand_in(found[name].namespace, found[name].pod, labels, (*ports, tenants_port) if name == "tenant" else ports)
        for name, (_, labels, ports) in STAND_INS.items()
    ]
    kubectl.apply(*namespaces)
    kubectl.apply(*pods, *policies)
    try:
        for namespace, names in by_namespace(found.values()).items():
            kubectl.run("wait", "--for=condition=Ready", f"--namespace={namespace}", "pod", *names)
        yield found
    finally:
        for namespace, names in by_namespace(found.values()).items():
            kubectl.run("delete", "pod", f"--namespace={namespace}", *names, "--force", "--ignore-not-found")
        for name, namespace in ((each["metadata"]["name"], each["metadata"]["namespace"]) for each in policies):
            kubectl.run("delete", "networkpolicy", f"--namespace={namespace}", name, "--ignore-not-found")


def by_namespace(sources: Iterable[Source]) -> dict[str, list[str]]:
    """The names of pods."""
    found: dict[str, list[str]] = {}
    for source in sources:
        found.setdefault(source.namespace, []).append(source.pod)
    return found


def policies_of_overlays(api_port: int) -> list[dict[str, Any]]:
    """Those that the node's overlay has no use for, each with the place that an operator names."""
    provisioner = yaml.safe_load((FOLDER / "provisioner" / "network-policies.yaml").read_text())
    _, servers, api_server = provisioner["spec"]["egress"]
    servers["to"] = api_server["to"] = [{"ipBlock": {"cidr": f"{NODE}/32"}}]
    api_server["ports"] = [{"port": api_port}]
    backup = yaml.safe_load((FOLDER / "backup" / "network-policy.yaml").read_text())
    backup["spec"]["egress"][0]["to"] = [{"ipBlock": {"cidr": f"{PUBLIC}/32"}}]
    connect = yaml.safe_load((FOLDER / "connect" / "network-policy.yaml").read_text())
    connect["metadata"]["namespace"] = CONNECT
    base = yaml.safe_load_all((FOLDER / "base" / "network-policies.yaml").read_text())
    (keeper,) = [each for each in base if each["metadata"]["name"] == "to-connect"]
    keeper["metadata"]["name"] = "to-connect-in-pods"  # beside the one that leads to the node
    keeper["spec"]["egress"][0]["to"] = [{"namespaceSelector": {"matchLabels": {NAMESPACE_NAME: CONNECT}}}]
    return [provisioner, backup, connect, keeper]


@pytest.fixture(scope="module")
def places(kubectl: Kubectl, sources: Mapping[str, Source], api_port: int) -> Iterator[dict[str, Place]]:
    """Everything that somebody may or may not reach."""
    of_pods = {name: address_of(source, kubectl) for name, source in sources.items()}
    (dns,) = kubectl.get("pods", "--namespace=kube-system", "--selector=k8s-app=kube-dns")["items"]
    of_pods["DNS"] = dns["status"]["podIP"]
    with on_this_machine(ELSEWHERE.values()):
        yield places_of(of_pods, api_port)


def places_of(addresses: Mapping[str, str], api_port: int) -> dict[str, Place]:
    """By name, where pods have these addresses."""

    def at(name: str, port: int) -> Place:
        return Place(addresses[name], port)

    return {
        **OF_ALL,
        "api server itself": Place(NODE, api_port),
        **{name: at("tenant", port) for name, port in TENANTS_PORTS.items()},
        "a tenant's API server": at("tenant", api_port),
        "a tenant's DNS over UDP": at("tenant", 53)._replace(protocol="UDP"),
        "DNS, another port": at("DNS", 8080),
        "beside DNS": at("beside DNS", 53),
        "beside DNS over UDP": at("beside DNS", 53)._replace(protocol="UDP"),
        **{f"{name}'s metrics": at(name, METRICS_PORT) for name in ("watcher", "planner", "agent", "provisioner")},
        **{name: at(name, 8080) for name in ("migration", "key rotation", "backup", "provisioner", "beside ours")},
        **{name: at(name, 6379) for name in ("redis", "redis proxy", "redis replica")},
        "redis replica's sentinel": at("redis replica", 26379),
        "repo server": at("repo server", 8081),
        "repo server's metrics": at("repo server", 8084),
        "controller's metrics": at("controller", 8082),
        "application sets' metrics": at("application sets", 8080),
        "notifications' metrics": at("notifications", 9001),
        "beside Argo CD's redis": at("beside Argo CD", 6379),
        "beside Argo CD's repo server": at("beside Argo CD", 8081),
        "Connect": at("Connect", 8083),
        **{f"{name}, another port": at(name, OTHER_PORT) for name in WITH_ANOTHER_PORT},
    }


WITH_ANOTHER_PORT = [name for name, (_, _, ports) in STAND_INS.items() if OTHER_PORT in ports]
SAME_AS = {"api server": "api server itself"}
"""What is reached by its Service is reached without."""


def reached_by(name: str) -> set[str]:
    """Where the pod gets to, as the table says."""
    return PATHS[name] | {SAME_AS[place] for place in PATHS[name] if place in SAME_AS}


@pytest.fixture(scope="module")
def reached(
    kubectl: Kubectl, sources: Mapping[str, Source], places: Mapping[str, Place]
) -> Iterator[dict[str, Future[set[str]]]]:
    """Where each pod of the tables gets to, of all places that are not itself."""

    def of(source: Source) -> set[str]:
        return source.reached(kubectl, elsewhere_than(address_of(source, kubectl), places))

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        yield {name: pool.submit(of, sources[name]) for name in (PATHS | VISITORS)}


@pytest.mark.parametrize("name", PATHS)
def test_pod_when_it_connects_then_it_gets_to_the_places_of_the_table_alone(
    reached: Mapping[str, Future[set[str]]], name: str
) -> None:
    assert reached[name].result() == reached_by(name)


@pytest.mark.parametrize("name", VISITORS)
def test_stranger_when_it_connects_then_what_is_guarded_answers_as_the_table_says(
    reached: Mapping[str, Future[set[str]]], name: str
) -> None:
    assert reached[name].result() & GUARDED == VISITORS[name]


def test_guarded_place_when_its_own_pod_connects_then_it_answers(
    kubectl: Kubectl, sources: Mapping[str, Source], places: Mapping[str, Place]
) -> None:
    guarded = {name: place for name, place in places.items() if name in GUARDED}
    assert answering_themselves(kubectl, sources.values(), guarded) == GUARDED


def test_tenant_when_no_policy_holds_for_its_pod_then_it_gets_to_all_that_nobody_guards(
    reached: Mapping[str, Future[set[str]]], places: Mapping[str, Place]
) -> None:
    # So that what does not answer others is there; that a pod reaches itself tells nothing.
    unguarded = {name for name in places if not name.startswith("a tenant's")} - GUARDED
    assert reached["tenant"].result() == unguarded


def test_tenants_pod_when_another_connects_that_no_policy_holds_for_then_every_port_answers(
    reached: Mapping[str, Future[set[str]]], places: Mapping[str, Place]
) -> None:
    of_tenant = {name for name in places if name.startswith("a tenant's")}
    assert reached["monitoring"].result() >= of_tenant
