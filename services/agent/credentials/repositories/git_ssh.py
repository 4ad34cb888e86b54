"""Checks a private key on a git server over ssh: connects, runs git-upload-pack and reads the beginning of its output.

Only servers whose host keys the operator has listed are contacted: a key must not be used with an unverified server. No
ssh agent, configuration or key of the machine is used.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from dataclasses import dataclass
from pathlib import Path

import asyncssh

from services.agent.credentials.check_result import (
    INVALID_CREDENTIALS,
    INVALID_URL,
    CheckFailed,
    CheckInconclusive,
    repository_unreached,
    shown,
)
from services.agent.credentials.network.resolver import ConnectionProblem, HostResolver, ResolvedHost, Unreachable
from services.agent.credentials.repositories.git_url import SSH_PORT, SshUrl
from services.agent.credentials.repositories.private_key import private_key
from services.common.errors import Retry

LENGTH_DIGITS = 4
ERROR = b"ERR "
_LENGTH = re.compile(rb"[0-9a-f]{4}")
"""A pkt-line begins with its length in hexadecimal. An empty repository may begin with ``0000``."""
MAX_COMPLAINT = 16 * 1024
COMPLAINT_SECONDS = 2.0

_NO_REPOSITORY = ("not found", "does not exist", "does not appear to be a git repository", "could not be found")
_NO_ACCESS = ("permission", "denied", "not allowed", "access", "unauthorized")


@dataclass(frozen=True, slots=True)
class SshRepositories:
    """Checks repositories over ssh."""

    resolver: HostResolver
    known_hosts: Path | None
    connect_seconds: float
    seconds: float

    async def check_login(self, url: SshUrl, key_text: str) -> None:
        """Raises CheckFailed if the repository does not open with the key, Retry if known_hosts cannot be read."""
        key = private_key(key_text)
        known = self._known_hosts()
        problem = None
        try:
            async with asyncio.timeout(self.seconds):
                located = await self.resolver.resolve_host(url.host, url.port)
                _require_known(known, located)
                await self._talk(url, located, key, known)
        except Unreachable as error:
            problem = error.problem
        except (TimeoutError, OSError, asyncssh.Error):
            # asyncssh's errors quote what the server said.
            problem = ConnectionProblem.SILENCE
        if problem is not None:
            raise repository_unreached(problem)

    async def _talk(
        self, url: SshUrl, located: ResolvedHost, key: asyncssh.SSHKey, known: asyncssh.SSHKnownHosts
    ) -> None:
        connected = await self._connected(located)
        why = None
        try:
            connection = await asyncssh.connect(
                url.host,
                url.port,
                sock=connected,
                config=None,
                username=url.user,
                client_keys=[key],
                known_hosts=known,
                agent_path=None,
                x509_trusted_certs=None,
                gss_host=None,
                preferred_auth="publickey",
                login_timeout=self.seconds,
            )
        except asyncssh.PermissionDenied:
            why = _not_accepted(url)
        except asyncssh.HostKeyNotVerifiable:
            why = CheckInconclusive(INVALID_URL, "the server shows another host key than the operator has listed")
        except BaseException:
            connected.close()
            raise
        if why is not None:
            connected.close()
            raise why
        async with connection:
            await _discover(connection, url.path)

    async def _connected(self, located: ResolvedHost) -> socket.socket:
        """A connection to the first checked address that accepts one."""
        loop = asyncio.get_running_loop()
        for family, address in located.addresses:
            self.resolver.require_allowed(address)
            attempt = socket.socket(family, socket.SOCK_STREAM)
            attempt.setblocking(False)
            try:
                async with asyncio.timeout(self.connect_seconds):
                    await loop.sock_connect(attempt, (address, located.port))
            except (OSError, TimeoutError):
                attempt.close()
            except BaseException:
                attempt.close()
                raise
            else:
                return attempt
        raise Unreachable(ConnectionProblem.SILENCE)

    def _known_hosts(self) -> asyncssh.SSHKnownHosts:
        if self.known_hosts is None:
            return asyncssh.SSHKnownHosts()
        try:
            return asyncssh.read_known_hosts(str(self.known_hosts))
        except (OSError, ValueError, UnicodeError) as error:
            raise Retry(f"SSH_KNOWN_HOSTS: {self.known_hosts}: {type(error).__name__}") from error


def _not_accepted(url: SshUrl) -> CheckFailed:
    return CheckFailed(INVALID_CREDENTIALS, f"the server does not accept the key for user {shown(url.user)}")


def _require_known(known: asyncssh.SSHKnownHosts, located: ResolvedHost) -> None:
    """Raises CheckFailed, before any connection, if no key is listed for the host."""
    port = located.port if located.port != SSH_PORT else None
    for _, address in located.addresses:
        host_keys, authorities, *_ = known.match(located.host, address, port)
        if host_keys or authorities:
            return
    raise CheckInconclusive(
        INVALID_URL,
        f"no host key is listed for {shown(located.host)}: ask the operator to add it to the known hosts",
    )


async def _discover(connection: asyncssh.SSHClientConnection, path: str) -> None:
    """Raises CheckFailed unless a git repository is at ``path``."""
    async with connection.create_process(f"git-upload-pack '{path}'", encoding=None) as process:
        beginning = b""
        with contextlib.suppress(asyncio.IncompleteReadError):
            beginning = await process.stdout.readexactly(LENGTH_DIGITS)
            length = int(beginning, 16) if _LENGTH.fullmatch(beginning) else LENGTH_DIGITS
            beginning += await process.stdout.readexactly(min(max(0, length - LENGTH_DIGITS), len(ERROR)))
        is_git = _LENGTH.match(beginning) is not None and not beginning.endswith(ERROR)
        complaint = b"" if is_git else await _complaint(process)
        process.close()
    if not is_git:
        raise _complained(complaint.decode(errors="replace").lower())


async def _complaint(process: asyncssh.SSHClientProcess[bytes]) -> bytes:
    """The beginning of the server's output on both streams."""
    said = b""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(COMPLAINT_SECONDS):
            said += await process.stderr.read(MAX_COMPLAINT)
            said += await process.stdout.read(MAX_COMPLAINT)
    return said


def _complained(complaint: str) -> CheckFailed:
    """The failure in our words: the server's may reveal what the tenant must not know."""
    if any(sign in complaint for sign in _NO_REPOSITORY):
        return CheckFailed(INVALID_URL, "the server says that there is no such repository")
    if any(sign in complaint for sign in _NO_ACCESS):
        return CheckFailed(INVALID_CREDENTIALS, "the server accepts the key, but not for this repository")
    return CheckFailed(INVALID_URL, "the server does not answer as a git server does")
