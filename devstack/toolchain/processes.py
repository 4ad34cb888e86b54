"""Other programs, which either succeed or are quoted."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

from services.common.errors import Unavailable

LAST_CHARACTERS = 2000


def run_checked(command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """Run a program to its end; returns what it printed. Raises Unavailable with the end of that, if it fails."""
    try:
        outcome = subprocess.run(
            command,
            env=os.environ if environment is None else environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise Unavailable(f"{command[0]} is not installed") from error
    if outcome.returncode != 0:
        raise Unavailable(f"{' '.join(command[:4])} … failed: {outcome.stdout.strip()[-LAST_CHARACTERS:]}")
    return outcome.stdout


def output_of(*command: str) -> str:
    """The same, of a command that needs no other environment."""
    return run_checked(command)
