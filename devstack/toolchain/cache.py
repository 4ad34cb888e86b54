"""Folders that are expensive to make, made once per machine and shared by every clone.

A folder is built beside its final place and renamed, so it is complete or absent. Two processes that want the same
folder build it once: the second waits for the first. A manifest of sizes and times tells a folder that was
damaged afterwards, and it is built anew.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

MANIFEST = ".manifest.json"
NANOSECONDS = 1_000_000_000
IN_USE_SECONDS = 3600


def cache_root() -> Path:
    """Our folder below the user's cache folder (``XDG_CACHE_HOME``, else ``~/.cache``)."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The base-directory specification tells programs to ignore a relative path.
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "gitops-service"


def provide(folder: Path, build: Callable[[Path], None]) -> Path:
    """Return ``folder``, made by ``build(empty folder)`` if it is absent or was damaged."""
    if intact(folder):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.parent / f".{folder.name}.lock"):
        if not intact(folder):
            _build(folder, build)
    return folder


def forget_older(folder: Path, kept: int) -> None:
    """Say that ``folder`` is in use, and remove of those beside it all but the ``kept`` that were in use last.

    One that was within an hour stays: another checkout on this machine may be reading it.
    """
    os.utime(folder)
    beside = [path for path in folder.parent.iterdir() if path.is_dir() and not path.name.startswith(".")]
    for path in sorted(beside, key=_changed, reverse=True)[kept:]:
        if _changed(path) < time.time() - IN_USE_SECONDS:
            shutil.rmtree(path, ignore_errors=True)


def _changed(path: Path) -> float:
    return path.stat().st_mtime


def intact(folder: Path) -> bool:
    """Whether every file of ``folder`` is as its manifest says."""
    try:
        recorded = json.loads((folder / MANIFEST).read_text())
        return _fingerprint(folder) in (recorded, _in_whole_seconds(recorded))
    except (OSError, ValueError):
        return False


def _in_whole_seconds(recorded: dict[str, list[int]]) -> dict[str, list[int]]:
    """What becomes of times when the folder is copied while an image is built."""
    return {name: [size, changed - changed % NANOSECONDS] for name, (size, changed) in recorded.items()}


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on ``path``; the kernel lets go of it however this process ends."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(folder: Path, build: Callable[[Path], None]) -> None:
    for left_over in folder.parent.glob(f".{folder.name}.*/"):
        shutil.rmtree(left_over, ignore_errors=True)  # of a build that was killed: while we hold the lock none runs
    fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        build(fresh)
        (fresh / MANIFEST).write_text(json.dumps(_fingerprint(fresh)))
        fresh.chmod(0o755)
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _fingerprint(folder: Path) -> dict[str, list[int]]:
    """Size and time of change of every file by its relative path."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != MANIFEST)
    return {str(path.relative_to(folder)): _stamp(path) for path in files}


def _stamp(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]
