"""What an operator types, while something is measured."""

from __future__ import annotations

import os
import subprocess
import sys

from devstack.harness.hosted import HostedStack


def gitopsctl(stack: HostedStack, *arguments: str) -> str:
    """As an operator; returns what it printed. Raises RuntimeError with what it said if it fails."""
    command = [sys.executable, "-m", "services.cli", *arguments]
    ended = subprocess.run(command, env=os.environ | stack.environment, check=False, capture_output=True, text=True)
    if ended.returncode:
        raise RuntimeError(f"gitopsctl {' '.join(arguments)}: {ended.stderr.strip() or ended.stdout.strip()}")
    return ended.stdout
