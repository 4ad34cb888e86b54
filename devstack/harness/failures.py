"""How a process of a running stack can fail: killed, frozen, or cut off from one server. For tests and benchmarks."""

from __future__ import annotations

from collections.abc import Callable

from devstack.harness.hosted import HostedStack
from devstack.harness.owners import agent_of, leading_watcher, planner_of
from devstack.stack.links import Link

KILLED, FROZEN = "killed", "frozen"

FAILURES = (
    ("planner", KILLED),
    ("planner", FROZEN),
    ("planner", "kafka"),
    ("planner", "postgres"),
    ("watcher", KILLED),
    ("watcher", FROZEN),
    ("watcher", "kafka"),
    ("watcher", "kube-apiserver"),
    ("agent", KILLED),
    ("agent", FROZEN),
    ("agent", "kube-apiserver"),
    ("agent", "kafka"),
)
"""Service, and how the process of it fails that is at work: KILLED, FROZEN, or the server that it cannot reach."""


def at_work(stack: HostedStack, service: str, namespace: str, engine_namespace: str) -> str:
    """The process of ``service`` that does the work of the tenant, whose Applications are in ``engine_namespace``."""
    match service:
        case "planner":
            return planner_of(stack, namespace)
        case "watcher":
            return leading_watcher(stack)
        case _:
            return agent_of(stack, engine_namespace)


def inflict(stack: HostedStack, process: str, failure: str) -> Callable[[], None]:
    """Let it fail; returns what undoes it."""
    if failure == KILLED:
        stack.kill(process)
        return lambda: stack.start(process)
    if failure == FROZEN:
        stack.freeze(process)
        return lambda: stack.thaw(process)
    link = Link(process, failure)
    stack.links.cut(link)
    return lambda: stack.links.mend(link)
