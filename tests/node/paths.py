"""Connections between pods, tried: who gets where is what the enforced network policies say."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from devstack.node.commands import run
from devstack.stack.node_addresses import (
    API_SERVER,
    CONNECT,
    DNS,
    KAFKA,
    NODE,
    NODE_BRIDGE,
    POSTGRES,
    REGISTRY,
)
from devstack.toolchain.service_image import NAME as IMAGE
from tests.node.kubectl import PART, Kubectl

METADATA = "169.254.169.254"
PUBLIC = "203.0.113.7"
"""Of a network for documentation: here it is the machine's own."""
PRIVATE = "10.245.0.7"
"""On the node's network, but not the node."""

METRICS_PORT = 8000
"""Port of our services' metrics, which policies know by its name."""


class Place(NamedTuple):
    """What somebody connects to."""

    address: str
    port: int
    protocol: str = "TCP"


ELSEWHERE: Mapping[str, Place] = {
    "metadata": Place(METADATA, 80),
    "metadata over TLS": Place(METADATA, 443),
    "metadata at Alibaba": Place("100.100.100.200", 443),
    "metadata at Azure": Place("168.63.129.16", 443),
    "metadata at Oracle": Place("192.0.0.192", 443),
    "public ssh": Place(PUBLIC, 22),
    "public http": Place(PUBLIC, 80),
    "public https": Place(PUBLIC, 443),
    "public 6443": Place(PUBLIC, 6443),
    "public, another port": Place(PUBLIC, 8443),
    "public https over UDP": Place(PUBLIC, 443, "UDP"),
    "public dns": Place(PUBLIC, 53),
    "public dns over UDP": Place(PUBLIC, 53, "UDP"),
    "private https": Place(PRIVATE, 443),
    "private ssh": Place(PRIVATE, 22),
    "private 172.16/12": Place("172.31.255.7", 443),
    "private 192.168/16": Place("192.168.255.7", 443),
    "provider's 100.64/10": Place("100.127.255.7", 443),
    "reserved 192.0.0/24": Place("192.0.0.7", 443),
    "benchmarks' 198.18/15": Place("198.19.255.7", 443),
}
"""Places that are not on the machine otherwise: see ``on_this_machine``."""
PRIVATE_PLACES = {"private https", "private ssh", "private 172.16/12", "private 192.168/16"}
RESERVED_PLACES = {"provider's 100.64/10", "reserved 192.0.0/24", "benchmarks' 198.18/15"}

OF_ALL: Mapping[str, Place] = {
    "dns": Place(DNS, 53),
    "dns over UDP": Place(DNS, 53, "UDP"),
    "kafka": Place(NODE, KAFKA),
    "registry": Place(NODE, REGISTRY),
    "postgres": Place(NODE, POSTGRES),
    "connect": Place(NODE, CONNECT),
    "api server": Place(API_SERVER, 443),
    "kubelet": Place(NODE, 10250),
    **ELSEWHERE,
}
"""Places whose addresses are the same on every node."""

TRY = """
import concurrent.futures, json, socket, sys
# Who has domain cluster.local? Any DNS server answers; what stands in for one sends it back.
QUESTION = bytes.fromhex("00010100000100000000000007636c7573746572056c6f63616c0000060001")
def connect(address, port):
    socket.create_connection((address, port), timeout=2).close()
def ask(address, port):
    with socket.socket(type=socket.SOCK_DGRAM) as asking:
        asking.connect((address, port))
        asking.settimeout(1)
        for last in (False, True):  # a datagram may be lost
            asking.send(QUESTION)
            try:
                return asking.recv(512)
            except TimeoutError:
                if last:
                    raise
def attempt(place):
    address, port, protocol = place
    try:
        {"TCP": connect, "UDP": ask}[protocol](address, port)
    except TimeoutError:
        return "timeout"
    except OSError as error:
        return str(error)
    return "open"
places = json.loads(sys.argv[1])
with concurrent.futures.ThreadPoolExecutor(len(places)) as pool:
    print(json.dumps(dict(zip(places, pool.map(attempt, places.values())))))
"""
LISTEN = """
import selectors, socket, sys
selector = selectors.DefaultSelector()
for place in sys.argv[1:]:
    address, port = place.split(":")
    connections = socket.create_server((address, int(port)))
    datagrams = socket.socket(type=socket.SOCK_DGRAM)
    datagrams.bind((address, int(port)))
    for listening in (connections, datagrams):
        selector.register(listening, selectors.EVENT_READ)
print("ready", flush=True)
while True:
    for key, _ in selector.select():
        if key.fileobj.type == socket.SOCK_STREAM:
            key.fileobj.accept()[0].close()
        else:
            key.fileobj.sendto(*key.fileobj.recvfrom(512))
"""


@dataclass(frozen=True)
class Source:
    """A pod that connects."""

    namespace: str
    pod: str
    container: str = ""
    """Which, if it has several."""

    def attempts(self, kubectl: Kubectl, places: Mapping[str, Place]) -> dict[str, str]:
        """What came of a connection to each place."""
        said = kubectl.python(self.namespace, self.pod, TRY, json.dumps(places), container=self.container)
        found: dict[str, str] = json.loads(said)
        return found

    def reached(self, kubectl: Kubectl, places: Mapping[str, Place]) -> set[str]:
        """The places that it gets to. From all others nothing comes back at all."""
        attempts = self.attempts(kubectl, places)
        assert set(attempts.values()) <= {"open", "timeout"}, attempts
        return {name for name, outcome in attempts.items() if outcome == "open"}


def address_of(source: Source, kubectl: Kubectl) -> str:
    """Of the pod itself."""
    found = kubectl.get("pod", f"--namespace={source.namespace}", source.pod)["status"]["podIP"]
    return str(found)


def elsewhere_than(address: str, places: Mapping[str, Place]) -> dict[str, Place]:
    """The places that a pod with this address can be kept from: it always gets to itself."""
    return {name: place for name, place in places.items() if place.address != address}


def of_address(address: str, places: Mapping[str, Place]) -> dict[str, Place]:
    """The places that are a pod's own."""
    return {name: place for name, place in places.items() if place.address == address}


def answering_themselves(kubectl: Kubectl, sources: Iterable[Source], places: Mapping[str, Place]) -> set[str]:
    """The places that answer the pod whose own they are: so what does not answer others is there."""
    answered: set[str] = set()
    for source in sources:
        if own := of_address(address_of(source, kubectl), places):
            answered |= source.reached(kubectl, own)
    return answered


def stand_in(namespace: str, name: str, labels: Mapping[str, str], ports: tuple[int, ...]) -> dict[str, Any]:
    """A pod that listens on ``ports``, over TCP and UDP, as restricted as ours are; that of metrics has a name."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 10001,
                "seccompProfile": {"type": "RuntimeDefault"},
                "sysctls": [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}],
            },
            "containers": [
                {
                    "name": "any",
                    "image": IMAGE,
                    "command": ["python", "-c", LISTEN, *(f":{port}" for port in ports)],
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                    "ports": [
                        {"name": "metrics", "containerPort": METRICS_PORT} for port in ports if port == METRICS_PORT
                    ],
                    "readinessProbe": {"tcpSocket": {"port": ports[0]}, "periodSeconds": 1},
                }
            ],
        },
    }


def labelled(name: str) -> dict[str, str]:
    """As pods of one part of an application are."""
    return {PART: name}


@contextmanager
def on_this_machine(places: Iterable[Place]) -> Iterator[None]:
    """Servers at addresses that are elsewhere otherwise: on the node's bridge, which nothing leaves."""
    listeners = sorted({f"{place.address}:{place.port}" for place in places})
    with ExitStack() as stack:
        for address in sorted({place.address for place in places}):
            run("ip", "address", "add", f"{address}/32", "dev", NODE_BRIDGE)
            stack.callback(run, "ip", "address", "delete", f"{address}/32", "dev", NODE_BRIDGE)
        command = [sys.executable, "-c", LISTEN, *listeners]
        server = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        stack.callback(server.kill)
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        yield
