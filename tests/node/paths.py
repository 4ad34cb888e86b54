"""Connections between pods, tried: who gets where is what the enforced network policies say."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

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

SERVED = {METADATA: (80, 443), PUBLIC: (22, 80, 443, 6443, 8443), PRIVATE: (22, 443)}
"""Ports that somebody listens on there."""

Place = tuple[str, int]

OF_ALL: Mapping[str, Place] = {
    "dns": (DNS, 53),
    "kafka": (NODE, KAFKA),
    "registry": (NODE, REGISTRY),
    "postgres": (NODE, POSTGRES),
    "connect": (NODE, CONNECT),
    "api server": (API_SERVER, 443),
    "kubelet": (NODE, 10250),
    "metadata": (METADATA, 80),
    "metadata over TLS": (METADATA, 443),
    "public ssh": (PUBLIC, 22),
    "public http": (PUBLIC, 80),
    "public https": (PUBLIC, 443),
    "public 6443": (PUBLIC, 6443),
    "public, another port": (PUBLIC, 8443),
    "private https": (PRIVATE, 443),
    "private ssh": (PRIVATE, 22),
}
"""Places whose addresses are the same on every node."""

TRY = """
import concurrent.futures, json, socket, sys
def attempt(place):
    try:
        socket.create_connection(place, timeout=2).close()
    except TimeoutError:
        return "timeout"
    except OSError as error:
        return str(error)
    return "open"
places = {name: tuple(place) for name, place in json.loads(sys.argv[1]).items()}
with concurrent.futures.ThreadPoolExecutor(len(places)) as pool:
    print(json.dumps(dict(zip(places, pool.map(attempt, places.values())))))
"""
LISTEN = """
import selectors, socket, sys
selector = selectors.DefaultSelector()
for port in map(int, sys.argv[1:]):
    selector.register(socket.create_server(("", port)), selectors.EVENT_READ)
while True:
    for key, _ in selector.select():
        key.fileobj.accept()[0].close()
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


def stand_in(namespace: str, name: str, labels: Mapping[str, str], ports: tuple[int, ...]) -> dict[str, Any]:
    """A pod that listens on ``ports``, as restricted as ours are."""
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
                    "command": ["python", "-c", LISTEN, *map(str, ports)],
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                    "readinessProbe": {"tcpSocket": {"port": ports[0]}, "periodSeconds": 1},
                }
            ],
        },
    }


def labelled(name: str) -> dict[str, str]:
    """As pods of one part of an application are."""
    return {PART: name}


@contextmanager
def on_this_machine(places: Mapping[str, tuple[int, ...]]) -> Iterator[None]:
    """Servers at addresses that are elsewhere otherwise: on the node's bridge, which nothing leaves."""
    with ExitStack() as stack:
        for address, ports in places.items():
            run("ip", "address", "add", f"{address}/32", "dev", NODE_BRIDGE)
            stack.callback(run, "ip", "address", "delete", f"{address}/32", "dev", NODE_BRIDGE)
            for port in ports:
                server = stack.enter_context(socket.create_server((address, port)))
                # Otherwise it goes on listening while somebody waits for a connection, though it is closed.
                stack.callback(server.shutdown, socket.SHUT_RDWR)
                threading.Thread(target=_serve, args=(server,), daemon=True).start()
        yield


def _serve(server: socket.socket) -> None:
    with suppress(OSError):  # it is closed at the end
        while True:
            server.accept()[0].close()
