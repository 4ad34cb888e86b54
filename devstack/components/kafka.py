"""The Kafka broker, its own controller, from Maven Central."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from devstack.components import java
from devstack.components.stack import Stack
from devstack.paths import COMPOSE
from devstack.stack.node_addresses import KAFKA, name_in_cluster
from devstack.stack.transport import OPERATOR, Transport
from devstack.supervisor.child import run_to_end
from devstack.supervisor.health_checks import HOST
from devstack.supervisor.health_checks import kafka as answers
from devstack.supervisor.process import Node, Process

CONFIGURATION = COMPOSE / "kafka"
CLUSTER_ID = "Z2l0b3BzLXNlcnZpY2UtMQ"
"""Any 16 bytes in base64; the same everywhere, so that a data folder is recognised as formatted."""

LISTENERS = ("listeners", "advertised.listeners")
MAP = "listener.security.protocol.map"
PROTOCOLS = "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
"""Of the listeners that are there in any case, in clear."""
LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required;"

LOGGING = f"-Dlog4j2.configurationFile={CONFIGURATION / 'log4j2.properties'}"


def nodes(stack: Stack) -> list[Node]:
    """The broker."""
    port = stack.ports["kafka"]
    folder = stack.state.root / "kafka"
    properties = folder / "server.properties"
    return [
        Process(
            name="kafka",
            argv=_java(stack, "kafka.Kafka", str(properties)),
            env=stack.base_environment(),
            ports={"kafka": port, "sasl": stack.ports["kafka-sasl"], "controller": stack.ports["kafka-controller"]},
            ready=answers(port) if stack.transport is None else answers(stack.ports["kafka-sasl"], stack.authority),
            prepare=lambda: _prepare(stack, folder, properties),
        )
    ]


def _java(stack: Stack, main: str, *arguments: str) -> tuple[str, ...]:
    return java.command(
        stack.tools.java, "512m", (LOGGING, "-cp", java.class_path(stack.tools.kafka), main, *arguments)
    )


async def _prepare(stack: Stack, folder: Path, properties: Path) -> None:
    _write(stack, folder, properties)
    if _is_formatted(folder):
        return
    # Formatted by Kafka itself: a meta.properties written by hand lacks feature levels, without which consumer
    # groups of the new protocol fail.
    # The operator is in the log from its beginning: where everybody has to log in, only it can make the others.
    operator = f"SCRAM-SHA-512=[name={OPERATOR},password={stack.secrets[f'kafka-{OPERATOR}']}]"
    format_storage = _java(
        stack, "kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER_ID, "--config", str(properties),
        "--ignore-formatted", "--add-scram", operator,
    )  # fmt: skip
    await run_to_end(format_storage, stack.base_environment(), stack.state.log("kafka-format"))


def _is_formatted(folder: Path) -> bool:
    return (folder / "data" / "meta.properties").exists()


def _write(stack: Stack, folder: Path, properties: Path) -> None:
    stack.state.folder("kafka")
    port, sasl, controller = (stack.ports[name] for name in ("kafka", "kafka-sasl", "kafka-controller"))
    own: dict[str, object] = {
        "controller.quorum.voters": f"1@{HOST}:{controller}",
        "listeners": f"PLAINTEXT://{HOST}:{port},SASL://{HOST}:{sasl},CONTROLLER://{HOST}:{controller}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port},SASL://{HOST}:{sasl}",
        "log.dirs": folder / "data",
    }
    if stack.transport is not None:
        own = java.properties(CONFIGURATION / "tls.properties") | own | _encrypted(stack.transport, own)
    if stack.with_pods:
        own |= _listener_of_pods(stack, own)
    if stack.with_links:
        own |= _listeners_of_links(stack, own)
    properties.write_text(java.overlaid(CONFIGURATION / "server.properties", own))


def _encrypted(transport: Transport, own: Mapping[str, object]) -> dict[str, object]:
    """The listener of the broker itself takes the place of the one that asks for nothing."""
    listeners = {name: str(own[name]).replace("PLAINTEXT://", "BROKER://") for name in LISTENERS}
    return listeners | {"ssl.keystore.location": transport.broker, "ssl.truststore.location": transport.authority}


def _listeners_of_links(stack: Stack, own: Mapping[str, object]) -> dict[str, object]:
    """One for each process that comes by a proxy: it advertises that process's proxy."""
    ways = stack.links_to("kafka")
    names = {way: way.listener.upper() for way in ways}
    listeners = [f"{names[way]}://{HOST}:{stack.links[way.listener]}" for way in ways]
    advertised = [f"{names[way]}://{HOST}:{stack.links[way.name]}" for way in ways]
    protocols = [f"{name}:SASL_PLAINTEXT" for name in names.values()]
    logins: dict[str, object] = {f"listener.name.{way.listener}.scram-sha-512.sasl.jaas.config": LOGIN for way in ways}
    return logins | {
        "listeners": ",".join([str(own["listeners"]), *listeners]),
        "advertised.listeners": ",".join([str(own["advertised.listeners"]), *advertised]),
        MAP: ",".join([PROTOCOLS, *protocols]),
    }


def _listener_of_pods(stack: Stack, own: dict[str, object]) -> dict[str, object]:
    """One more listener, which is advertised under the name that it has in the cluster."""
    protocols = own.get(MAP, PROTOCOLS)
    protocol = "SASL_PLAINTEXT" if stack.transport is None else "SASL_SSL"
    return {
        "listeners": f"{own['listeners']},PODS://{HOST}:{stack.ports['kafka-pods']}",
        "advertised.listeners": f"{own['advertised.listeners']},PODS://{name_in_cluster('kafka')}:{KAFKA}",
        MAP: f"{protocols},PODS:{protocol}",
        "listener.name.pods.scram-sha-512.sasl.jaas.config": LOGIN,
    }
