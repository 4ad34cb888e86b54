"""Commands that prepare files for a process."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from services.cli.dev.child import spawn, tail_of
from services.common.errors import Unavailable


async def run(argv: tuple[str, ...], env: Mapping[str, str], log: Path, drop: str = "keep") -> None:
    """Run ``argv`` to its end. Raises Unavailable with its last line if it fails."""
    process = await spawn(argv, env, log, drop)
    try:
        code = await process.wait()
    except asyncio.CancelledError:
        process.kill()
        raise
    if code != 0:
        raise Unavailable(f"{Path(argv[0]).name} failed with exit code {code}: {tail_of(log, 1)}; see {log}")
