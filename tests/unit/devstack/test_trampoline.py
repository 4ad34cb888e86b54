"""Children give up root where they must, and still read a clone below root's closed home."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from devstack.supervisor import trampoline
from devstack.supervisor.privileges import WAYS, way_to_drop_root

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has something to give up")


def run(drop: str, script: str, parent: int | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-S", trampoline.__file__, str(parent or os.getpid()), str(int(signal.SIGKILL))]
    return subprocess.run([*command, drop, "/bin/sh", "-c", script], capture_output=True, text=True, check=False)


@needs_root
@pytest.mark.parametrize("way", WAYS)
def test_child_when_it_gives_up_root_then_it_is_nobody_who_passes_closed_folders(way: str, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "file").write_text("content")
    outcome = run(way, f"id --user; cat {closed}/file")
    assert outcome.stdout.split() == [str(trampoline.UNPRIVILEGED), "content"], outcome.stderr


@needs_root
@pytest.mark.parametrize("way", WAYS)
def test_child_when_it_gave_up_root_then_it_still_dies_with_its_parent(way: str) -> None:
    # prctl's answer to the question which signal is due, asked by the child about itself.
    question = (
        "import ctypes; signal = ctypes.c_int(); ctypes.CDLL(None).prctl(2, ctypes.byref(signal)); print(signal.value)"
    )
    assert run(way, f'exec "{sys.executable}" -c "{question}"').stdout.strip() == str(int(signal.SIGKILL))


def test_child_when_its_parent_has_ended_already_then_it_does_not_start() -> None:
    outcome = run("keep", "echo started", parent=os.getppid())
    assert (outcome.returncode, outcome.stdout) == (-signal.SIGKILL, "")


def test_child_when_an_ordinary_user_starts_it_then_there_is_nothing_to_give_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    way_to_drop_root.cache_clear()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert way_to_drop_root() == "keep"
    way_to_drop_root.cache_clear()
