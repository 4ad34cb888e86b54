"""Collects the root file system of the production image: what our services need to run, and nothing else.

Run while the image is built, by the interpreter of its virtual environment: ``collect_root.py ENVIRONMENT TARGET``.
In it are the environment, the interpreter with its standard library, the shared libraries that these are linked to,
and the certificates of the public authorities. There is no shell, no package manager and no compiler, so nothing can
be installed or fetched by whoever gets in. What it writes depends on nothing but what it reads.
"""

from __future__ import annotations

import compileall
import os
import py_compile
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

USER = 10001
ACCOUNTS = {
    "etc/passwd": f"root:x:0:0:root:/:/nologin\ngitops:x:{USER}:{USER}:gitops:/tmp:/nologin\n",
    "etc/group": f"root:x:0:\ngitops:x:{USER}:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
SYSTEM_FILES = (
    "/etc/ld.so.cache",
    "/etc/os-release",  # scanners know by it whose advisories count
    "/etc/ssl/certs/ca-certificates.crt",
)
LEFT_OUT = (
    "__pycache__", "config-*", "dist-packages", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "site-packages",
    "test", "tkinter", "turtledemo", "venv", "_ctypes_test*.so", "_curses*.so", "_dbm*.so", "_gdbm*.so", "_sqlite3*.so",
    "_test*.so", "_tkinter*.so", "nis*.so", "readline*.so", "xxlimited*.so",
)  # fmt: skip
"""Of the standard library: what installs, tests, or needs a terminal or a library that nothing else does."""
INSTALLED_WHEN = "uv_cache.json"
"""The installer's note, with the time, of what was installed from a folder."""
NOT_IMPORTED = re.compile(r"kubernetes/(aio/)?client/(api|models)/(?!__init__)")
"""A quarter of all that is installed: a class for each kind and call of Kubernetes, which is imported when it is named.
Our client speaks to the API server without them."""
ELF = b"\x7fELF"
LIBRARY = re.compile(r"(/\S+) \(0x")


def main() -> None:
    """Fill the target."""
    environment, target = (Path(argument) for argument in sys.argv[1:])
    library = Path(sysconfig.get_path("stdlib"))
    copy_tree(environment, target, ("__pycache__", ".*", "activate*", INSTALLED_WHEN))
    for path in (path for path in target.rglob("*.py") if NOT_IMPORTED.search(str(path))):
        path.unlink()
    copy_tree(library, target, LEFT_OUT)
    copy_file(Path(sys.executable), target)
    of_system = (path for path in libraries(programs(target)) if not path.is_relative_to(target))
    for path in (*of_system, *map(Path, SYSTEM_FILES)):
        copy_file(path, target)
    for name, content in ACCOUNTS.items():
        (target / name).write_text(content)
    (target / "tmp").mkdir(mode=0o1777)
    (target / "tmp").chmod(0o1777)
    for record in target.glob(f"{str(environment)[1:]}/lib/python3*/site-packages/*.dist-info/RECORD"):
        forget(record, re.compile(f"/{INSTALLED_WHEN},"))
        forget(record, NOT_IMPORTED)
    compile_modules(target, (environment, library))


def forget(record: Path, left_out: re.Pattern[str]) -> None:
    """Take files from the list of what was installed."""
    lines = record.read_text().splitlines(keepends=True)
    record.write_text("".join(line for line in lines if not left_out.search(line)))


def copy_tree(folder: Path, target: Path, left_out: Iterable[str]) -> None:
    """Copy ``folder`` to its own place below ``target``."""
    place = place_of(folder, target)
    shutil.copytree(folder, place, symlinks=True, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*left_out))


def copy_file(path: Path, target: Path) -> None:
    """Copy a file to its own place below ``target``, with every link that leads to it."""
    place = place_of(path, target)
    if path.is_symlink():
        if not place.is_symlink():
            place.symlink_to(path.readlink())
        copy_file(path.parent / path.readlink(), target)
    elif not place.exists():
        shutil.copy2(path, place)


def place_of(path: Path, target: Path) -> Path:
    """Where ``path`` belongs below ``target``. Its folder is made, and where that is a link, the link."""
    folder = Path("/")
    for name in Path(os.path.normpath(path)).parent.parts[1:]:
        folder /= name
        if folder.is_symlink():
            link = target / folder.relative_to("/")
            if not link.is_symlink():
                link.symlink_to(folder.readlink())
            folder = folder.resolve()
        (target / folder.relative_to("/")).mkdir(parents=True, exist_ok=True)
    return target / folder.relative_to("/") / path.name


def programs(target: Path) -> Iterator[Path]:
    """Every program and shared library below ``target``."""
    for path in sorted(target.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if file.read(len(ELF)) == ELF:
                    yield path


def libraries(found: Iterable[Path]) -> list[Path]:
    """The shared libraries that they are linked to, the dynamic linker included."""
    needed: set[str] = set()
    for path in found:
        listed = subprocess.run(["/usr/bin/ldd", str(path)], capture_output=True, text=True, check=False).stdout
        needed |= set(LIBRARY.findall(listed))
    return [Path(os.path.normpath(path)) for path in sorted(needed)]


def compile_modules(target: Path, folders: Iterable[Path]) -> None:
    """Compile what is imported, so that nothing is compiled at each start; what is written depends on no time."""
    for folder in folders:
        compileall.compile_dir(
            target / folder.relative_to("/"),
            stripdir=str(target),
            prependdir="/",
            maxlevels=20,
            quiet=2,
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )


if __name__ == "__main__":
    main()
