"""One stack: its state, ports, secrets and programs, and from these every process it consists of."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from services.cli.dev.probes import HOST
from services.cli.dev.state import State
from services.cli.dev.toolchain import Toolchain

ENGINE_NAMESPACES = ("gitops-service-argocd", "gitops-service-argocd-2")
WORKSPACE = "local"

INHERITED = ("PATH", "HOME", "LANG", "TMPDIR", "SSL_CERT_FILE")
"""Of the caller's environment, what the children get: a stray LOG_LEVEL or JAVA_OPTS must not change the stack."""


@dataclass(frozen=True)
class Stack:
    """What the process definitions are made from."""

    state: State
    ports: Mapping[str, int]
    secrets: Mapping[str, str]
    tools: Toolchain
    durable: bool
    """Survive a crash of the machine: databases flush to the disk."""

    def environment(self) -> dict[str, str]:
        """What clients of this stack need to know: the services', the steps' and ``dev env``'s variables."""
        return {
            "KAFKA_BOOTSTRAP_SERVERS": f"{HOST}:{self.ports['kafka']}",
            "SCHEMA_REGISTRY_URL": f"{self.registry_url()}/apis/ccompat/v7",
            "CONNECT_URL": f"http://{HOST}:{self.ports['connect']}",
            "DATABASE_URL": self.database_url("planner"),
            "DATABASE_OWNER_URL": self.database_url("owner"),
            "KUBECONFIG": str(self.state.kubeconfig),
            "WORKSPACE": WORKSPACE,
            "ENGINE_NAMESPACES": ",".join(ENGINE_NAMESPACES),
        }

    def database_url(self, role: str) -> str:
        """URL of the database ``gitops`` for a role of ``compose/postgres/init.sql``, without its prefix."""
        return f"postgresql://gitops_{role}:{self.secrets[role]}@{HOST}:{self.ports['postgres']}/gitops"

    def registry_url(self) -> str:
        """Root of the schema registry."""
        return f"http://{HOST}:{self.ports['registry']}"

    def base_environment(self) -> dict[str, str]:
        """What every child gets."""
        return {name: os.environ[name] for name in INHERITED if name in os.environ} | {"TZ": "UTC"}
