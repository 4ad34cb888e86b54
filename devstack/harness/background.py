"""Starts a supervisor that outlives the command, and shows its beginnings."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from select import select

from rich.console import Console

from devstack.harness.run import StackOptions
from devstack.stack.state_folder import READY, State

LOOK_EVERY_SECONDS = 0.1
ERROR_PREFIX = "gitopsctl: error:"


def start(state: State, options: StackOptions, console: Console) -> None:
    """Return once the stack is ready; exit with the supervisor's own code and last words if it is not to be."""
    state.prepare()
    with state.supervisor_log.open("wb") as log:
        reading, writing = os.pipe()
        supervisor = subprocess.Popen(
            _command(state, options, writing),
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(writing,), start_new_session=True,
        )  # fmt: skip
        os.close(writing)
    with _ended_with_us(supervisor):
        if _follow(state.supervisor_log, reading, console):
            return
        sys.exit(supervisor.wait())


def _command(state: State, options: StackOptions, ready_fd: int) -> list[str]:
    flags = {
        "--infra": options.infrastructure_only,
        "--fresh": options.fresh,
        "--durable": options.durable,
        "--argocd": options.argocd,
        "--tls": options.tls,
        "--pods": options.pods,
        "--bare": options.bare,
        "--links": options.links,
        "--git": options.git,
        "--clocks": options.clocks,
        "--spares": options.spares,
    }
    key = ["--registry-key", str(options.registry_key)] if options.registry_key else []
    counts = ["--replicas", str(options.replicas), "--engine-clusters", str(options.engine_clusters)]
    left_out = [argument for name in options.without for argument in ("--without", name)]
    settings = [argument for setting in options.settings for argument in ("--set", setting)]
    versions = [argument for name in options.argocd_versions for argument in ("--argocd-version", name)]
    return [
        sys.executable, "-m", "services.cli", "dev", "up", "--state", str(state.root), "--ready-fd", str(ready_fd),
        *(flag for flag, wanted in flags.items() if wanted), *left_out, *versions, *settings, *key, *counts,
    ]  # fmt: skip


@contextmanager
def _ended_with_us(supervisor: subprocess.Popen[bytes]) -> Iterator[None]:
    """While we wait for it, what ends us ends the supervisor too."""
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        supervisor.terminate()
        supervisor.wait()
        raise
    finally:
        signal.signal(signal.SIGTERM, previous)


def _follow(log: Path, ready: int, console: Console) -> bool:
    """Show ``log`` as it grows until ``ready`` tells of success, or is closed without."""
    with log.open() as lines, os.fdopen(ready, "rb", buffering=0) as signals:
        while True:
            told, _, _ = select([signals], [], [], LOOK_EVERY_SECONDS)
            word = signals.read(len(READY)) if told else None
            for line in lines:
                _show(line, console)
            if word is not None:
                return word == READY


def _show(line: str, console: Console) -> None:
    if line.startswith(ERROR_PREFIX):
        sys.stderr.write(line)
    else:
        console.print(line.rstrip("\n"), markup=False, highlight=False, soft_wrap=True)
