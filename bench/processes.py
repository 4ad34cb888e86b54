"""CPU time and memory of process trees, from /proc."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

PROC = Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")

# Fields of /proc/PID/stat after the command's closing parenthesis; see proc(5).
PARENT, USER, SYSTEM, CHILDREN_USER, CHILDREN_SYSTEM, RESIDENT = 1, 11, 12, 13, 14, 21


def cpu_seconds(processes: Mapping[str, int]) -> dict[str, float]:
    """CPU time used so far by each named process (name to pid) and its descendants, ended ones included."""
    table = _table()
    return {name: sum(_cpu(table[pid]) for pid in _tree(root, table)) for name, root in processes.items()}


def resident_mebibytes(processes: Mapping[str, int]) -> dict[str, float]:
    """Resident memory of each named process and its descendants; pages they share are counted for each."""
    table = _table()
    return {
        name: sum(int(table[pid][RESIDENT]) * PAGE for pid in _tree(root, table)) / 2**20
        for name, root in processes.items()
    }


def _cpu(fields: list[str]) -> float:
    return sum(int(fields[index]) for index in (USER, SYSTEM, CHILDREN_USER, CHILDREN_SYSTEM)) / TICKS


def _table() -> dict[int, list[str]]:
    return dict(_all_processes())


def _all_processes() -> Iterator[tuple[int, list[str]]]:
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended while we looked
            yield int(entry.name), stat.rpartition(")")[2].split()


def _tree(root: int, table: Mapping[int, list[str]]) -> Iterator[int]:
    children = defaultdict(list)
    for pid, fields in table.items():
        children[int(fields[PARENT])].append(pid)
    pending = [root] if root in table else []
    while pending:
        pid = pending.pop()
        yield pid
        pending += children[pid]
