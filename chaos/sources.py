"""Which sources a run tried: a report without them proves nothing of any commit."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from devstack.paths import ROOT


@dataclass(frozen=True, slots=True)
class Sources:
    """As they are checked out."""

    commit: str
    are_changed: bool
    """They are not all as the commit has them."""


def read_sources(clone: Path = ROOT) -> Sources:
    """Those that this is running from, or another clone's. Raises CalledProcessError if it is none."""

    def git(*arguments: str) -> str:
        command = ["git", *arguments]  # a prerequisite, wherever it is installed
        return subprocess.run(command, cwd=clone, check=True, capture_output=True, text=True).stdout.strip()

    return Sources(git("rev-parse", "HEAD"), bool(git("status", "--porcelain")))
