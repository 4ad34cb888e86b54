"""Where Argo CD's own pods get to, and who gets to them: connections that are made in their own networks."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from devstack.harness.hosted import HostedStack
from devstack.stack.node_addresses import GIT, NODE
from devstack.toolchain.service_image import NAME as IMAGE
from tests.node.kubectl import Kubectl
from tests.node.paths import (
    ELSEWHERE,
    OF_ALL,
    Place,
    Source,
    address_of,
    answering_themselves,
    elsewhere_than,
    labelled,
    on_this_machine,
    stand_in,
)

ENGINE, OTHER_ENGINE = "gitops-service-argocd", "gitops-service-argocd-2"
TENANT, MONITORING = "paths-tenant", "monitoring"
PROBE = "probe"
"""Container that is added to a pod, for Argo CD's own has nothing to connect with."""
STARTED_SECONDS = 60

REPO_SERVER, CONTROLLER, REDIS = "argocd-repo-server", "argocd-application-controller", "argocd-redis"
PODS = {
    "repo server": (ENGINE, REPO_SERVER),
    "controller": (ENGINE, CONTROLLER),
    "redis": (ENGINE, REDIS),
    "other repo server": (OTHER_ENGINE, REPO_SERVER),
    "other controller": (OTHER_ENGINE, CONTROLLER),
}
"""Namespace and name of Argo CD's own."""

PUBLIC_PORTS = {"public ssh", "public http", "public https", "public 6443"}
METRICS = {"repo server's metrics", "controller's metrics", "other repo server's metrics"}
"""Argo CD's own policies would show them to every pod of the cluster; who asks for them gives no password."""
UNGUARDED = {*OF_ALL, "git", "api server itself"}
NAME_SERVICE = {"dns", "dns over UDP"}
PATHS = {
    "repo server": {*NAME_SERVICE, "git", "redis", *PUBLIC_PORTS},
    "controller": {*NAME_SERVICE, "redis", "repo server", "api server", "api server itself", *PUBLIC_PORTS},
    "redis": {"api server", "api server itself"},
    "tenant": UNGUARDED,
    "monitoring": UNGUARDED | METRICS,
}
"""Where each gets to; nothing comes back from any other place. No policy holds for the last two."""


@pytest.fixture(scope="module")
def sources(kubectl: Kubectl) -> Iterator[dict[str, Source]]:
    """Pods by the names that the tables have for them."""
    argocd = {name: _probe(kubectl, *place) for name, place in PODS.items()}
    others = {"tenant": Source(TENANT, "any"), "monitoring": Source(MONITORING, "any")}
    for source in others.values():
        kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": source.namespace}})
        # As a tenant may label a pod: in its own namespace that is no way in.
        kubectl.apply(stand_in(source.namespace, source.pod, labelled(CONTROLLER), (8080,)))
        kubectl.run("wait", "--for=condition=Ready", f"--namespace={source.namespace}", f"pod/{source.pod}")
    yield argocd | others
    for source in others.values():
        kubectl.run("delete", "pod", f"--namespace={source.namespace}", source.pod, "--force")


def _probe(kubectl: Kubectl, namespace: str, name: str) -> Source:
    """A container in the network of a pod that is there."""
    (pod,) = kubectl.pods_of(name, namespace)
    source = Source(namespace, pod["metadata"]["name"], PROBE)
    idle = ("--", "python", "-c", "import signal; signal.pause()")
    options = (f"--image={IMAGE}", f"--container={PROBE}", "--profile=restricted")
    kubectl.run("debug", f"--namespace={namespace}", f"pod/{source.pod}", *options, *idle)
    deadline = time.monotonic() + STARTED_SECONDS
    while not _is_running(kubectl.get("pod", f"--namespace={namespace}", source.pod)):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    return source


def _is_running(pod: dict[str, Any]) -> bool:
    found = pod["status"].get("ephemeralContainerStatuses", [])
    return any(item["name"] == PROBE and "running" in item["state"] for item in found)


@pytest.fixture(scope="module")
def places(stack: HostedStack, kubectl: Kubectl, sources: Mapping[str, Source]) -> Iterator[dict[str, Place]]:
    """Everything that somebody may or may not reach."""
    addresses = {name: address_of(sources[name], kubectl) for name in PODS}
    with on_this_machine(ELSEWHERE.values()):
        yield places_of(addresses, int(stack.state.recall("ports")["kube-apiserver"]))


def places_of(addresses: Mapping[str, str], api_port: int) -> dict[str, Place]:
    """By name, where Argo CD's pods have these addresses, and the API server listens on this port."""
    return {
        **OF_ALL,
        "git": Place(NODE, GIT),
        "api server itself": Place(NODE, api_port),
        "redis": Place(addresses["redis"], 6379),
        "repo server": Place(addresses["repo server"], 8081),
        "repo server's metrics": Place(addresses["repo server"], 8084),
        "controller's metrics": Place(addresses["controller"], 8082),
        "other repo server": Place(addresses["other repo server"], 8081),
        "other repo server's metrics": Place(addresses["other repo server"], 8084),
    }


@pytest.mark.parametrize("name", PATHS)
def test_pod_when_it_connects_then_it_gets_to_the_places_of_the_table_alone(
    kubectl: Kubectl, sources: Mapping[str, Source], places: Mapping[str, Place], name: str
) -> None:
    others = elsewhere_than(address_of(sources[name], kubectl), places)
    assert sources[name].reached(kubectl, others) == PATHS[name]


def test_place_of_argocd_when_its_own_pod_connects_then_it_answers(
    kubectl: Kubectl, sources: Mapping[str, Source], places: Mapping[str, Place]
) -> None:
    own = {name: place for name, place in places.items() if name not in UNGUARDED}
    assert answering_themselves(kubectl, sources.values(), own) == own.keys()


def test_instance_when_it_connects_to_another_then_redis_and_repo_server_do_not_answer(
    kubectl: Kubectl, sources: Mapping[str, Source], places: Mapping[str, Place]
) -> None:
    guarded = {place: places[place] for place in ("redis", "repo server")}
    assert sources["other controller"].reached(kubectl, guarded) == set()
