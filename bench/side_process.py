"""A program that a benchmark runs beside its stack."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from devstack.supervisor import trampoline
from devstack.supervisor.child import tail_of


class SideProcess:
    """One ``python -m``. It ends with this program, however that does."""

    def __init__(self, module: str, environment: Mapping[str, str], log: Path) -> None:
        self.module = module
        self.log = log
        tied = [trampoline.__file__, str(os.getpid()), str(int(signal.SIGKILL)), "keep"]
        command = [sys.executable, "-I", "-S", *tied, sys.executable, "-m", module]
        with log.open("wb") as output:
            self._process = subprocess.Popen(command, env=os.environ | environment, stdout=output, stderr=output)

    @property
    def pid(self) -> int:
        """Of the root of its processes."""
        return self._process.pid

    def require_running(self) -> None:
        """Raises RuntimeError if it has ended."""
        if self._process.poll() is not None:
            raise RuntimeError(f"{self.module} has ended; its last lines:\n{tail_of(self.log)}")

    def kill(self) -> None:
        """End it, without a word to it."""
        self._process.kill()
        self._process.wait()


@contextmanager
def beside(module: str, environment: Mapping[str, str], log: Path) -> Iterator[SideProcess]:
    """The program while the block runs."""
    process = SideProcess(module, environment, log)
    try:
        yield process
    finally:
        process.kill()
