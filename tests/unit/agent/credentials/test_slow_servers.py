"""Servers that answer without end: a byte at a time, so that no single read ever takes too long."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import asyncssh
import pytest
from aiohttp import web

from devstack.stack.pki import Pki
from services.agent.credentials.check_result import ClusterUnavailable
from services.agent.credentials.clusters import cluster_secrets as cluster
from services.agent.credentials.network.resolver import ConnectionProblem
from tests.unit.agent.credentials.given import SETTINGS, Given, kubeconfig, stranger

PACE = 0.01
SHORT_TIMEOUTS = replace(SETTINGS, request_seconds=0.3, connect_seconds=0.3)
FAR_TOO_LONG = 30.0
BEGINNINGS = {
    "nothing": b"",
    "headers": b"HTTP/1.1 200 OK\r\nX-",
    "body": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 900000\r\n\r\n",
}


@asynccontextmanager
async def trickling(beginning: bytes, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """The port of a server that says ``beginning`` and then one byte after the other, for ever."""
    talking: set[asyncio.Task[None]] = set()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talking.add(asyncio.current_task())  # type: ignore[arg-type]
        with contextlib.suppress(OSError):
            writer.write(beginning)
            while True:
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(PACE)

    server = await asyncio.start_server(talk, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in talking:
            task.cancel()


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    made = Pki(tmp_path / "pki")
    made.ensure("127.0.0.1")
    return made


@pytest.fixture
def tls(pki: Pki) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki.server_certificate, pki.server_key)
    return context


@pytest.fixture
def impatient(given: Given, pki: Pki) -> Given:
    return replace(given, settings=replace(SHORT_TIMEOUTS, git_authorities=pki.authority))


@pytest.mark.parametrize("beginning", BEGINNINGS.values(), ids=BEGINNINGS)
async def test_cluster_when_it_answers_without_end_then_given_up_in_time(
    impatient: Given, tls: ssl.SSLContext, beginning: bytes
) -> None:
    async with trickling(beginning, tls) as port:
        url = f"https://127.0.0.1:{port}"
        row = impatient.cluster_row(url, {"kubeconfig": kubeconfig(url)}, insecure=True)
        async with asyncio.timeout(FAR_TOO_LONG):
            composed = await impatient.checker().compose_secret(row, None)
    assert composed.reason in {"UnableToCreateClient", "UnableToValidateClusterCredentials"}
    assert composed.secret is None


async def test_cluster_when_it_does_not_even_finish_its_handshake_then_given_up_in_time(impatient: Given) -> None:
    async with trickling(b"\x16\x03\x03\x40\x00") as port:
        url = f"https://127.0.0.1:{port}"
        async with asyncio.timeout(FAR_TOO_LONG):
            row = impatient.cluster_row(url, {"kubeconfig": kubeconfig(url)})
            composed = await impatient.checker().compose_secret(row, None)
    assert (composed.secret, composed.reason) == (None, "UnableToCreateClient")


@pytest.mark.parametrize("beginning", BEGINNINGS.values(), ids=BEGINNINGS)
async def test_git_server_when_it_answers_without_end_then_given_up_in_time(
    impatient: Given, tls: ssl.SSLContext, beginning: bytes
) -> None:
    async with trickling(beginning, tls) as port, asyncio.timeout(FAR_TOO_LONG):
        row = impatient.repository_row(f"https://127.0.0.1:{port}/a.git", {"username": "u", "password": "p"})
        composed = await impatient.checker().compose_secret(row, None)
    assert composed.secret is None


@pytest.mark.parametrize("beginning", [b"", b"SSH-2.0-x\r\n"], ids=["banner", "key-exchange"])
async def test_ssh_server_when_it_answers_without_end_then_given_up_in_time(
    impatient: Given, tmp_path: Path, beginning: bytes
) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    known_hosts = tmp_path / "known_hosts"
    async with trickling(beginning) as port:
        known_hosts.write_text(f"[127.0.0.1]:{port} {key.export_public_key().decode()}")
        listing = replace(impatient, settings=replace(SHORT_TIMEOUTS, known_hosts=known_hosts))
        row = listing.repository_row(f"ssh://git@127.0.0.1:{port}/a", {"sshPrivateKey": key.export_private_key()})
        async with asyncio.timeout(FAR_TOO_LONG):
            composed = await listing.checker().compose_secret(row, None)
    assert (composed.secret, composed.reason) == (None, "InvalidCredentials")


async def unhurried(request: web.Request) -> web.Response:
    """Each answer comes within the time for one request."""
    await asyncio.sleep(0.1)
    return web.json_response({"kind": "APIGroupDiscoveryList", "items": []})


async def test_installation_when_each_of_its_requests_takes_long_then_given_up_as_a_whole(
    given: Given, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(cluster, "INSTALL_SECONDS", 0.25)
    async with stranger(tmp_path / "slow", unhurried) as server:
        values = {"kubeconfig": kubeconfig(server.url, authority=server.authority)}
        row = given.cluster_row(server.url, values, createServiceAccount=True)
        composed = await given.checker().compose_secret(row, None)
        asked = len(server.requests)
    assert composed.reason == "UnableToInstallServiceAccount"
    assert (
        composed.message == f"unable to install service account from secret 'kube': {ConnectionProblem.SILENCE.value}"
    )
    assert asked <= 3


async def test_removal_when_each_of_its_requests_takes_long_then_given_up_as_a_whole_and_tried_again(
    given: Given, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(cluster, "INSTALL_SECONDS", 0.25)
    async with stranger(tmp_path / "slow", unhurried) as server:
        values = {"kubeconfig": kubeconfig(server.url, authority=server.authority)}
        row = given.cluster_row(server.url, values, createServiceAccount=True)
        with pytest.raises(ClusterUnavailable):
            await given.checker().remove_account(row, None)
