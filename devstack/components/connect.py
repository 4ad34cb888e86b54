"""Kafka Connect with Debezium's PostgreSQL connector and Apicurio's Avro converter."""

from __future__ import annotations

from pathlib import Path

import certifi

from devstack.components import java, kafka, toxiproxy
from devstack.components.stack import Stack
from devstack.paths import COMPOSE
from devstack.stack.transport import Transport
from devstack.supervisor.health_checks import HOST, http
from devstack.supervisor.process import Node, Probe, Process

CONFIGURATION = COMPOSE / "connect" / "worker.properties"
TLS = COMPOSE / "connect" / "tls.properties"


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
            env=stack.base_environment() | connector_environment(stack.seen_by("connect")),
            ports={"http": port},
            ready=_ready(stack),
            prepare=lambda: _prepare(stack, properties),
            depends_on=("topics-acls", "registry", "database-roles", *((toxiproxy.NAME,) if stack.with_links else ())),
        )
    ]


def connector_environment(stack: Stack) -> dict[str, str]:
    """What ``connector.json`` and ``worker.properties`` refer to as ``${env:…}``."""
    return {
        "GITOPS_DATABASE_HOST": HOST,
        "GITOPS_DATABASE_PORT": str(stack.ports["postgres"]),
        "GITOPS_REPLICATION_PASSWORD": stack.secrets["replication"],
        "GITOPS_REGISTRY_URL": stack.registry_url(),
        "GITOPS_CONNECT_PASSWORD": stack.secrets["kafka-connect"],
    } | (_IN_CLEAR if stack.transport is None else _encrypted(stack.transport, stack.secrets["connect-stores"]))


_IN_CLEAR = {
    "GITOPS_DATABASE_SSLMODE": "disable",  # it listens on this machine only
    "GITOPS_DATABASE_CA": certifi.where(),  # read, and not asked
    "GITOPS_REGISTRY_CA": certifi.where(),
    "GITOPS_REGISTRY_TOKEN": "none",
}


def _encrypted(transport: Transport, store_password: str) -> dict[str, str]:
    keystore, truststore = transport.connect_stores
    return {
        "GITOPS_DATABASE_SSLMODE": "verify-full",
        "GITOPS_DATABASE_CA": str(transport.authority),
        "GITOPS_REGISTRY_CA": str(transport.authority),
        "GITOPS_REGISTRY_TOKEN": transport.registry_tokens["connect"],
        "GITOPS_KAFKA_CA": str(transport.authority),
        "GITOPS_CONNECT_KEYSTORE": str(keystore),
        "GITOPS_CONNECT_TRUSTSTORE": str(truststore),
        "GITOPS_CONNECT_KEYSTORE_PASSWORD": store_password,
    }


def _ready(stack: Stack) -> Probe:
    port, transport = stack.ports["connect"], stack.transport
    if transport is None:
        return http(port, "/health")
    return http(port, "/health", transport.connect_authority, transport.keeper)


async def _prepare(stack: Stack, properties: Path) -> None:
    _write(stack, properties)


def _write(stack: Stack, properties: Path) -> None:
    stack.state.folder("connect")
    own = {
        "bootstrap.servers": f"{HOST}:{stack.seen_by('connect').ports['kafka-sasl']}",
        "listeners": f"{'http' if stack.transport is None else 'https'}://{HOST}:{stack.ports['connect']}",
        "plugin.path": f"{stack.tools.debezium},{stack.tools.converter.parent}",
    }
    encrypted = {} if stack.transport is None else java.properties(TLS)
    properties.write_text(java.overlaid(CONFIGURATION, encrypted | own))
