"""CPU time and memory are summed over process trees, as /proc has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import processes


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(processes, "PROC", tmp_path)
    monkeypatch.setattr(processes, "TICKS", 100)
    monkeypatch.setattr(processes, "PAGE", 4096)
    (tmp_path / "self").mkdir()
    return tmp_path


def process(
    proc: Path, pid: int, parent: int, *, ticks: tuple[int, int, int, int], pages: int, name: str = "x"
) -> None:
    """/proc/PID/stat: pid (name) state parent … utime stime cutime cstime … rss."""
    after_name = ["S", str(parent), *["0"] * 9, *map(str, ticks), *["0"] * 6, str(pages), "0"]
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "stat").write_text(f"{pid} ({name}) {' '.join(after_name)}\n")


def test_cpu_when_a_process_has_descendants_then_theirs_and_that_of_ended_ones_count(proc: Path) -> None:
    process(proc, 10, 1, ticks=(100, 50, 0, 0), pages=1)
    process(proc, 11, 10, ticks=(10, 10, 200, 30), pages=1)
    process(proc, 12, 11, ticks=(100, 0, 0, 0), pages=1)
    process(proc, 20, 1, ticks=(7, 0, 0, 0), pages=1)
    assert processes.cpu_seconds({"agent": 10, "planner": 20}) == {"agent": 5.0, "planner": 0.07}


def test_memory_when_a_process_has_descendants_then_theirs_counts(proc: Path) -> None:
    process(proc, 10, 1, ticks=(0, 0, 0, 0), pages=256)
    process(proc, 11, 10, ticks=(0, 0, 0, 0), pages=512)
    assert processes.resident_mebibytes({"agent": 10}) == {"agent": 3.0}


def test_name_when_it_holds_blanks_and_parentheses_then_the_fields_are_found(proc: Path) -> None:
    process(proc, 10, 1, ticks=(100, 0, 0, 0), pages=1, name="tmux: (a) b")
    assert processes.cpu_seconds({"agent": 10}) == {"agent": 1.0}


def test_process_when_it_has_ended_then_it_takes_nothing(proc: Path) -> None:
    (proc / "11").mkdir()  # its stat is gone already
    assert processes.cpu_seconds({"agent": 10}) == {"agent": 0}
