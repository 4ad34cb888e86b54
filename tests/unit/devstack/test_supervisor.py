"""Processes start and end in the order of their dependencies; a failure is named and leaves nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from devstack.stack.state_folder import State
from devstack.supervisor.child import is_alive
from devstack.supervisor.process import Node, Process, Step
from devstack.supervisor.supervisor import Supervisor
from services.common.errors import InvalidConfiguration, Unavailable

ENVIRONMENT = {"PATH": os.environ["PATH"]}

Make = Callable[..., Supervisor]


@pytest.fixture
def announced() -> list[str]:
    """What the supervisor has said."""
    return []


@pytest.fixture
async def supervise(tmp_path: Path, announced: list[str]) -> AsyncIterator[Make]:
    """Makes a supervisor of nodes; whatever is left of it ends with the test."""
    state = State(tmp_path / "state")
    state.prepare()
    made: list[Supervisor] = []

    def make(*nodes: Node) -> Supervisor:
        made.append(Supervisor(nodes, state.log, "keep", announced.append))
        return made[-1]

    yield make
    for supervisor in made:
        await supervisor.down()


async def at_once() -> bool:
    return True


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - what is waited for happens in another process
            await asyncio.sleep(0.01)


def sleeper(name: str, *depends_on: str, script: str = "sleep 60", **options: object) -> Process:
    return Process(
        name=name,
        argv=("/bin/sh", "-c", f"exec {script}" if script.startswith("sleep") else script),
        env=ENVIRONMENT,
        ready=at_once,
        depends_on=depends_on,
        **options,  # type: ignore[arg-type]
    )


def step(name: str, script: str, *depends_on: str) -> Step:
    return Step(name=name, argv=("/bin/sh", "-c", script), env=ENVIRONMENT, depends_on=depends_on)


def ready_order(announced: list[str]) -> list[str]:
    return [line.split()[0] for line in announced if " ready after " in line or " done after " in line]


async def test_up_when_nodes_depend_on_each_other_then_they_come_in_that_order(
    supervise: Make, announced: list[str]
) -> None:
    supervisor = supervise(sleeper("c", "b"), step("b", "true", "a"), sleeper("a"))
    await supervisor.up()
    assert ready_order(announced) == ["a", "b", "c"]
    assert supervisor.ready


async def test_up_when_nodes_are_independent_then_one_does_not_wait_for_another(
    supervise: Make, tmp_path: Path
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)  # opening it blocks until the other end is opened too
    await asyncio.wait_for(supervise(step("a", f"echo x > {fifo}"), step("b", f"cat {fifo}")).up(), 10)


async def test_up_when_a_step_fails_then_it_is_named_and_its_last_words_are_shown(
    supervise: Make, announced: list[str]
) -> None:
    supervisor = supervise(sleeper("a"), step("b", "echo because; exit 3", "a"), sleeper("c", "b"))
    with pytest.raises(Unavailable, match="'b' ended with exit code 3"):
        await supervisor.up()
    assert "because" in announced[-1]
    assert supervisor.status()[2]["phase"] == "waiting"


async def test_up_when_a_process_ends_at_once_then_it_is_named(supervise: Make, announced: list[str]) -> None:
    async def never() -> bool:
        return False

    process = Process(name="a", argv=("/bin/sh", "-c", "echo because; exit 4"), env=ENVIRONMENT, ready=never)
    with pytest.raises(Unavailable, match="a ended with exit code 4 before it was ready"):
        await supervise(process).up()
    assert "because" in announced[-1]


async def test_up_when_a_process_is_not_ready_in_time_then_it_is_named(supervise: Make) -> None:
    async def never() -> bool:
        raise ConnectionRefusedError

    process = Process(name="a", argv=("/bin/sleep", "60"), env=ENVIRONMENT, ready=never, start_seconds=0.2)
    with pytest.raises(Unavailable, match="a was not ready within 0 s"):
        await supervise(process).up()


async def test_up_when_the_program_is_missing_then_it_is_named(supervise: Make, announced: list[str]) -> None:
    async def never() -> bool:
        return False

    process = Process(name="a", argv=("/nowhere/program",), env=ENVIRONMENT, ready=never)
    with pytest.raises(Unavailable, match="a ended with exit code 127"):
        await supervise(process).up()
    assert "cannot start /nowhere/program" in announced[-1]


async def test_up_when_a_ready_process_dies_while_others_start_then_it_fails(supervise: Make) -> None:
    supervisor = supervise(sleeper("a", script="sleep 0.2"), step("b", "sleep 60", "a"))
    with pytest.raises(Unavailable, match="a ended with exit code 0"):
        await supervisor.up()


async def test_down_when_processes_depend_on_each_other_then_they_end_in_the_opposite_order(
    supervise: Make, tmp_path: Path
) -> None:
    ends = tmp_path / "ends"

    def process(name: str, *depends_on: str) -> Process:
        note = f"trap 'echo {name} >> {ends}; exit' TERM; touch {tmp_path / name}; while :; do sleep 0.01; done"

        async def trapped() -> bool:
            return (tmp_path / name).exists()

        return Process(name=name, argv=("/bin/sh", "-c", note), env=ENVIRONMENT, ready=trapped, depends_on=depends_on)

    supervisor = supervise(process("a"), step("s", "true", "a"), process("b", "s"), process("c", "b"))
    await supervisor.up()
    await supervisor.down()
    assert ends.read_text().split() == ["c", "b", "a"]


async def test_down_when_a_process_does_not_listen_then_it_is_killed(supervise: Make) -> None:
    deaf = sleeper("a", script="trap '' TERM; while :; do sleep 0.1; done", stop_seconds=0.2)
    supervisor = supervise(deaf)
    await supervisor.up()
    pid = supervisor.status()[0]["pid"]
    await supervisor.down()
    assert not is_alive(pid)


async def test_kill_when_the_process_has_children_then_they_end_too(supervise: Make, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    parent = sleeper("a", script=f"sleep 61 & echo $! > {note}; wait")
    supervisor = supervise(parent)
    await supervisor.up()
    await until(lambda: note.exists() and bool(note.read_text().strip()))
    grandchild = int(note.read_text())
    await supervisor.kill("a")
    assert not is_alive(grandchild)
    assert supervisor.status()[0]["phase"] == "stopped"


async def test_start_when_the_process_was_killed_then_it_runs_again(supervise: Make) -> None:
    supervisor = supervise(sleeper("a"))
    await supervisor.up()
    await supervisor.kill("a")
    await supervisor.start("a")
    assert supervisor.status()[0]["ready"]
    with pytest.raises(InvalidConfiguration, match="running already"):
        await supervisor.start("a")


async def test_process_when_it_dies_later_then_it_is_named_and_the_others_stay(
    supervise: Make, announced: list[str]
) -> None:
    supervisor = supervise(sleeper("a"), sleeper("b"))
    await supervisor.up()
    os.kill(supervisor.status()[0]["pid"], signal.SIGKILL)
    await until(lambda: any("a was ended by SIGKILL" in line for line in announced))
    assert [item["phase"] for item in supervisor.status()] == ["died", "ready"]


def test_children_when_their_supervisor_is_killed_then_they_end(tmp_path: Path) -> None:
    import subprocess  # noqa: PLC0415
    import time  # noqa: PLC0415

    program = (
        "import asyncio, pathlib, sys\n"
        "from devstack.supervisor.child import spawn\n"
        "async def main():\n"
        "    child = await spawn(('/bin/sleep', '60'), {}, pathlib.Path(sys.argv[1]))\n"
        "    print(child.pid, flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "log")], stdout=subprocess.PIPE, text=True
    ) as supervisor:
        child = int((supervisor.stdout or sys.stdin).readline())
        supervisor.kill()
    deadline = time.monotonic() + 5
    while is_alive(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_alive(child)


def _state(pid: int) -> str:
    """As in /proc: T is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


async def test_process_when_frozen_then_it_and_its_children_stand_still_until_thawed(
    supervise: Make, tmp_path: Path
) -> None:
    child = tmp_path / "child"
    supervisor = supervise(sleeper("frozen", script=f"sleep 60 & echo $! > {child}; wait"))
    await supervisor.up()
    await until(lambda: child.exists() and child.read_text().endswith("\n"))
    pids = [supervisor.status()[0]["pid"], int(child.read_text())]
    supervisor.freeze("frozen")
    await until(lambda: all(_state(pid) == "T" for pid in pids))
    assert supervisor.status()[0]["phase"] == "frozen"
    supervisor.thaw("frozen")
    await until(lambda: all(_state(pid) == "S" for pid in pids))
    assert supervisor.status()[0]["ready"]


async def test_down_when_a_process_is_frozen_then_it_ends_in_order(supervise: Make, tmp_path: Path) -> None:
    ready, ended = tmp_path / "ready", tmp_path / "ended"
    script = f"trap 'touch {ended}; exit' TERM; touch {ready}; while :; do sleep 0.01; done"
    supervisor = supervise(sleeper("frozen", script=script))
    await supervisor.up()
    await until(ready.exists)
    supervisor.freeze("frozen")
    await supervisor.down()
    assert ended.exists()


@pytest.mark.parametrize(("act", "phase"), [(Supervisor.thaw, "not frozen but"), (Supervisor.freeze, "not ready but")])
async def test_process_when_it_is_in_another_phase_then_it_is_neither_frozen_nor_thawed(
    supervise: Make, act: Callable[[Supervisor, str], None], phase: str
) -> None:
    supervisor = supervise(sleeper("other"))
    await supervisor.up()
    if act is Supervisor.freeze:
        await supervisor.kill("other")
    with pytest.raises(InvalidConfiguration, match=phase):
        act(supervisor, "other")
