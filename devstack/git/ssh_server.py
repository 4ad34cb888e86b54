"""Serves git repositories over ssh to whoever has the right key; reading only.

Run as ``python -m devstack.git.ssh_server FOLDER PORT``.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from pathlib import Path

import asyncssh

from devstack.git.site import GitSite
from devstack.supervisor.health_checks import HOST

COMMAND = "git-upload-pack"
REFUSED = 128
"""Exit code of git for what it will not do."""


class Users(asyncssh.SSHServer):
    """Those who have a key of their own; that of all others is among the authorized ones."""

    def __init__(self, site: GitSite) -> None:
        self._site = site

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        """Whether it is this user's."""
        return self._site.admits_key(username, key.export_public_key().decode())


async def serve(site: GitSite) -> asyncssh.SSHAcceptor:
    """Listen until the returned server is closed."""

    async def handle(process: asyncssh.SSHServerProcess[bytes]) -> None:
        try:
            repository = requested(process.command or "", site.repositories)
        except ValueError as error:
            process.stderr.write(f"{error}\n".encode())
            process.exit(REFUSED)
            return
        await _upload(process, repository)

    return await asyncssh.listen(
        HOST,
        site.ssh_port,
        server_factory=lambda: Users(site),
        server_host_keys=[str(site.host_key)],
        authorized_client_keys=str(site.authorized_keys),
        process_factory=handle,
        encoding=None,
        agent_forwarding=False,
    )


def requested(command: str, repositories: Path) -> Path:
    """The repository that ``command`` wants to read. Raises ValueError saying why it may not."""
    words = shlex.split(command)
    if len(words) != 2 or words[0] != COMMAND:  # noqa: PLR2004 - the program and the repository
        raise ValueError(f"only {COMMAND} with one repository is served here")
    path = (repositories / words[1].lstrip("/")).resolve()
    if not path.is_relative_to(repositories.resolve()) or not path.is_dir():
        raise ValueError(f"there is no repository {words[1]}")
    return path


async def _upload(process: asyncssh.SSHServerProcess[bytes], repository: Path) -> None:
    git = await asyncio.create_subprocess_exec(
        "git", "upload-pack", "--strict", str(repository),
        env={"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1"},
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    await process.redirect(stdin=git.stdin, stdout=git.stdout, stderr=git.stderr)
    code = await git.wait()
    await process.stdout.drain()
    process.exit(code)


async def _main() -> None:
    folder, port = sys.argv[1:]
    server = await serve(GitSite(Path(folder), 0, int(port), os.environ["GIT_PASSWORD"]))
    await server.wait_closed()


if __name__ == "__main__":
    asyncio.run(_main())
