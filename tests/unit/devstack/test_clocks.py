"""The clock of a process that can be set: its time of day jumps, what runs on does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from devstack.paths import ROOT
from devstack.stack import clocks
from devstack.stack.state_folder import State
from services.common.errors import InvalidConfiguration

PROGRAM = """
import sys, time
from datetime import datetime, UTC
steady = time.monotonic()
for line in sys.stdin:
    deadline = time.monotonic() + 20
    before = time.time()
    print("ready", flush=True)
    while abs(time.time() - before) < 100 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert abs(datetime.now(UTC).timestamp() - time.time()) < 1
    print(round((time.time() - before) / 60), time.monotonic() - steady < 100, flush=True)
"""


@pytest.fixture
def state(tmp_path: Path) -> State:
    state = State(tmp_path / "state")
    state.prepare()
    return state


def test_clock_when_set_then_the_time_of_day_jumps_and_back_and_what_runs_on_does_not(
    state: State, tmp_path: Path
) -> None:
    (tmp_path / "told.py").write_text(PROGRAM)
    clocks.prepare_clock(state, "planner")
    program = subprocess.Popen(
        [sys.executable, "-m", clocks.__name__, str(clocks.clock_of(state, "planner")), "told"],
        env={"PYTHONPATH": f"{ROOT}:{tmp_path}"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert program.stdin is not None
    assert program.stdout is not None
    with program:
        for offset, jump in ((3600, "60"), (-3600, "-120"), (0, "60")):
            print("go", file=program.stdin, flush=True)
            assert program.stdout.readline() == "ready\n"
            clocks.set_clock(state, "planner", offset)
            assert program.stdout.readline() == f"{jump} True\n"
        program.stdin.close()
    assert program.returncode == 0


def test_clock_when_it_was_wrong_and_the_process_is_started_again_then_it_still_is(state: State) -> None:
    clocks.prepare_clock(state, "planner")
    clocks.set_clock(state, "planner", 60)
    clocks.prepare_clock(state, "planner")
    assert float(clocks.clock_of(state, "planner").read_text()) == 60


def test_clock_when_it_cannot_be_set_then_the_option_is_named(state: State) -> None:
    with pytest.raises(InvalidConfiguration, match="--clocks"):
        clocks.set_clock(state, "planner", 60)
