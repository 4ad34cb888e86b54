"""Everything works where nothing travels in clear, and each server refuses who does not come as it wants.

Who comes as it wants is the stack itself: it is ready, and the first test's deployment goes through all of it.
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest
from joserfc.jwk import RSAKey
from pydantic import SecretStr

from devstack.harness.hosted import UNHURRIED, HostedStack, hosted
from devstack.harness.mirror import mirrored
from devstack.stack.transport import LIFETIME
from devstack.supervisor.health_checks import HOST
from services.cli.installation.connect import ConnectSettings, connect_client
from services.cli.kafka.registry_copy import export_registry, import_registry, subjects_of
from services.cli.kafka.registry_tokens import RegistryRole, issue_token
from services.common.avro import COMPILED_SUBJECTS, SUBJECTS, SchemaRegistry
from services.common.errors import NoPermission, Retry, Unavailable
from services.common.kafka import check_login
from services.common.kubernetes import APPLICATION, connect
from services.common.settings import KafkaSettings
from services.common.startup import await_dependency
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from tests.e2e.tenant import fresh_tenant
from tests.stack.encrypted import connections

SUBJECT = "gitops.commands-value"
TLS_ALERT = b"\x15"
ANSWERED_SECONDS = 30.0
"""Who logs in waits for two seconds, in which a busy machine may not answer: then it is tried again."""
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""A request that a broker answers before anybody has logged in."""


@pytest.fixture(scope="module")
def registry_key(stacks_folder: Path) -> Path:
    """What signs the registry's tokens."""
    file = stacks_folder / "registry-tokens.pem"
    file.write_bytes(RSAKey.generate_key(2048).as_pem(private=True))
    return file


@pytest.fixture(scope="module")
def stack(stacks_folder: Path, registry_key: Path) -> Iterator[HostedStack]:
    options = (*UNHURRIED, "--tls", "--registry-key", str(registry_key))
    with hosted(stacks_folder / "transport", *options, output=stacks_folder / "transport.out") as running:
        yield running


@pytest.fixture
def certificates(stack: HostedStack) -> Path:
    return stack.state.root / "transport"


async def test_deployment_when_everything_is_encrypted_then_it_is_applied_and_its_status_comes_back(
    stack: HostedStack,
) -> None:
    async with (
        await connect(Path(stack.environment["KUBECONFIG"])) as kube,
        mirrored(kube, GITOPS_DEPLOYMENT) as deployments,
        mirrored(kube, APPLICATION) as applications,
        fresh_tenant(kube, deployments, applications) as tenant,
    ):
        created = await tenant.create()
        await tenant.application_of(created)
        await tenant.until_status("is healthy", health__status="Healthy")


def test_database_when_services_and_connect_are_connected_then_each_connection_is_encrypted(stack: HostedStack) -> None:
    assert connections(stack) == {"postgres": True, "gitops_planner": True, "gitops_replication": True}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sslmode": "disable", "sslrootcert": ""}, "no encryption"),
        ({"sslrootcert": "connect-ca.crt"}, "certificate verify failed"),
        ({"password": "guess"}, "password authentication failed"),
    ],
)
def test_database_when_somebody_comes_otherwise_then_the_connection_is_refused(
    stack: HostedStack, certificates: Path, change: dict[str, str], said: str
) -> None:
    if file := change.get("sslrootcert"):
        change = change | {"sslrootcert": str(certificates / file)}
    wrong = psycopg.conninfo.make_conninfo(stack.environment["DATABASE_URL"], **change)
    with pytest.raises(psycopg.OperationalError, match=said):
        psycopg.connect(wrong)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"kafka_security_protocol": "SASL_PLAINTEXT", "kafka_ca": None}, Unavailable),
        ({"kafka_ca": "connect-ca.crt"}, Unavailable),
        ({"kafka_password": SecretStr("guess")}, NoPermission),
        ({"kafka_security_protocol": "SSL"}, Unavailable),
    ],
)
def test_brokers_when_somebody_comes_otherwise_then_the_connection_is_refused(
    stack: HostedStack, certificates: Path, change: dict[str, Any], error: type[Exception]
) -> None:
    right, wrong = stack.log, changed(stack.log, certificates, change)
    await_dependency("broker", partial(check_login, right), ANSWERED_SECONDS)
    patience = 0.0 if error is Unavailable else ANSWERED_SECONDS
    with pytest.raises(error):
        await_dependency("broker", partial(check_login, wrong), patience)


@pytest.mark.parametrize("listener", ["kafka", "controller"])
def test_brokers_own_listeners_when_somebody_else_comes_then_only_the_brokers_certificate_is_let_in(
    stack: HostedStack, certificates: Path, listener: str
) -> None:
    (port,) = [item["ports"][listener] for item in stack.processes() if item["name"] == "kafka"]
    authority = str(certificates / "ca.crt")
    anybody, server = ssl.create_default_context(cafile=authority), ssl.create_default_context(cafile=authority)
    server.load_cert_chain(certificates / "registry.crt", certificates / "registry.key")
    broker = ssl.create_default_context(cafile=authority)
    broker.load_cert_chain(certificates / "kafka.pem")
    answered = [bool(answer(port, context)) for context in (None, anybody, server, broker)]
    assert answered == [False, False, False, True]


def answer(port: int, context: ssl.SSLContext | None) -> bytes:
    """What a broker says; nothing if it ends the connection, or waits for a handshake."""
    with suppress(OSError), closing(socket.create_connection((HOST, port), timeout=3)) as plain:
        connection = context.wrap_socket(plain, server_hostname=HOST) if context else plain
        connection.sendall(API_VERSIONS)
        received = connection.recv(8)
        return b"" if received[:1] == TLS_ALERT else received
    return b""


CONNECT = {
    "in clear": {"connect_url": "http://", "connect_ca": None, "connect_certificate": None, "connect_key": None},
    "without a certificate": {"connect_certificate": None, "connect_key": None},
    "with a certificate of another authority": {"connect_certificate": "kafka.pem", "connect_key": "kafka.pem"},
    "trusting another authority": {"connect_ca": "ca.crt"},
}


@pytest.mark.parametrize("how", CONNECT)
def test_connect_when_somebody_comes_otherwise_then_the_connection_is_refused(
    stack: HostedStack, certificates: Path, how: str
) -> None:
    right = ConnectSettings(**{name.lower(): value for name, value in stack.environment.items()})
    wrong = changed(right, certificates, CONNECT[how])
    with connect_client(right) as client:
        assert client.get("/connectors").json() == ["gitops"]
    with connect_client(wrong) as client, pytest.raises(httpx2.TransportError):
        client.get("/connectors")


REGISTRY: dict[str, tuple[dict[str, Any], type[Exception]]] = {
    "in clear": (
        {"schema_registry_url": "http://", "schema_registry_ca": None, "schema_registry_token": SecretStr("")},
        Retry,
    ),
    "without a token": ({"schema_registry_token": SecretStr("")}, NoPermission),
    "with a token that nobody signed": ({"schema_registry_token": SecretStr("e30.e30.c2lnbmF0dXJl")}, NoPermission),
    "trusting another authority": ({"schema_registry_ca": "connect-ca.crt"}, Retry),
}


@pytest.mark.parametrize("how", REGISTRY)
def test_registry_when_somebody_comes_otherwise_then_the_request_is_refused(
    stack: HostedStack, certificates: Path, how: str
) -> None:
    change, error = REGISTRY[how]
    with pytest.raises(error):
        SchemaRegistry(changed(stack.log, certificates, change)).id_of(SUBJECT)


def test_registry_when_a_service_writes_then_it_may_only_read(stack: HostedStack) -> None:
    own = {name.lower(): value for name, value in stack.environment_of("agent").items()}
    registry = SchemaRegistry(KafkaSettings(**own))
    assert registry.id_of(SUBJECT) == SchemaRegistry(stack.log).register_schema(SUBJECT)
    with pytest.raises(NoPermission, match="SCHEMA_REGISTRY_TOKEN"):
        registry.register_schema(SUBJECT)


def test_registry_when_a_copy_is_asked_for_then_only_an_administrator_has_it(
    stack: HostedStack, registry_key: Path
) -> None:
    role, now = RegistryRole.ADMINISTRATOR, datetime.now(UTC)
    token = issue_token(registry_key.read_bytes(), "administrator", role, now, timedelta(minutes=10))
    administrator = stack.log.model_copy(update={"schema_registry_token": SecretStr(token)})
    assert subjects_of(export_registry(administrator)).keys() == {*SUBJECTS, *COMPILED_SUBJECTS}
    with pytest.raises(NoPermission, match="administrator"):
        export_registry(stack.log)
    with pytest.raises(NoPermission, match="administrator"):
        import_registry(stack.log, b"")


def test_services_when_they_show_the_registry_a_token_then_each_tells_when_it_expires(stack: HostedStack) -> None:
    ports = {item["name"]: item["ports"] for item in stack.processes()}
    for process, service in (("watcher", "watcher"), ("planner", "planner"), ("agent-1", "agent")):
        told = httpx2.get(f"http://{HOST}:{ports[process]['metrics']}/metrics").text
        series = f'gitops_registry_token_expiration_timestamp_seconds{{service="{service}"}} '
        (expiry,) = [float(line.removeprefix(series)) for line in told.splitlines() if line.startswith(series)]
        assert timedelta(days=29) < timedelta(seconds=expiry - time.time()) < LIFETIME


def test_registry_when_it_refuses_a_token_then_its_log_does_not_show_it(stack: HostedStack) -> None:
    token = stack.log.schema_registry_token.get_secret_value()
    forged = f"{token[:-20]}{'A' * 20}"
    with pytest.raises(NoPermission):
        SchemaRegistry(stack.log.model_copy(update={"schema_registry_token": SecretStr(forged)})).id_of(SUBJECT)
    assert token[:40] not in stack.state.log("registry").read_text()


def changed(settings: Any, certificates: Path, change: dict[str, Any]) -> Any:
    """``settings`` with files by their names, and a URL by its scheme alone."""
    named = {name: certificates / value for name, value in change.items() if str(value).endswith((".crt", ".pem"))}
    schemes = {
        name: f"{value}{getattr(settings, name).partition('://')[2]}"
        for name, value in change.items()
        if str(value).endswith("://")
    }
    return settings.model_copy(update=change | named | schemes)
