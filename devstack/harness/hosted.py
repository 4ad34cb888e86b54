"""A stack inside another program's life: tests, the demo and the benchmarks each run one of their own.

It ends with the ``with`` block, and with the program however that ends: the kernel kills the supervisor, and with
it everything the supervisor started.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devstack.harness import control
from devstack.harness.faulty_links import FaultyLinks
from devstack.stack.clocks import set_clock
from devstack.stack.state_folder import READY, State
from devstack.supervisor import trampoline
from devstack.supervisor.child import tail_of
from services.common.errors import Unavailable
from services.common.settings import KafkaSettings

DOWN_SECONDS = 40
KILLED_SECONDS = 10
UNHURRIED = ("--set", "CONNECT_POLL_INTERVAL_MS=20")
"""An option of stacks that nobody measures. With the default Connect takes a tenth to a third of a core at rest."""
WATCHFUL = ("--set", "HEALTH_INTERVAL_SECONDS=2")
"""Another: how an Argo CD is, and so whether one that was added takes tenants, is told after 6 s, and not after 30."""


@dataclass(frozen=True)
class HostedStack:
    """A running stack."""

    state: State
    environment: dict[str, str]
    """What ``dev env`` prints."""

    @property
    def log(self) -> KafkaSettings:
        """The operator's way to the brokers and the registry."""
        return KafkaSettings(**{name.lower(): value for name, value in self.environment.items()})  # type: ignore[arg-type]

    def environment_of(self, service: str) -> dict[str, str]:
        """What ``dev env --as`` prints: a service's own credentials."""
        environments: dict[str, dict[str, str]] = self.state.recall("services")
        return environments[service]

    def processes(self) -> list[dict[str, Any]]:
        """What ``dev status --json`` lists, without the steps."""
        answer = self._ask(do="status")
        return [item for item in answer["processes"] if item["kind"] == "process"]

    def pids(self) -> dict[str, int]:
        """Pid by name, of the processes that run."""
        return {item["name"]: item["pid"] for item in self.processes() if item["pid"]}

    def kill(self, name: str) -> None:
        """SIGKILL one process."""
        self._ask(do="kill", name=name)

    def start(self, name: str) -> None:
        """Start one process that does not run; returns when it is ready."""
        self._ask(do="start", name=name)

    def freeze(self, name: str) -> None:
        """SIGSTOP one process."""
        self._ask(do="freeze", name=name)

    def thaw(self, name: str) -> None:
        """SIGCONT one process that was frozen."""
        self._ask(do="thaw", name=name)

    def set_clock(self, name: str, seconds: float) -> None:
        """Off by so much from now on. Raises InvalidConfiguration without ``--clocks``."""
        set_clock(self.state, name, seconds)

    @property
    def links(self) -> FaultyLinks:
        """Its hops, to be cut and slowed. Raises InvalidConfiguration without ``--links``."""
        return FaultyLinks.of(self.state)

    def _ask(self, **request: Any) -> Any:
        return control.ask(self.state.control_socket, request)


@contextmanager
def hosted(folder: Path, *options: str, output: Path | None = None) -> Iterator[HostedStack]:
    """Run ``gitopsctl dev up`` with ``options`` on ``folder`` until the block ends.

    What it prints goes to ``output``, or to this program's own stdout.

    Raises:
        Unavailable: it did not come up; carries the end of what it printed.
    """
    state = State(folder)
    supervisor = _spawn(folder, options, output)
    try:
        _await_ready(supervisor, output)
        yield HostedStack(state, state.recall("environment"))
    finally:
        _end(supervisor.process)


@dataclass(frozen=True)
class _Supervisor:
    process: subprocess.Popen[bytes]
    ready: int
    """Read end of the pipe that tells when everything is up; it closes when the supervisor ends."""


def _spawn(folder: Path, options: Sequence[str], output: Path | None) -> _Supervisor:
    read_end, write_end = os.pipe()
    command = [sys.executable, "-m", "services.cli", "dev", "up", "--state", str(folder), "--ready-fd", str(write_end)]
    tied = [trampoline.__file__, str(os.getpid()), str(int(signal.SIGKILL)), "keep", *command, *options]
    stream = output.open("wb") if output else None
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", *tied],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT if stream else None,
            pass_fds=(write_end,),
            start_new_session=True,  # Ctrl-C reaches the program, which then ends the stack in order
        )
    finally:
        os.close(write_end)
        if stream:
            stream.close()
    return _Supervisor(process, read_end)


def _await_ready(supervisor: _Supervisor, output: Path | None) -> None:
    with os.fdopen(supervisor.ready, "rb") as pipe:
        if pipe.read(len(READY)) == READY:
            return
    tail = f"; its last lines:\n{tail_of(output)}" if output else ""
    raise Unavailable(f"the stack did not come up (exit code {supervisor.process.wait()}){tail}")


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(DOWN_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(KILLED_SECONDS)
