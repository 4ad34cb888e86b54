"""One child process of the supervisor: started, watched until ready, measured, stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Any

from devstack.supervisor import trampoline
from devstack.supervisor.process import Process
from services.common.errors import Unavailable

PROBE_EVERY_SECONDS = 0.05
TAIL_LINES = 20


class Phase(StrEnum):
    """Where in its life a child is."""

    WAITING = "waiting"
    STARTING = "starting"
    READY = "ready"
    FROZEN = "frozen"
    STOPPING = "stopping"
    STOPPED = "stopped"
    DIED = "died"


class Child:
    """A :class:`Process` and the operating-system process that runs it, if any."""

    def __init__(self, process: Process, log: Path, drop: str) -> None:
        """``drop`` is how to give up root, one of ``trampoline.DROPS``."""
        self.process = process
        self.phase = Phase.WAITING
        self.log = log
        self.exit_code: int | None = None
        self._drop = drop if process.unprivileged else "keep"
        self._running: asyncio.subprocess.Process | None = None
        self._started_at = 0.0

    @property
    def name(self) -> str:
        """The process's name."""
        return self.process.name

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return self._running.pid if self._running and self._running.returncode is None else None

    async def start(self) -> None:
        """Start it and return once it is ready. Raises Unavailable if it ends before, or takes too long."""
        self.phase, self._started_at = Phase.STARTING, time.monotonic()
        await self.process.prepare()
        self._running = await spawn(
            self.process.argv, self.process.env, self.log, self._drop, self.process.death_signal
        )
        await self._until_ready()
        self.phase = Phase.READY

    async def exited(self) -> int:
        """Wait for its end and return its exit code, negative for a signal."""
        if self._running is None:
            raise RuntimeError(f"{self.name} was never started")
        self.exit_code = await self._running.wait()
        return self.exit_code

    def freeze(self) -> None:
        """Stop it in its tracks (SIGSTOP), and every process it started: its connections stay, nobody answers."""
        self._signal_tree(signal.SIGSTOP)
        self.phase = Phase.FROZEN

    def thaw(self) -> None:
        """Let it go on (SIGCONT) as if no time had passed."""
        self._signal_tree(signal.SIGCONT)
        self.phase = Phase.READY

    async def stop(self) -> None:
        """End it in order, by force when that takes too long."""
        if self.pid is None:
            return
        if self.phase is Phase.FROZEN:
            self.thaw()
        self.phase = Phase.STOPPING
        self._signal_group(self.process.stop_signal)
        with suppress(TimeoutError):
            await asyncio.wait_for(self.exited(), self.process.stop_seconds)
        await self.kill()

    async def kill(self) -> None:
        """End it at once with SIGKILL, and every process it started."""
        if self.pid is not None:
            self.phase = Phase.STOPPING
            family = self._signal_tree(signal.SIGKILL)
            await self.exited()
            await _until_gone(family)
        self.phase = Phase.STOPPED

    def status(self) -> dict[str, Any]:
        """For people and for ``dev status --json``. ``memory`` is in bytes, all its processes together."""
        pid = self.pid
        return {
            "name": self.name,
            "kind": "process",
            "phase": str(self.phase),
            "ready": self.phase is Phase.READY,
            "pid": pid,
            "ports": dict(self.process.ports),
            "memory": sum(map(resident_bytes, tree(pid))) if pid else 0,
            "exit_code": self.exit_code,
        }

    async def _until_ready(self) -> None:
        end = asyncio.ensure_future(self.exited())
        try:
            async with asyncio.timeout(self.process.start_seconds):
                while not end.done() and not await _answers(self.process):
                    await asyncio.wait({end}, timeout=PROBE_EVERY_SECONDS)
        except TimeoutError:
            raise Unavailable(f"{self.name} was not ready within {self.process.start_seconds:.0f} s") from None
        finally:
            finished = end.done()
            end.cancel()
        if finished:
            self.phase = Phase.DIED
            raise Unavailable(f"{self.name} {describe_exit(self.exit_code)} before it was ready")

    def _signal_tree(self, number: signal.Signals) -> Family:
        """Signal it and every process it started; returns these."""
        family = family_of(self.pid) if self.pid is not None else {}
        for pid in family:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        return family

    def _signal_group(self, number: signal.Signals) -> None:
        if self.pid is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)


async def spawn(
    argv: tuple[str, ...],
    env: Any,
    log: Path,
    drop: str = "keep",
    death_signal: signal.Signals = signal.SIGKILL,
) -> asyncio.subprocess.Process:
    """Start ``argv`` in a session of its own, its output appended to ``log``, tied to this process's life."""
    # The child writes its log itself: no pipe of ours that could fill up, or break when we are killed.
    with log.open("ab") as output:
        return await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", trampoline.__file__, str(os.getpid()), str(int(death_signal)), drop, *argv,
            env=dict(env), stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip


async def run_to_end(argv: tuple[str, ...], env: Mapping[str, str], log: Path, drop: str = "keep") -> None:
    """Run ``argv`` to its end. Raises Unavailable with its last line if it fails."""
    process = await spawn(argv, env, log, drop)
    try:
        code = await process.wait()
    except asyncio.CancelledError:
        process.kill()
        raise
    if code != 0:
        raise Unavailable(f"{Path(argv[0]).name} failed with exit code {code}: {tail_of(log, 1)}; see {log}")


def tail_of(log: Path, lines: int = TAIL_LINES) -> str:
    """The last lines of a log, empty if there is none."""
    with suppress(FileNotFoundError):
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    return ""


def describe_exit(code: int | None) -> str:
    """An exit code in words."""
    if code is not None and code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


def tree(pid: int) -> Iterator[int]:
    """``pid`` and every process below it."""
    yield pid
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from tree(int(child))


def resident_bytes(pid: int) -> int:
    """Memory of one process; shared pages are divided among those that share them where the kernel tells."""
    for file, field in (("smaps_rollup", "Pss:"), ("status", "VmRSS:")):
        with suppress(OSError):
            for line in Path(f"/proc/{pid}/{file}").read_text().splitlines():
                if line.startswith(field):
                    return int(line.split()[1]) * 1024
    return 0


async def _answers(process: Process) -> bool:
    try:
        return await process.ready()
    except (OSError, asyncio.IncompleteReadError, TimeoutError):
        return False


Family = Mapping[int, str]
"""Processes by their ids, and when each began: within minutes the kernel gives an id to another process or thread."""


def family_of(pid: int) -> Family:
    """``pid`` and every process below it."""
    return {each: _began(each) for each in tree(pid)}


def still_there(family: Family) -> list[int]:
    """The ids of those that have not ended."""
    return [pid for pid, began in family.items() if is_alive(pid) and _began(pid) == began]


def _began(pid: int) -> str:
    """In ticks since the machine has started; empty if there is no such process."""
    with suppress(OSError):
        return _fields_of(pid)[19]
    return ""


async def _until_gone(family: Family) -> None:
    while still_there(family):  # noqa: ASYNC110 - they are not our children: nothing tells us of their end
        await asyncio.sleep(0.01)


def is_alive(pid: int) -> bool:
    """Whether ``pid`` runs."""
    with suppress(OSError):
        return _fields_of(pid)[0] != "Z"  # the state: a zombie is dead, however long its parent lets it lie
    return False


def _fields_of(pid: int) -> list[str]:
    """What ``/proc`` tells of a process after its name, which is in parentheses and may hold blanks."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
