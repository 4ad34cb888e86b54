"""A disk of a few megabytes under a process's data, which can be truly full: every byte more is refused with ENOSPC.

It is a tmpfs mounted over the folder, so only root can make one. The process must not run while its data are moved.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from services.common.errors import NoPermission, Unavailable

SPARE = 64 * 1024 * 1024
"""Bytes that are free at first: to start, databases write a segment of their log or two."""
BALLAST = "ballast"
PIECES = (1024 * 1024, 4096)
"""Bytes written at a time until nothing more fits; the last are pages, of which a file system consists."""


class SmallDisk:
    """Mounted over ``folder``, which has what it had."""

    def __init__(self, folder: Path) -> None:
        self._ballast = folder / BALLAST

    def fill(self) -> None:
        """Leave no byte free."""
        with self._ballast.open("ab", buffering=0) as ballast:
            for size in PIECES:
                _write_until_full(ballast.fileno(), bytes(size))

    def make_room(self) -> None:
        """Free what :meth:`fill` took."""
        self._ballast.unlink(missing_ok=True)


@contextmanager
def small_disk(folder: Path, spare: int = SPARE) -> Iterator[SmallDisk]:
    """Have ``folder`` on a disk of its own, with ``spare`` bytes free, until the block ends; its content moves along.

    Raises NoPermission for anybody but root, Unavailable if this machine mounts nothing.
    """
    if os.geteuid() != 0:
        raise NoPermission("a full disk is a file system of its own, which root alone can mount: run this as root")
    outside = folder.with_name(f"{folder.name}.outside")
    folder.rename(outside)
    folder.mkdir()
    try:
        _run("mount", "-t", "tmpfs", "-o", f"size={_size_of(outside) + spare}", "tmpfs", str(folder))
        try:
            _move(outside, folder)
            disk = SmallDisk(folder)
            yield disk
            disk.make_room()
            _move(folder, outside)
        finally:
            _run("umount", "--lazy", str(folder))
    finally:
        folder.rmdir()
        outside.rename(folder)


def _move(source: Path, target: Path) -> None:
    """All that is in a folder; holes in files stay holes, or Kafka's indexes would not fit."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(exist_ok=True)
    _run("cp", "--archive", "--sparse=always", f"{source}/.", str(target))


def _size_of(folder: Path) -> int:
    return sum(path.lstat().st_blocks for path in folder.rglob("*")) * 512


def _write_until_full(file: int, piece: bytes) -> None:
    try:
        while True:
            os.write(file, piece)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise


def _run(*command: str) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise Unavailable(f"{' '.join(command[:1])}: {ended.stderr.strip()}")
