"""A RepositorySecret whose repository is reached by ssh: a real ssh server plays git."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import asyncssh
import pytest

from services.agent.credentials.check_result import CheckResult, RepositoryAccess
from services.common.errors import Retry
from tests.unit.agent.credentials.given import SETTINGS, Given, data_of

HOST_KEY = asyncssh.generate_private_key("ssh-ed25519")
KEY = asyncssh.generate_private_key("ssh-ed25519")
KEY_TEXT = KEY.export_private_key().decode()
OTHER_KEY = asyncssh.generate_private_key("ssh-ed25519")
INTERNAL = "INTERNAL-SECRET"

REPOSITORIES: dict[str, tuple[bytes, bytes]] = {
    "/team/app.git": (b"00a7" + b"0" * 40 + b" HEAD\0 multi_ack\n0000", b""),
    "team/app.git": (b"00a7" + b"0" * 40 + b" HEAD\0 multi_ack\n0000", b""),
    "~ann/app": (b"0000", b""),
    "/empty": (b"0000", b""),
    "/denied": (b"", b"ERROR: Permission to " + INTERNAL.encode() + b" denied.\n"),
    "/error-line": (b"0020ERR access denied or " + INTERNAL.encode(), b""),
    "/shell": (b"Welcome to " + INTERNAL.encode(), b""),
}


class Git(asyncssh.SSHServer):
    """Lets in whoever has KEY."""

    def begin_auth(self, username: str) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return username == "git" and key.public_data == KEY.public_data


async def upload_pack(process: asyncssh.SSHServerProcess[bytes]) -> None:
    path = (process.command or "").removeprefix("git-upload-pack '").removesuffix("'")
    answer, complaint = REPOSITORIES.get(path, (b"", b"ERROR: Repository not found.\n"))
    process.stdout.write(answer)
    process.stderr.write(complaint)
    process.exit(0 if answer else 1)


@dataclass
class SshServer:
    port: int
    known_hosts: Path

    def url(self, path: str) -> str:
        return f"ssh://git@127.0.0.1:{self.port}{path}"

    def list_key(self, key: asyncssh.SSHKey) -> None:
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {key.export_public_key().decode()}")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[SshServer]:
    async with await asyncssh.listen(
        "127.0.0.1", 0, server_host_keys=[HOST_KEY], server_factory=Git, process_factory=upload_pack, encoding=None
    ) as listening:
        running = SshServer(listening.get_port(), tmp_path / "known_hosts")
        running.list_key(HOST_KEY)
        yield running


@pytest.fixture
def knowing(given: Given, server: SshServer) -> Given:
    return replace(given, settings=replace(SETTINGS, known_hosts=server.known_hosts))


async def compose(given: Given, url: str, key: str = KEY_TEXT) -> CheckResult:
    login = {"sshPrivateKey": key.strip(), "password": "x"}
    return await given.checker().compose_secret(given.repository_row(url, login), None)


async def test_key_when_the_server_accepts_it_then_the_secret_that_argo_cd_reads(
    knowing: Given, server: SshServer
) -> None:
    url = server.url("/team/app.git")
    composed = await compose(knowing, url)
    assert composed.reason == "RepositoryCredentialUpToDate"
    assert composed.secret is not None
    data = data_of(composed.secret)
    assert data.pop("sshPrivateKey") == KEY_TEXT
    assert data == {"name": "login", "url": url, "project": "app-project-a"}
    assert composed.access is RepositoryAccess.LOGIN


@pytest.mark.parametrize("path", ["/empty", "/~ann/app"])
async def test_repository_when_empty_or_in_a_home_then_valid(knowing: Given, server: SshServer, path: str) -> None:
    assert (await compose(knowing, server.url(path))).reason == "RepositoryCredentialUpToDate"


CASES = {
    "not-found": ("/nothing", "InvalidRepositoryUrl", "no such repository"),
    "denied": ("/denied", "InvalidCredentials", "not for this repository"),
    "error-line": ("/error-line", "InvalidCredentials", "not for this repository"),
    "a-shell": ("/shell", "InvalidRepositoryUrl", "does not answer as a git server does"),
}


@pytest.mark.parametrize(("path", "reason", "text"), CASES.values(), ids=CASES)
async def test_server_when_it_complains_then_the_reason_and_never_its_words(
    knowing: Given, server: SshServer, path: str, reason: str, text: str
) -> None:
    composed = await compose(knowing, server.url(path))
    assert composed.secret is None
    assert composed.reason == reason
    assert text in composed.message
    assert INTERNAL not in composed.message


async def test_key_when_the_server_refuses_it_then_invalid_credentials(knowing: Given, server: SshServer) -> None:
    composed = await compose(knowing, server.url("/team/app.git"), OTHER_KEY.export_private_key().decode())
    assert composed.reason == "InvalidCredentials"


async def test_host_when_not_listed_then_the_operator_is_named(knowing: Given, server: SshServer) -> None:
    server.known_hosts.write_text("")
    composed = await compose(knowing, server.url("/team/app.git"))
    assert composed.reason == "InvalidRepositoryUrl"
    assert "ask the operator to add it" in composed.message


async def test_host_key_when_changed_then_refused(knowing: Given, server: SshServer) -> None:
    server.list_key(OTHER_KEY)
    composed = await compose(knowing, server.url("/team/app.git"))
    assert composed.reason == "InvalidRepositoryUrl"
    assert "another host key" in composed.message


async def test_known_hosts_when_unreadable_then_our_own_trouble(given: Given, tmp_path: Path) -> None:
    blind = replace(given, settings=replace(SETTINGS, known_hosts=tmp_path / "missing"))
    with pytest.raises(Retry, match="SSH_KNOWN_HOSTS"):
        await compose(blind, "git@127.0.0.1:team/app.git")


async def test_port_when_closed_then_the_url_is_not_denied(knowing: Given, server: SshServer) -> None:
    server.known_hosts.write_text(f"[127.0.0.1]:1 {HOST_KEY.export_public_key().decode()}")
    composed = await compose(knowing, "ssh://git@127.0.0.1:1/a")
    assert (composed.reason, composed.message) == ("InvalidCredentials", "no connection, or no answer in time")
