"""Apicurio, the schema registry, from Maven Central."""

from __future__ import annotations

from devstack.components import java
from devstack.components.stack import Stack
from devstack.paths import COMPOSE
from devstack.stack.transport import Transport
from devstack.supervisor.health_checks import HOST, http
from devstack.supervisor.process import Node, Process

CONFIGURATION = COMPOSE / "registry" / "application.properties"
TLS = COMPOSE / "registry" / "tls.properties"


def nodes(stack: Stack) -> list[Node]:
    """The registry."""
    port = stack.ports["registry"]
    folder = stack.state.root / "registry"
    main = "io.quarkus.runner.GeneratedMain"
    class_path = java.class_path(stack.tools.registry, stack.tools.registry / "lib")
    settings = (
        *(_listener(port) if stack.transport is None else _encrypted(port, stack.transport)),
        f"-Dquarkus.http.host={HOST}",
        f"-Djava.io.tmpdir={folder}",
    )
    # Schema ids are in every message, so a schema is on the disk before its id is told to anyone.
    store = f"jdbc:h2:file:{folder}/schemas;WRITE_DELAY=0"

    async def prepare() -> None:
        stack.state.folder("registry")

    return [
        Process(
            name="registry",
            argv=java.command(stack.tools.java, "256m", (*settings, "-cp", class_path, main)),
            env=stack.base_environment() | {"REGISTRY_DATASOURCE_URL": store},
            ports={"http": port},
            ready=http(port, "/health/ready", stack.authority),
            prepare=prepare,
        )
    ]


def _listener(port: int) -> tuple[str, ...]:
    return f"-Dquarkus.config.locations={CONFIGURATION}", f"-Dquarkus.http.port={port}"


def _encrypted(port: int, transport: Transport) -> tuple[str, ...]:
    certificate, key = transport.server("registry")
    return (
        f"-Dquarkus.config.locations={CONFIGURATION},{TLS}",
        f"-Dquarkus.http.ssl-port={port}",
        f"-Dquarkus.http.ssl.certificate.files={certificate}",
        f"-Dquarkus.http.ssl.certificate.key-files={key}",
        f"-Dquarkus.oidc.public-key={transport.registry_public_key}",
    )
