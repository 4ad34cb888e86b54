"""Bare git repositories, and commits to them without a working tree."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from services.common.errors import InvalidConfiguration, Unavailable

BRANCH = "main"
AUTHOR = "Local Stack <local-stack@example.com>"
FILE_MODE, LINK_MODE = "100644", "120000"

Content = str | bytes | Path | None
"""Of a file; a path is that of a symbolic link, None stands for a file to be removed."""


@dataclass(frozen=True)
class Repository:
    """One bare repository."""

    path: Path

    @classmethod
    def create(cls, path: Path) -> Self:
        """Make an empty one. Raises InvalidConfiguration if git is not installed."""
        _git("init", "--quiet", "--bare", f"--initial-branch={BRANCH}", str(path))
        return cls(path)

    def commit(self, files: Mapping[str, Content], message: str = "Change", branch: str = BRANCH) -> str:
        """Commit ``files`` by path on top of ``branch``; returns the commit's id."""
        self._git("fast-import", "--quiet", "--date-format=now", stdin=b"".join(self._stream(files, message, branch)))
        return self.head(branch)

    def head(self, branch: str = BRANCH) -> str:
        """Id of the last commit of ``branch``."""
        return self._git("rev-parse", f"refs/heads/{branch}").strip()

    def last_change(self, path: str, branch: str = BRANCH) -> str:
        """Id of the commit of ``branch`` that changed something at ``path`` last."""
        return self._git("log", "-1", "--format=%H", f"refs/heads/{branch}", "--", path).strip()

    def fetch(self, other: Repository, branch: str = BRANCH) -> None:
        """Bring ``branch`` to where ``other`` has it, as if that had been pushed."""
        self._git("fetch", "--quiet", str(other.path), f"{branch}:{branch}")

    def show(self, commit: str, path: str) -> str:
        """What a file holds at a commit."""
        return self._git("show", f"{commit}:{path}")

    def _stream(self, files: Mapping[str, Content], message: str, branch: str) -> Iterator[bytes]:
        yield f"commit refs/heads/{branch}\ncommitter {AUTHOR} now\n".encode()
        yield _data(message)
        if self._git("for-each-ref", f"refs/heads/{branch}"):
            yield f"from refs/heads/{branch}^0\n".encode()
        for path, content in files.items():
            if content is None:
                yield f"D {path}\n".encode()
            else:
                mode = LINK_MODE if isinstance(content, Path) else FILE_MODE
                yield f"M {mode} inline {path}\n".encode()
                yield _data(content if isinstance(content, bytes) else str(content))

    def _git(self, *arguments: str, stdin: bytes = b"") -> str:
        return _git("-C", str(self.path), *arguments, stdin=stdin)


def _data(content: str | bytes) -> bytes:
    content = content.encode() if isinstance(content, str) else content
    return f"data {len(content)}\n".encode() + content + b"\n"


def _git(*arguments: str, stdin: bytes = b"") -> str:
    # A developer's own configuration (hooks, signing, templates) has no say in these repositories.
    isolated = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    loose = ("-c", "fastimport.unpackLimit=1000000")
    try:
        outcome = subprocess.run(
            ["git", *loose, *arguments],  # noqa: S607 - a prerequisite, wherever it is installed
            input=stdin, capture_output=True, env=os.environ | isolated, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        raise InvalidConfiguration("git is not installed") from None
    if outcome.returncode != 0:
        raise Unavailable(f"git {' '.join(arguments)}: {outcome.stderr.decode().strip()}")
    return outcome.stdout.decode()
