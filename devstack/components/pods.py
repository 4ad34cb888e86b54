"""Our services as pods, and what they are given."""

from __future__ import annotations

import sys

from devstack.components.stack import Stack
from devstack.stack.identities import IDENTITIES
from devstack.stack.node_addresses import POSTGRES, name_in_cluster
from devstack.supervisor.process import Step
from devstack.toolchain.install import NodeTools


def services(stack: Stack, tools: NodeTools, depends_on: tuple[str, ...]) -> Step:
    """The step that installs them, as operators do."""
    return Step(
        name="services",
        argv=(sys.executable, "-m", "devstack.node.services", str(tools.kubectl / "kubectl"), str(stack.node_folder)),
        env=installation_environment(stack),
        depends_on=depends_on,
        start_seconds=300,
    )


def installation_environment(stack: Stack) -> dict[str, str]:
    """All that pods are given, too."""
    passwords = {
        f"POD_KAFKA_PASSWORD_{service.upper()}": stack.secrets[f"kafka-{IDENTITIES[service].principal}"]
        for service in ("watcher", "planner", "agent")
    }
    return stack.base_environment() | stack.environment() | passwords | _registry_tokens(stack) | _database_urls(stack)


def _database_urls(stack: Stack) -> dict[str, str]:
    """As pods see the database."""
    mode = "disable" if stack.transport is None else "verify-full&sslrootcert=/authorities/database.crt"
    place = f"{name_in_cluster('postgres')}:{POSTGRES}/gitops?sslmode={mode}"
    return {
        f"POD_DATABASE_URL_{role.upper()}": f"postgresql://gitops_{role}:{stack.secrets[role]}@{place}"
        for role in ("planner", "owner")
    }


def _registry_tokens(stack: Stack) -> dict[str, str]:
    """Of our services; in clear nobody is asked for one."""
    tokens = {} if stack.transport is None else stack.transport.registry_tokens
    return {f"POD_REGISTRY_TOKEN_{name.upper()}": tokens[name] for name in ("watcher", "planner", "agent") if tokens}
