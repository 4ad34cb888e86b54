"""Which process does a tenant's work: what drills and benchmarks have to know to harm the right one."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

from aiokafka.partitioner import murmur2

from devstack.harness.hosted import HostedStack
from devstack.stack.identities import WORKSPACE
from devstack.supervisor.health_checks import HOST
from services.common.kafka import COMMANDS, load_topics, tenant_key

ANSWER_SECONDS = 5.0


def planner_of(stack: HostedStack, namespace: str) -> str:
    """The planner that owns the tenant's partition."""
    partition = _partition(tenant_key(WORKSPACE, namespace))
    return _last_to(stack, "planner", "partitions assigned", "partitions", partition)


def agent_of(stack: HostedStack, engine_namespace: str) -> str:
    """The agent that owns the engine instance."""
    return _last_to(stack, "agent", "instances assigned", "instances", engine_namespace)


def leading_watcher(stack: HostedStack) -> str:
    """The watcher that follows the workspace."""
    ports = {item["name"]: item["ports"].get("metrics") for item in stack.processes() if item["ready"]}
    watchers = {str(name): port for name, port in ports.items() if name.startswith("watcher")}
    return next(name for name, port in watchers.items() if _readiness(port) == "ok")


def _partition(key: bytes) -> int:
    (commands,) = [topic for topic in load_topics() if topic.name == COMMANDS]
    return int(murmur2(key) & 0x7FFFFFFF) % commands.partitions


def _last_to(stack: HostedStack, service: str, event: str, field: str, wanted: Any) -> str:
    """The process that was last to log an ``event`` with ``wanted`` among ``field``, and none without since."""
    processes = [str(item["name"]) for item in stack.processes() if item["name"].startswith(service) and item["ready"]]
    newest = {name: _newest(stack, name, event) for name in processes}
    owners = {name: str(line["timestamp"]) for name, line in newest.items() if wanted in line.get(field, ())}
    return max(owners, key=lambda name: owners[name])


def _newest(stack: HostedStack, process: str, event: str) -> dict[str, Any]:
    lines = (line for line in stack.state.log(process).read_text().splitlines() if f'"{event}"' in line)
    return max(map(json.loads, lines), key=lambda line: str(line["timestamp"]), default={})


def _readiness(port: int) -> str:
    with urllib.request.urlopen(f"http://{HOST}:{port}/readyz", timeout=ANSWER_SECONDS) as answer:
        text: str = answer.read().decode()
    return text
