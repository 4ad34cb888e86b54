"""Clocks of our own processes that can be set: ``dev up --clocks``, then ``dev clock PROCESS SECONDS``.

A process is run by this module then, ``python -m devstack.stack.clocks FILE MODULE``: what its Python code is told of
the time of day is as many seconds off as the file says. What only runs on, ``time.monotonic``, stays true, as it does
when somebody sets the clock of a machine; so does what librdkafka reads.
"""

from __future__ import annotations

import runpy
import sys
import threading
import time
from pathlib import Path

from devstack.stack.state_folder import State
from services.common.errors import InvalidConfiguration

LOOK_EVERY_SECONDS = 0.2


def clock_of(state: State, process: str) -> Path:
    """The file that says by how many seconds the clock of ``process`` is off."""
    return state.folder("clocks") / process


def prepare_clock(state: State, process: str) -> None:
    """It can be set from now on, and is right if nobody has set it before."""
    if not clock_of(state, process).exists():
        _write(clock_of(state, process), 0)


def set_clock(state: State, process: str, seconds: float) -> None:
    """From its next look on the clock of ``process`` is off by ``seconds``; 0: it is right again.

    Raises InvalidConfiguration if it cannot be set.
    """
    file = clock_of(state, process)
    if not file.exists():
        raise InvalidConfiguration(f"the clock of '{process}' cannot be set; start the stack with 'dev up --clocks'")
    _write(file, seconds)


def _write(file: Path, seconds: float) -> None:
    fresh = file.with_name(f".{file.name}")
    fresh.write_text(str(seconds))
    fresh.replace(file)


def run(file: Path, module: str) -> None:
    """Run ``module`` as the program that this process is."""
    threading.Thread(target=_follow, args=(file,), daemon=True).start()
    sys.argv = [module]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _follow(file: Path) -> None:
    import time_machine  # noqa: PLC0415 - only processes whose clocks can be set need it

    travelling, offset = None, 0.0
    while True:
        wanted = float(file.read_text())
        if wanted != offset:
            if travelling is not None:
                travelling.stop()
            travelling, offset = time_machine.travel(time.time() + wanted), wanted
            travelling.start()
        time.sleep(LOOK_EVERY_SECONDS)


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2])
