"""Programs of the machine that are run to their end."""

from __future__ import annotations

import subprocess

from services.common.errors import Unavailable


def run(*argv: str, given: str | None = None) -> str:
    """Output of ``argv``, with ``given`` as its input. Raises Unavailable with what it says of its failure."""
    outcome = subprocess.run(argv, input=given, capture_output=True, text=True, check=False)
    if outcome.returncode != 0:
        raise Unavailable(f"{' '.join(argv)}: {outcome.stderr.strip() or f'exit code {outcome.returncode}'}")
    return outcome.stdout
