"""Which process does a tenant's work: what drills and benchmarks have to know to harm the right one."""

from __future__ import annotations

import json
import time
import urllib.request
from typing import Any

from aiokafka.partitioner import murmur2

from devstack.harness.hosted import HostedStack
from devstack.stack.identities import WORKSPACE
from devstack.supervisor.health_checks import HOST
from services.common.errors import Unavailable
from services.common.kafka import COMMANDS, load_topics, tenant_key

ANSWER_SECONDS = 5.0
SETTLED_SECONDS = 120.0
LOOK_SECONDS = 0.2

ASSIGNMENTS = {"planner": ("partitions assigned", "partitions"), "agent": ("instances assigned", "instances")}
"""What a process logs when it is given its share, and the field that names it. A watcher leads, or does not."""


def planner_of(stack: HostedStack, namespace: str) -> str:
    """The planner that owns the tenant's partition."""
    return _last_to(stack, "planner", partition_of(namespace))


def partition_of(namespace: str) -> int:
    """The tenant's."""
    (commands,) = [topic for topic in load_topics() if topic.name == COMMANDS]
    return int(murmur2(tenant_key(WORKSPACE, namespace)) & 0x7FFFFFFF) % commands.partitions


def agent_of(stack: HostedStack, engine_namespace: str) -> str:
    """The agent that owns the engine instance."""
    return _last_to(stack, "agent", engine_namespace)


def leading_watcher(stack: HostedStack) -> str:
    """The watcher that follows the workspace; one that has just begun to is awaited. Raises Unavailable."""
    deadline = time.monotonic() + SETTLED_SECONDS
    while not (leading := [name for name, readiness in _watchers(stack).items() if readiness == "ok"]):
        if time.monotonic() > deadline:
            raise Unavailable("no watcher leads")
        time.sleep(LOOK_SECONDS)
    return leading[0]


def shares_of(stack: HostedStack, service: str) -> dict[str, frozenset[Any]]:
    """What each process of the service that is ready does all the work of: partitions, instances, or the workspace."""
    if service in ASSIGNMENTS:
        return {name: frozenset(share) for name, (_, share) in _assigned(stack, service).items()}
    return {name: frozenset({WORKSPACE} if says == "ok" else ()) for name, says in _watchers(stack).items()}


def await_shares(stack: HostedStack, service: str) -> None:
    """Return when each process of the service has a share that no other has: whoever was away is back.

    Raises Unavailable.
    """
    deadline = time.monotonic() + SETTLED_SECONDS
    while service in ASSIGNMENTS and not _are_apart(list(_assigned(stack, service).values())):
        if time.monotonic() > deadline:
            raise Unavailable(f"not every {service} has a share")
        time.sleep(LOOK_SECONDS)


def await_replaced(stack: HostedStack, service: str, process: str) -> None:
    """Return when a process whose work another does by now has noticed that. Raises Unavailable."""
    await_shares(stack, service)
    deadline = time.monotonic() + SETTLED_SECONDS
    while service == "watcher" and _watchers(stack).get(process) != "standby":
        if time.monotonic() > deadline:
            raise Unavailable(f"{process} does not know that it does not lead any more")
        time.sleep(LOOK_SECONDS)


def _watchers(stack: HostedStack) -> dict[str, str]:
    """What each one that is ready says: ok, or that it stands by."""
    ready = [item for item in stack.processes() if item["ready"] and item["name"].startswith("watcher")]
    return {item["name"]: _readiness(item["ports"]["metrics"]) for item in ready}


def _are_apart(shares: list[tuple[str, list[Any]]]) -> bool:
    everything = [each for _, share in shares for each in share]
    return all(share for _, share in shares) and len(everything) == len(set(everything))


def _last_to(stack: HostedStack, service: str, wanted: Any) -> str:
    """The process that was last to be given a share with ``wanted``, and none without since."""
    owners = {name: since for name, (since, share) in _assigned(stack, service).items() if wanted in share}
    return max(owners, key=lambda name: owners[name])


def _assigned(stack: HostedStack, service: str) -> dict[str, tuple[str, list[Any]]]:
    """Of each process that is ready: since when it has which share."""
    event, field = ASSIGNMENTS[service]
    processes = [str(item["name"]) for item in stack.processes() if item["name"].startswith(service) and item["ready"]]
    newest = {name: _newest(stack, name, event) for name in processes}
    return {name: (str(line.get("timestamp", "")), line.get(field, [])) for name, line in newest.items()}


def _newest(stack: HostedStack, process: str, event: str) -> dict[str, Any]:
    """The last one of these lines: its time need not be the latest, as clocks are set."""
    lines = [line for line in stack.state.log(process).read_text().splitlines() if f'"{event}"' in line]
    newest: dict[str, Any] = json.loads(lines[-1]) if lines else {}
    return newest


def _readiness(port: int) -> str:
    """What a process says of itself; empty: nothing, or that it is not ready."""
    try:
        with urllib.request.urlopen(f"http://{HOST}:{port}/readyz", timeout=ANSWER_SECONDS) as answer:
            text: str = answer.read().decode()
    except OSError:
        return ""
    return text
