"""The smallest stack that is one: what the tests of starting and ending need, ready within a second."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

from devstack.supervisor.child import Family, still_there

GONE_SECONDS = 40

ESSENTIAL = ("postgres", "database-roles", "etcd")
"""Two processes of different kinds and a step."""

LEFT_OUT = (
    "kafka",
    "registry",
    "connect",
    "kube-apiserver",
    "kube-controller-manager",
    "database-upgrade",
    "topics-apply",
    "topics-acls",
    "sealing-keys",
    "schemas-apply",
    "engines-apply",
    "connector-apply",
    "workspaces-add",
    "crds-apply",
    "engine-namespaces",
    "rbac-apply",
    "watcher",
    "planner",
    "agent-1",
    "agent-2",
    "argocd-simulator",
    "connector-keeper",
)
SMALL = ("--infra", *(argument for name in LEFT_OUT for argument in ("--without", name)))
"""Options of ``dev up`` for a small stack."""

Gitopsctl = Callable[..., subprocess.CompletedProcess[str]]
"""Runs ``gitopsctl dev`` with arguments on a state folder; never raises."""


def command(*arguments: str) -> list[str]:
    """A command line of ``gitopsctl dev``."""
    return [sys.executable, "-m", "services.cli", "dev", *arguments]


def await_gone(family: Family) -> list[int]:
    """Wait for processes to end; returns those that have not."""
    deadline = time.monotonic() + GONE_SECONDS
    while (left := still_there(family)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left
