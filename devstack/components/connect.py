"""Kafka Connect with Debezium's PostgreSQL connector and Apicurio's Avro converter."""

from __future__ import annotations

from pathlib import Path

from devstack.components import java, kafka
from devstack.components.stack import Stack
from devstack.paths import COMPOSE
from devstack.supervisor.health_checks import HOST, http
from devstack.supervisor.process import Node, Process

CONFIGURATION = COMPOSE / "connect" / "worker.properties"


def nodes(stack: Stack) -> list[Node]:
    """The worker. It waits for all that its connector talks to, so that it ends before any of these."""
    port = stack.ports["connect"]
    folder = stack.state.root / "connect"
    properties = folder / "worker.properties"
    main = ("-cp", java.class_path(stack.tools.kafka), "org.apache.kafka.connect.cli.ConnectDistributed")
    return [
        Process(
            name="connect",
            argv=java.command(stack.tools.java, "384m", (kafka.LOGGING, *main, str(properties))),
            env=stack.base_environment() | connector_environment(stack),
            ports={"http": port},
            ready=http(port, "/health"),
            prepare=lambda: _prepare(stack, properties),
            depends_on=("topics-acls", "registry", "database-roles"),
        )
    ]


def connector_environment(stack: Stack) -> dict[str, str]:
    """What ``connector.json`` and ``worker.properties`` refer to as ``${env:…}``."""
    return {
        "GITOPS_DATABASE_HOST": HOST,
        "GITOPS_DATABASE_PORT": str(stack.ports["postgres"]),
        "GITOPS_DATABASE_SSLMODE": "disable",  # it listens on this machine only
        "GITOPS_REPLICATION_PASSWORD": stack.secrets["replication"],
        "GITOPS_REGISTRY_URL": stack.registry_url(),
        "GITOPS_CONNECT_PASSWORD": stack.secrets["kafka-connect"],
    }


async def _prepare(stack: Stack, properties: Path) -> None:
    _write(stack, properties)


def _write(stack: Stack, properties: Path) -> None:
    stack.state.folder("connect")
    own = {
        "bootstrap.servers": f"{HOST}:{stack.ports['kafka-sasl']}",
        "listeners": f"http://{HOST}:{stack.ports['connect']}",
        "plugin.path": f"{stack.tools.debezium},{stack.tools.converter.parent}",
    }
    properties.write_text(java.overlaid(CONFIGURATION, own))
