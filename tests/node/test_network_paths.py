"""Who gets where: every network policy of k8s/, enforced, by connections that pods make.

A Service is reached by its address, and judged by the pods and ports behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

from devstack.harness.hosted import HostedStack
from devstack.stack.node_addresses import NODE
from tests.component.k8s.manifests import FOLDER
from tests.node.kubectl import OURS, Kubectl
from tests.node.paths import (
    OF_ALL,
    PUBLIC,
    SERVED,
    Place,
    Source,
    labelled,
    on_this_machine,
    stand_in,
)

pytestmark = pytest.mark.short

ENGINE, OTHER_ENGINE = "gitops-service-argocd", "gitops-service-argocd-2"
TENANT, MONITORING, CONNECT = "paths-tenant", "monitoring", "paths-connect"

REPO_SERVER, CONTROLLER, REDIS = "argocd-repo-server", "argocd-application-controller", "argocd-redis"
STAND_INS = {
    "tenant": (TENANT, labelled("any"), (8080, 8083, 443)),
    # As a tenant may label a pod: in its own namespace that is no way in.
    "tenant's keeper": (TENANT, labelled("connector-keeper"), (8080,)),
    "tenant's controller": (TENANT, labelled(CONTROLLER), (8080,)),
    "monitoring": (MONITORING, {}, (8080,)),
    "migration": (OURS, labelled("database-upgrade"), (8080,)),
    "key rotation": (OURS, labelled("key-rotation"), (8080,)),
    "backup": (OURS, labelled("backup"), (8080,)),
    "Connect": (CONNECT, labelled("kafka-connect"), (8083,)),
    "Connect's other worker": (CONNECT, labelled("kafka-connect"), (8083,)),
    "beside Connect": (CONNECT, labelled("any"), (8080,)),
    "repo server": (ENGINE, labelled(REPO_SERVER), (8081, 8084)),
    "controller": (ENGINE, labelled(CONTROLLER), (8082,)),
    "redis": (ENGINE, labelled(REDIS), (6379,)),
    "other controller": (OTHER_ENGINE, labelled(CONTROLLER), (8082,)),
    "beside Argo CD": (ENGINE, labelled("any"), (8080,)),
}
"""Namespace, labels and ports of pods that stand for others."""

NAMESPACE_NAME = "kubernetes.io/metadata.name"
PUBLIC_PORTS = {"public ssh", "public https", "public 6443"}
PATHS = {
    "watcher": {"dns", "kafka", "registry", "api server"},
    "planner": {"dns", "kafka", "registry", "postgres"},
    "agent": {"dns", "kafka", "registry", "api server", *PUBLIC_PORTS},
    "connector-keeper": {"dns", "connect", "Connect"},
    "migration": {"dns", "postgres"},
    "key rotation": {"dns", "api server"},
    "backup": {"dns", "postgres", "public https"},  # where its store is
    "repo server": {"dns", "redis", *PUBLIC_PORTS, "public http"},
    "controller": {"dns", "redis", "repo server", "api server", *PUBLIC_PORTS, "public http"},
    "redis": {"api server"},
}
"""Where each of our pods, and of Argo CD's, gets to; nothing comes back from any other place."""

GUARDED = {
    "watcher's metrics",
    "planner's metrics",
    "agent's metrics",
    "redis",
    "repo server",
    "repo server's metrics",
    "controller's metrics",
    "Connect",
}
METRICS = {place for place in GUARDED if place.endswith("metrics")}
VISITORS = {
    "tenant": set[str](),
    "tenant's keeper": set[str](),
    "tenant's controller": set[str](),
    "other controller": set[str](),
    "beside Argo CD": set[str](),
    "beside Connect": set[str](),
    "Connect's other worker": {"Connect"},
    "monitoring": METRICS,
}
"""Which guarded places others get to."""


@pytest.fixture(scope="module")
def sources(kubectl: Kubectl) -> Iterator[dict[str, Source]]:
    """Pods by the names that the tables have for them: our own, and those that stand for others."""
    ours = {name: Source(OURS, kubectl.pods_of(name)[0]["metadata"]["name"]) for name in list(PATHS)[:4]}
    with stand_ins(kubectl) as others:
        yield ours | others


@contextmanager
def stand_ins(kubectl: Kubectl) -> Iterator[dict[str, Source]]:
    """While the block lasts."""
    namespaces = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in (TENANT, MONITORING, CONNECT)
    ]
    policies = policies_of_overlays()
    found = {name: Source(place, f"paths-{number}") for number, (name, (place, _, _)) in enumerate(STAND_INS.items())}
    pods = [
        stand_in(source.namespace, source.pod, labels, ports)
        for source, (_, labels, ports) in zip(found.values(), STAND_INS.values(), strict=True)
    ]
    kubectl.apply(*namespaces)
    kubectl.apply(*pods, *policies)
    try:
        for source in found.values():
            kubectl.run("wait", "--for=condition=Ready", f"--namespace={source.namespace}", f"pod/{source.pod}")
        yield found
    finally:
        for source in found.values():
            kubectl.run("delete", "pod", f"--namespace={source.namespace}", source.pod, "--force", "--ignore-not-found")
        for name, namespace in ((each["metadata"]["name"], each["metadata"]["namespace"]) for each in policies):
            kubectl.run("delete", "networkpolicy", f"--namespace={namespace}", name, "--ignore-not-found")


def policies_of_overlays() -> list[dict[str, Any]]:
    """Those that the node's overlay has no use for, each with the place that an operator names."""
    backup = yaml.safe_load((FOLDER / "backup" / "network-policy.yaml").read_text())
    backup["spec"]["egress"][0]["to"] = [{"ipBlock": {"cidr": f"{PUBLIC}/32"}}]
    connect = yaml.safe_load((FOLDER / "connect" / "network-policy.yaml").read_text())
    connect["metadata"]["namespace"] = CONNECT
    base = yaml.safe_load_all((FOLDER / "base" / "network-policies.yaml").read_text())
    (keeper,) = [each for each in base if each["metadata"]["name"] == "to-connect"]
    keeper["metadata"]["name"] = "to-connect-in-pods"  # beside the one that leads to the node
    keeper["spec"]["egress"][0]["to"] = [{"namespaceSelector": {"matchLabels": {NAMESPACE_NAME: CONNECT}}}]
    return [backup, connect, keeper]


def address_of(source: Source, kubectl: Kubectl) -> str:
    """Of the pod itself."""
    found = kubectl.get("pod", f"--namespace={source.namespace}", source.pod)["status"]["podIP"]
    return str(found)


@pytest.fixture(scope="module")
def places(stack: HostedStack, kubectl: Kubectl, sources: Mapping[str, Source]) -> Iterator[dict[str, Place]]:
    """Everything that somebody may or may not reach."""
    api_port = int(stack.state.recall("ports")["kube-apiserver"])

    def address(name: str) -> str:
        return address_of(sources[name], kubectl)

    with on_this_machine(SERVED):
        yield {
            **OF_ALL,
            "a tenant's pod": (address("tenant"), 8080),
            "a tenant's pod over TLS": (address("tenant"), 443),
            "a tenant's Connect": (address("tenant"), 8083),
            **{f"{name}'s metrics": (address(name), 8000) for name in ("watcher", "planner", "agent")},
            "redis": (address("redis"), 6379),
            "repo server": (address("repo server"), 8081),
            "repo server's metrics": (address("repo server"), 8084),
            "controller's metrics": (address("controller"), 8082),
            "Connect": (address("Connect"), 8083),
            "api server itself": (NODE, api_port),
        }


SAME_AS = {"api server": "api server itself"}
"""What is reached by its Service is reached without."""
REFUSED_TO_ARGOCD = {"private https", "private ssh"}


@pytest.mark.parametrize("name", PATHS)
def test_pod_when_it_connects_then_it_gets_to_the_places_of_the_table_alone(
    kubectl: Kubectl, sources: Mapping[str, Source], places: Mapping[str, Place], name: str
) -> None:
    expected = PATHS[name] | {SAME_AS[place] for place in PATHS[name] if place in SAME_AS}
    # A tenant's cluster may be on a private network: agents try there, and only there, what Argo CD is told of apart.
    expected |= REFUSED_TO_ARGOCD if name == "agent" else set()
    own = address_of(sources[name], kubectl)
    others = {place: target for place, target in places.items() if target[0] != own}
    assert sources[name].reached(kubectl, others) == expected


@pytest.mark.parametrize("name", VISITORS)
def test_stranger_when_it_connects_then_what_is_guarded_answers_as_the_table_says(
    kubectl: Kubectl, sources: Mapping[str, Source], places: Mapping[str, Place], name: str
) -> None:
    guarded = {place: places[place] for place in GUARDED}
    assert sources[name].reached(kubectl, guarded) == VISITORS[name]


def test_tenant_when_no_policy_holds_for_its_pod_then_it_gets_to_all_that_nobody_guards(
    kubectl: Kubectl, sources: Mapping[str, Source], places: Mapping[str, Place]
) -> None:
    # So that what does not answer others is there.
    unguarded = {name: place for name, place in places.items() if name not in GUARDED}
    assert sources["tenant"].reached(kubectl, unguarded) == set(unguarded)
