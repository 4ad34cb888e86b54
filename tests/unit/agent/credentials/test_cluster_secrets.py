"""A ClusterSecret against servers of strangers: what is said of each, and what never is."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from services.agent.credentials.network import resolver as names
from services.agent.credentials.network.resolver import ConnectionProblem
from services.common.addresses import AddressPolicy
from services.common.errors import Permanent
from services.common.sealing import SecretContext
from services.kinds.managed_environment import catalogue as environment
from tests.unit.agent.credentials.given import (
    ENVIRONMENT_TYPE,
    SETTINGS,
    TENANT,
    TOKEN,
    WORKSPACE,
    Given,
    Handler,
    answers,
    data_of,
    kubeconfig,
    stranger,
)

NAMESPACES = {"kind": "NamespaceList", "items": []}
NAMESPACE = {"kind": "Namespace", "metadata": {"name": "apps"}}
INTERNAL = "INTERNAL-SECRET-PAGE"

GENERIC = environment.CREDENTIALS_REFUSED.message


def no_client(problem: ConnectionProblem) -> tuple[str, str]:
    prefix = "unable to create k8s client from restConfig from managed environment secret: "
    return "UnableToCreateClient", prefix + problem.value


async def test_good_kubeconfig_when_composed_then_the_secret_that_argo_cd_reads(given: Given, tmp_path: Path) -> None:
    async with stranger(tmp_path / "pki", answers(NAMESPACE)) as server:
        values = {"kubeconfig": kubeconfig(server.url, authority=server.authority)}
        row = given.cluster_row(server.url, values, namespaces=["web", "apps"])
        composed = await given.checker().compose_secret(row, None)
    assert (composed.reason, composed.message, composed.renew_at) == ("Succeeded", "", None)
    assert composed.secret is not None
    assert composed.secret["type"] == "Opaque"
    assert composed.secret["metadata"]["name"] == "managed-env-e1"
    assert composed.secret["metadata"]["labels"]["argocd.argoproj.io/secret-type"] == "cluster"
    data = data_of(composed.secret)
    config = json.loads(data.pop("config"))
    assert config["bearerToken"] == TOKEN
    authority = base64.b64encode(server.authority).decode()
    assert config["tlsClientConfig"] == {"insecure": False, "caData": authority}
    assert data == {
        "name": "managed-env-e1",
        "server": f"{server.url}?managedEnvironment=e1",
        "namespaces": "apps,web",
        "project": "app-project-a",
    }
    assert [(each.method, each.path) for each in server.requests] == [("GET", "/api/v1/namespaces/apps")]
    assert server.requests[0].headers["Authorization"] == f"Bearer {TOKEN}"
    assert TOKEN not in repr(composed)


async def test_insecure_when_asked_for_then_certificate_is_not_verified_and_no_authority_sent(
    given: Given, tmp_path: Path
) -> None:
    async with stranger(tmp_path / "pki", answers(NAMESPACES)) as server:
        values = {"kubeconfig": kubeconfig(server.url, authority=server.authority)}
        row = given.cluster_row(server.url, values, insecure=True, clusterResources=True)
        composed = await given.checker().compose_secret(row, None)
    assert composed.secret is not None
    data = data_of(composed.secret)
    assert json.loads(data["config"])["tlsClientConfig"] == {"insecure": True}
    assert data["clusterResources"] == "true"
    assert "namespaces" not in data


ANSWERS: dict[str, tuple[Handler, str]] = {
    "401": (answers({"message": INTERNAL}, 401), GENERIC),
    "403": (answers({"message": INTERNAL}, 403), environment.CREDENTIALS_FORBIDDEN.message),
    "404": (answers({"message": INTERNAL}, 404), GENERIC),
    "500": (answers(INTERNAL, 500), GENERIC),
    "redirect-to-metadata": (answers({}, 302, Location="http://169.254.169.254/"), GENERIC),
    "html": (answers(INTERNAL.encode(), content_type="text/html"), GENERIC),
    "other-json": (answers({"secret": INTERNAL}), GENERIC),
    "list-of-numbers": (answers({"items": [1]}), GENERIC),
    "deep-json": (answers(b'{"a":' * 5000 + b"1" + b"}" * 5000), GENERIC),
    "too-large": (answers(b" " * (2 * 1024 * 1024)), GENERIC),
    "gzip-bomb-undecoded": (answers(b"\x1f\x8b" + b"\0" * 100, **{"Content-Encoding": "gzip"}), GENERIC),
    "many-headers": (answers({}, **{f"X-{number}": "x" for number in range(200)}), GENERIC),
}


@pytest.mark.parametrize(("handler", "text"), ANSWERS.values(), ids=ANSWERS)
async def test_answer_when_useless_then_exactly_the_known_text(
    given: Given, tmp_path: Path, handler: Handler, text: str
) -> None:
    async with stranger(tmp_path / "pki", handler) as server:
        row = given.cluster_row(server.url, {"kubeconfig": kubeconfig(server.url, authority=server.authority)})
        composed = await given.checker().compose_secret(row, None)
    assert composed.secret is None
    assert (composed.reason, composed.message) == ("UnableToValidateClusterCredentials", text)
    assert len(server.requests) == 1


async def test_certificate_when_signed_by_an_unknown_authority_then_the_known_text(
    given: Given, tmp_path: Path
) -> None:
    async with stranger(tmp_path / "pki", answers(NAMESPACES)) as server:
        composed = await given.checker().compose_secret(
            given.cluster_row(server.url, {"kubeconfig": kubeconfig(server.url)}), None
        )
    assert composed.reason == "UnableToValidateClusterCredentials"
    assert composed.message == environment.UNKNOWN_AUTHORITY.message
    assert server.requests == []


async def test_certificate_when_it_is_of_another_host_then_refused(
    given: Given, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(names, "_look_up", lambda host, port: ((socket.AF_INET, "127.0.0.1"),))
    async with stranger(tmp_path / "pki", answers(NAMESPACES)) as server:
        url = server.url.replace("127.0.0.1", "other.example.com")
        row = given.cluster_row(url, {"kubeconfig": kubeconfig(url, authority=server.authority)})
        composed = await given.checker().compose_secret(row, None)
    assert (composed.reason, composed.message) == no_client(ConnectionProblem.CERTIFICATE)
    assert server.requests == []


async def test_socket_when_the_lookup_let_a_refused_address_through_then_not_made(
    given: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unchecked(self: names.HostResolver, host: str, port: int) -> names.ResolvedHost:
        return names.ResolvedHost(host, port, ((socket.AF_INET, "169.254.169.254"),))

    monkeypatch.setattr(names.HostResolver, "resolve_host", unchecked)
    for url in ("https://169.254.169.254", "https://api.example.com"):
        composed = await given.checker().compose_secret(given.cluster_row(url, {"kubeconfig": kubeconfig(url)}), None)
        assert composed.reason == "UnableToCreateClient"


async def test_name_when_it_does_not_resolve_then_no_client(given: Given) -> None:
    url = "https://nobody.invalid:6443"
    composed = await given.checker().compose_secret(given.cluster_row(url, {"kubeconfig": kubeconfig(url)}), None)
    assert (composed.reason, composed.message) == no_client(ConnectionProblem.NAME)


REFUSED = {
    "loopback": "https://127.0.0.1:6443",
    "loopback-v6": "https://[::1]:6443",
    "mapped-loopback": "https://[::ffff:127.0.0.1]:6443",
    "metadata": "https://169.254.169.254",
    "decimal": "https://2130706433:6443",
    "hexadecimal": "https://0x7f000001:6443",
    "octal": "https://0177.0.0.1:6443",
    "short": "https://127.1:6443",
    "localhost": "https://localhost:6443",
    "below-localhost": "https://a.localhost:6443",
    "in-cluster": "https://kubernetes.default.svc",
    "metadata-name": "https://metadata.google.internal",
}


@pytest.mark.parametrize("url", REFUSED.values(), ids=REFUSED)
async def test_address_when_refused_by_the_policy_then_no_connection_is_made(
    given: Given, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    made = monkeypatch_sockets(monkeypatch)
    strict = replace(given, policy=AddressPolicy())
    composed = await strict.checker().compose_secret(strict.cluster_row(url, {"kubeconfig": kubeconfig(url)}), None)
    assert composed.reason == "UnableToCreateClient"
    assert composed.secret is None
    assert made == []


def monkeypatch_sockets(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    made: list[Any] = []
    original = socket.socket.connect

    def connect(self: socket.socket, address: Any) -> None:
        made.append(address)
        original(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect)
    return made


async def test_name_when_one_of_its_addresses_is_refused_then_refused_and_the_address_not_told(
    given: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET, "169.254.169.254"))
    monkeypatch.setattr(names, "_look_up", lambda host, port: found)
    url = "https://rebinding.example.com:6443"
    composed = await given.checker().compose_secret(given.cluster_row(url, {"kubeconfig": kubeconfig(url)}), None)
    assert (composed.reason, composed.message) == no_client(ConnectionProblem.ADDRESS)


async def test_name_when_it_changes_after_the_lookup_then_the_checked_address_is_used(
    given: Given, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lookups: Iterator[str] = iter(["127.0.0.1", "169.254.169.254"])
    monkeypatch.setattr(names, "_look_up", lambda host, port: ((socket.AF_INET, next(lookups)),))
    async with stranger(tmp_path / "pki", answers(NAMESPACES)) as server:
        url = server.url.replace("127.0.0.1", "rebinding.example.com")
        row = given.cluster_row(url, {"kubeconfig": kubeconfig(url)}, insecure=True)
        composed = await given.checker().compose_secret(row, None)
    assert composed.reason == "Succeeded"
    assert next(lookups) == "169.254.169.254"


async def test_proxy_when_the_environment_names_one_then_not_used(
    given: Given, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    async with stranger(tmp_path / "pki", answers(NAMESPACES)) as server:
        row = given.cluster_row(server.url, {"kubeconfig": kubeconfig(server.url, authority=server.authority)})
        composed = await given.checker().compose_secret(row, None)
    assert composed.reason == "Succeeded"


async def test_server_when_it_never_answers_then_given_up_in_time(given: Given, tmp_path: Path) -> None:
    async def hang(request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    hasty = replace(given, settings=replace(SETTINGS, request_seconds=0.3))
    async with stranger(tmp_path / "pki", hang) as server:
        row = hasty.cluster_row(server.url, {"kubeconfig": kubeconfig(server.url, authority=server.authority)})
        composed = await hasty.checker().compose_secret(row, None)
    assert (composed.reason, composed.message) == no_client(ConnectionProblem.SILENCE)


async def test_port_when_closed_or_not_tls_then_no_client_as_with_silence(given: Given) -> None:
    async with await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0) as plain:
        open_port = plain.sockets[0].getsockname()[1]
        told = set()
        for port in (open_port, 1):
            url = f"https://127.0.0.1:{port}"
            composed = await given.checker().compose_secret(
                given.cluster_row(url, {"kubeconfig": kubeconfig(url)}), None
            )
            told.add((composed.reason, composed.message))
    assert told == {no_client(ConnectionProblem.SILENCE)}


BAD_URLS = {
    "http": "http://api.example.com",
    "file": "file:///etc/passwd",
    "user": "https://user@api.example.com",
    "password": "https://user:pw@api.example.com",
    "fragment": "https://api.example.com#a",
    "backslash": "https://api.example.com\\@internal",
    "line-break": "https://api.example.com\r\nHost: internal",
    "dots": "https://api.example.com/a/../b",
    "port": "https://api.example.com:99999",
    "look-alike": "https://api\u2024example.com",
    "no-host": "https:///path",
    "escape": "https://api.example.com/%2e%2e/b",
}


@pytest.mark.parametrize("url", BAD_URLS.values(), ids=BAD_URLS)
async def test_api_url_when_unusual_then_refused(given: Given, url: str) -> None:
    composed = await given.checker().compose_secret(given.cluster_row(url, {"kubeconfig": kubeconfig(url)}), None)
    assert composed.secret is None
    assert composed.reason == "UnableToRetrieveRestConfig"


async def test_sealed_text_when_its_namespace_was_made_again_then_not_opened(given: Given) -> None:
    context = SecretContext(WORKSPACE, TENANT, "kube", ENVIRONMENT_TYPE, namespace_uid="former")
    row, values = given.cluster_row("https://cluster.example.com", {}), {"kubeconfig": "{}"}
    secret = {"name": "kube", "version": "1", "sealed": given.keys.seal(values, context)}
    secret["binding"] = given.keys.bind(values, given.use_of_cluster(given.recipe_of(row)), context)
    checker = given.checker()
    former = await checker.compose_secret(given.with_recipe(row, secret=secret | {"namespaceUID": "former"}), None)
    latter = await checker.compose_secret(given.with_recipe(row, secret=secret | {"namespaceUID": "latter"}), None)
    untold = await checker.compose_secret(given.with_recipe(row, secret=secret), None)
    assert "could not be opened" not in former.message
    assert "could not be opened; sealed for another Secret" in latter.message
    assert "could not be opened; sealed for another Secret" in untold.message


async def test_sealed_text_when_of_another_tenant_then_not_opened(given: Given) -> None:
    url = "https://api.example.com"
    row = replace(given.cluster_row(url, {"kubeconfig": kubeconfig(url)}), tenant_namespace="team-b")
    composed = await given.checker().compose_secret(row, None)
    assert composed.reason == "UnableToParseKubeconfigData"
    assert "could not be opened; sealed for another Secret" in composed.message


BAD_ROWS = {
    "server-without-its-query": {"server": "https://api.example.com"},
    "server-of-another-cluster": {"server": "https://other?managedEnvironment=e1"},
    "no-project": {"project": ""},
    "uid-with-a-path": {"uid": "../x"},
    "namespace-with-a-path": {"namespaces": ["../x"]},
    "flag-that-is-text": {"insecure": "false"},
}


@pytest.mark.parametrize("changed", BAD_ROWS.values(), ids=BAD_ROWS)
async def test_row_when_the_planner_would_not_compile_it_then_permanent(given: Given, changed: dict[str, Any]) -> None:
    url = "https://api.example.com"
    row = given.cluster_row(url, {"kubeconfig": kubeconfig(url)}, **changed)
    with pytest.raises(Permanent):
        await given.checker().compose_secret(row, None)
