"""A RepositorySecret whose repository is reached by https, and whatever a tenant may write in its place."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path

import asyncssh
import pytest
from aiohttp import web

from services.agent.credentials.check_result import RepositoryAccess
from services.agent.credentials.network.endpoint import Endpoint
from services.agent.credentials.repositories.git_url import HttpsUrl, SshUrl, parse_repository
from services.common.addresses import AddressPolicy
from services.common.urls.repository_url import refusal
from tests.unit.agent.credentials.given import SETTINGS, Given, Handler, answers, data_of, stranger

ADVERTISEMENT = "application/x-git-upload-pack-advertisement"
REFS = b"001e# service=git-upload-pack\n0000" + b"x" * 100_000
LOGIN = {"username": "ann", "password": "PLANTED-PASSWORD"}
INTERNAL = "INTERNAL-SECRET-PAGE"


def git(path: str, *, elsewhere: int = 404) -> Handler:
    """A git server with one repository, whose user is LOGIN's."""

    async def handle(request: web.Request) -> web.Response:
        pair = base64.b64encode(f"{LOGIN['username']}:{LOGIN['password']}".encode()).decode()
        if request.headers.get("Authorization") != f"Basic {pair}":
            return web.Response(status=401, text=INTERNAL)
        if request.path != f"{path}/info/refs":
            return web.Response(status=elsewhere, text=INTERNAL, headers={"Location": "http://169.254.169.254/"})
        return web.Response(body=REFS, content_type=ADVERTISEMENT)

    return handle


@pytest.fixture
def trusting(given: Given, tmp_path: Path) -> Given:
    """Trusts the authority of the strangers in ``tmp_path / "pki"``."""
    return replace(given, settings=replace(SETTINGS, git_authorities=tmp_path / "pki" / "ca.crt"))


async def test_login_when_the_server_accepts_it_then_the_secret_that_argo_cd_reads(
    trusting: Given, tmp_path: Path
) -> None:
    async with stranger(tmp_path / "pki", git("/team/app.git")) as server:
        url = f"{server.url}/team/app.git"
        composed = await trusting.checker().compose_secret(trusting.repository_row(url, LOGIN), None)
    assert composed.reason == "RepositoryCredentialUpToDate"
    assert composed.secret is not None
    assert composed.secret["metadata"]["labels"]["argocd.argoproj.io/secret-type"] == "repository"
    assert data_of(composed.secret) == {"name": "login", "url": url, "project": "app-project-a"} | LOGIN
    assert LOGIN["password"] not in repr(composed)
    assert composed.access is RepositoryAccess.LOGIN
    assert ["Authorization" in request.headers for request in server.requests] == [True, False]


@pytest.mark.parametrize(("asked", "there"), [("/team/app", "/team/app.git"), ("/team/app.git", "/team/app")])
@pytest.mark.parametrize("elsewhere", [404, 301])
async def test_repository_when_only_its_other_spelling_exists_then_found(
    trusting: Given, tmp_path: Path, asked: str, there: str, elsewhere: int
) -> None:
    async with stranger(tmp_path / "pki", git(there, elsewhere=elsewhere)) as server:
        row = trusting.repository_row(f"{server.url}{asked}", LOGIN)
        composed = await trusting.checker().compose_secret(row, None)
    assert composed.reason == "RepositoryCredentialUpToDate"


def to_anybody(otherwise: int | None) -> Handler:
    """A git server that answers so to whoever comes without a login; None: as to those with one."""
    private = git("/team/app.git")

    async def handle(request: web.Request) -> web.StreamResponse:
        if "Authorization" in request.headers:
            return await private(request)
        if otherwise is None:
            return web.Response(body=REFS, content_type=ADVERTISEMENT)
        return web.Response(status=otherwise, text=INTERNAL, headers={"Location": "https://example.com/login"})

    return handle


@pytest.mark.parametrize(
    ("otherwise", "access", "is_public_repository"),
    [
        (None, RepositoryAccess.ANYBODY, True),
        (401, RepositoryAccess.LOGIN, False),
        (403, RepositoryAccess.LOGIN, False),
        (404, RepositoryAccess.LOGIN, False),
        (302, RepositoryAccess.LOGIN, False),
        (200, RepositoryAccess.LOGIN, False),  # a page that asks for a login
        (429, RepositoryAccess.UNCLEAR, False),
        (503, RepositoryAccess.UNCLEAR, False),
    ],
)
async def test_repository_when_its_login_works_then_it_is_asked_without_one_at_the_same_moment(
    trusting: Given, tmp_path: Path, otherwise: int | None, access: RepositoryAccess, is_public_repository: bool
) -> None:
    async with stranger(tmp_path / "pki", to_anybody(otherwise)) as server:
        url = f"{server.url}/team/app.git"
        composed = await trusting.checker().compose_secret(trusting.repository_row(url, LOGIN), None)
        assert await trusting.checker().is_public_repository(url, "local/team-a") is is_public_repository
    assert (composed.reason, composed.access) == ("RepositoryCredentialUpToDate", access)


async def test_question_whether_it_is_public_when_nobody_answers_or_it_is_reached_by_ssh_then_no(
    trusting: Given, tmp_path: Path
) -> None:
    async with stranger(tmp_path / "pki", to_anybody(None)) as server:
        url = f"{server.url}/team/app.git"
    checker = trusting.checker()
    assert [
        await checker.is_public_repository(each, "local/team-a") for each in (url, "git@127.0.0.1:a", "no URL")
    ] == [False] * 3


ANSWERS: dict[str, tuple[Handler, str, str]] = {
    "wrong-login": (answers(INTERNAL, 401), "InvalidCredentials", "HTTP status 401"),
    "forbidden": (answers(INTERNAL, 403), "InvalidCredentials", "HTTP status 403"),
    "not-found": (answers(INTERNAL, 404), "InvalidRepositoryUrl", "HTTP status 404"),
    "redirect": (answers({}, 302, Location="http://169.254.169.254/"), "InvalidRepositoryUrl", "redirects are not"),
    "failing": (answers(INTERNAL, 500), "InvalidCredentials", "HTTP status 500"),
    "overloaded": (answers(INTERNAL, 429), "InvalidCredentials", "HTTP status 429"),
    "away": (answers(INTERNAL, 503), "InvalidCredentials", "HTTP status 503"),
    "a-web-page": (
        answers(INTERNAL.encode(), content_type="text/html"),
        "InvalidRepositoryUrl",
        "not a git repository",
    ),
    "the-right-type-only": (
        answers(INTERNAL.encode(), content_type=ADVERTISEMENT),
        "InvalidRepositoryUrl",
        "not a git repository",
    ),
}


@pytest.mark.parametrize(("handler", "reason", "text"), ANSWERS.values(), ids=ANSWERS)
async def test_answer_when_it_is_no_repository_then_the_reason_and_never_its_content(
    trusting: Given, tmp_path: Path, handler: Handler, reason: str, text: str
) -> None:
    async with stranger(tmp_path / "pki", handler) as server:
        row = trusting.repository_row(f"{server.url}/team/app.git", LOGIN)
        composed = await trusting.checker().compose_secret(row, None)
    assert composed.secret is None
    assert composed.reason == reason
    assert composed.access is (None if text[-3:] in {"500", "429", "503"} else RepositoryAccess.NOBODY)
    assert text in composed.message
    assert INTERNAL not in composed.message


async def test_server_when_its_authority_is_unknown_then_the_operator_is_named(given: Given, tmp_path: Path) -> None:
    async with stranger(tmp_path / "pki", git("/team/app.git")) as server:
        row = given.repository_row(f"{server.url}/team/app.git", LOGIN)
        composed = await given.checker().compose_secret(row, None)
    assert composed.reason == "InvalidRepositoryUrl"
    assert "authority that the operator has not added" in composed.message
    assert server.requests == []


async def test_server_when_it_is_away_then_the_url_is_not_denied(given: Given) -> None:
    composed = await given.checker().compose_secret(given.repository_row("https://127.0.0.1:1/a.git", LOGIN), None)
    assert (composed.secret, composed.reason) == (None, "InvalidCredentials")
    assert composed.message == "no connection, or no answer in time"


async def test_host_when_there_is_none_of_that_name_then_the_url_is_invalid(given: Given) -> None:
    composed = await given.checker().compose_secret(given.repository_row("https://git.invalid/a.git", LOGIN), None)
    assert (composed.reason, composed.message) == ("InvalidRepositoryUrl", "no such host")


HOSTILE_URLS = {
    "http": "http://git.example.com/a.git",
    "file": "file:///etc/passwd",
    "path": "/etc/passwd",
    "helper": "ext::sh -c true",
    "helper-over-ssh": "ssh::ssh://git.example.com/a",
    "git": "git://git.example.com/a.git",
    "ssh-option-as-host": "ssh://-oProxyCommand=true/a",
    "ssh-option-as-user": "ssh://-oProxyCommand@git.example.com/a",
    "scp-option-as-host": "git@-oProxyCommand=true:a",
    "scp-option-as-path": "git@git.example.com:-a",
    "scp-quote": "git@git.example.com:a'b",
    "scp-space": "git@git.example.com:a b",
    "password": "https://user:pw@git.example.com/a",
    "query": "https://git.example.com/a?service=x",
    "fragment": "https://git.example.com/a#b",
    "dots": "https://git.example.com/a/../b",
    "line-break": "https://git.example.com/a\nb",
    "no-path": "https://git.example.com/",
    "empty-host": "https:///a",
    "full-width-slash": "https://git.example.com\uff0fa",
    "user-beside-credentials": "https://ann@git.example.com/a",
}


@pytest.mark.parametrize("url", HOSTILE_URLS.values(), ids=HOSTILE_URLS)
async def test_url_when_of_another_transport_or_ambiguous_then_refused_before_anything_is_connected_to(
    given: Given, url: str
) -> None:
    composed = await given.checker().compose_secret(given.repository_row(url, LOGIN), None)
    assert composed.reason == "InvalidRepositoryUrl"
    assert composed.message.startswith("spec.repository ")


ACCEPTED_URLS = {
    "plus-in-user": ("ssh://a+b@git.invalid/a", SshUrl("a+b", "git.invalid", 22, "/a")),
    "long-user": (f"{'u' * 100}@git.invalid:a", SshUrl("u" * 100, "git.invalid", 22, "a")),
    "no-user": ("ssh://git.invalid:2222/a", SshUrl("git", "git.invalid", 2222, "/a")),
    "underscore-in-host": ("git@_x.example.com:a", SshUrl("git", "_x.example.com", 22, "a")),
    "two-slashes": ("https://git.invalid//a//b.git", HttpsUrl(Endpoint("git.invalid", 443, "//a//b.git"))),
    "absolute-scp-path": ("git@git.invalid:/srv/a", SshUrl("git", "git.invalid", 22, "/srv/a")),
    "home": ("ssh://git@git.invalid/~ann/a", SshUrl("git", "git.invalid", 22, "~ann/a")),
}


@pytest.mark.parametrize(("url", "parsed"), ACCEPTED_URLS.values(), ids=ACCEPTED_URLS)
def test_url_when_the_planner_accepts_it_then_so_does_the_agent(url: str, parsed: HttpsUrl | SshUrl) -> None:
    assert refusal(url, AddressPolicy(), with_credentials=True) == ""
    assert parse_repository(url, AddressPolicy()) == parsed


@pytest.mark.parametrize("url", ["https://169.254.169.254/a", "ssh://git@169.254.169.254/a", "git@[::1]:a"])
async def test_address_when_refused_by_the_policy_then_invalid_url(given: Given, url: str) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode()
    login = {"sshPrivateKey": key} if "@" in url else LOGIN
    composed = await given.checker().compose_secret(given.repository_row(url, login), None)
    assert composed.reason == "InvalidRepositoryUrl"


KEY = asyncssh.generate_private_key("ssh-ed25519")
HOSTILE_LOGINS: dict[str, tuple[dict[str, str | bytes], str]] = {
    "empty": ({}, "neither username and password nor sshPrivateKey"),
    "line-break-in-password": ({"username": "a", "password": "b\n"}, "the field password holds a line break"),
    "colon-in-name": ({"username": "a:b", "password": "c"}, "the field username holds a colon"),
    "not-text": ({"username": b"\xff", "password": "c"}, "the field username is longer than"),
    "too-long": ({"username": "a", "password": "b" * 10_000}, "the field password is longer than"),
    "key-that-is-none": ({"sshPrivateKey": "PLANTED"}, "sshPrivateKey is not a private key"),
    "key-that-is-a-path": ({"sshPrivateKey": "/etc/ssh/ssh_host_rsa_key"}, "sshPrivateKey is not a private key"),
    "public-key": ({"sshPrivateKey": KEY.export_public_key().decode()}, "sshPrivateKey is not a private key"),
    "key-too-long": ({"sshPrivateKey": "-----BEGIN " + "A" * 20_000}, "the field sshPrivateKey is longer than"),
    "broken-key": (
        {"sshPrivateKey": "-----BEGIN OPENSSH PRIVATE KEY-----\nPLANTED\n-----END OPENSSH PRIVATE KEY-----"},
        "the field sshPrivateKey cannot be read",
    ),
    "key-with-passphrase": (
        {"sshPrivateKey": KEY.export_private_key("pkcs8-pem", passphrase="x")},
        "protected by a passphrase",
    ),
    "password-for-ssh": (LOGIN, "needs the field sshPrivateKey"),  # type: ignore[dict-item]
}


@pytest.mark.parametrize(("values", "text"), HOSTILE_LOGINS.values(), ids=HOSTILE_LOGINS)
async def test_login_when_unusable_then_the_field_is_named_and_nothing_shown(
    given: Given, values: dict[str, str | bytes], text: str
) -> None:
    composed = await given.checker().compose_secret(given.repository_row("git@git.invalid:a/b", values), None)
    assert composed.reason == "InvalidCredentials"
    assert text in composed.message
    assert "PLANTED" not in composed.message


async def test_key_when_the_url_is_https_then_said_so(given: Given) -> None:
    values = {"sshPrivateKey": KEY.export_private_key().decode()} | LOGIN
    composed = await given.checker().compose_secret(given.repository_row("https://git.invalid/a", values), None)
    assert (composed.reason, composed.message) == (
        "InvalidCredentials",
        "sshPrivateKey does not open an https URL; write an ssh one",
    )
