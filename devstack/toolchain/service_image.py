"""The production image as a node takes it: an archive, made as the Containerfile says, on Debian's packages.

No registry and no engine is needed for it, only root: the stages are carried out one after the other in a folder.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable
from pathlib import Path

from devstack.paths import COMPOSE, ROOT
from devstack.toolchain import image_archive
from devstack.toolchain.cache import cache_root, forget_older, provide
from devstack.toolchain.containerfile import Instruction, Stage, lineage, read_arguments, read_stages
from devstack.toolchain.debian import ARCHIVE, digest_of, pack, provide_python, run
from devstack.toolchain.image_archive import Image
from devstack.toolchain.progress_bar import Reporter
from services.common.errors import InvalidConfiguration

NAME = "docker.io/library/gitops-service:node"
CONTAINERFILE = COMPOSE / "Containerfile"
BUILT, SHIPPED = "root", "service"
"""The stage that fills a folder, and the one that is this folder."""
PATH = "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
KEPT = 4
"""Archives that stay when there are newer ones: upgrades take the one before, and two of earlier revisions."""
NO_FILE = ("USER", "LABEL", "HEALTHCHECK", "ENTRYPOINT", "ARG")
"""Instructions that change nothing in the folder."""


def provide_archive(report: Reporter) -> Path:
    """The archive for these sources, made if it is absent. Raises Unavailable."""
    debian = provide_python(report)
    read = [CONTAINERFILE, *sources(lineage(read_stages(CONTAINERFILE.read_text()), BUILT))]
    key = digest_of(debian.name, *(_digest(file) for path in read for file in _files(path)))
    folder = provide(cache_root() / "service-image" / key, lambda fresh: _build(debian, fresh, report))
    forget_older(folder, KEPT)
    return folder / "image.tar"


def sources(instructions: Iterable[Instruction]) -> list[Path]:
    """What they copy of ours."""
    copied = (item.words() for item in instructions if item.name == "COPY")
    return [ROOT / name for words in copied if not words[0].startswith("--") for name in words[:-1]]


def describe(text: str) -> Image:
    """What the last stage of a Containerfile says of the image."""
    arguments, stage = read_arguments(text), read_stages(text)[SHIPPED]
    labels: dict[str, str] = {}
    environment: dict[str, str] = {}
    user, entrypoint = "", list[str]()
    for item in stage.instructions:
        match item.name:
            case "LABEL":
                labels |= item.pairs(arguments)
            case "ENV":
                environment |= item.pairs({})
            case "USER":
                user = item.arguments
            case "ENTRYPOINT":
                entrypoint = item.listed()
    return Image(NAME, entrypoint, user, [f"{name}={value}" for name, value in environment.items()], labels)


def _build(debian: Path, folder: Path, report: Reporter) -> None:
    task = report.task("building the production image", None)
    text = CONTAINERFILE.read_text()
    root, layer = folder / "root", folder / "layer.tar"
    root.mkdir(mode=0o755)
    run("tar", "--extract", "--directory", str(root), "--file", str(debian / ARCHIVE))
    run("mknod", "--mode=666", str(root / "dev" / "null"), "c", "1", "3")
    for name in ("resolv.conf", "hosts"):
        shutil.copy(Path("/etc") / name, root / "etc" / name)
    stages = read_stages(text)
    _Chroot(root).carry_out(lineage(stages, BUILT))
    pack(root / _shipped_folder(stages[SHIPPED]), layer)
    shutil.rmtree(root)
    image_archive.write(describe(text), layer, folder / "image.tar")
    layer.unlink()
    task.finish()


def _shipped_folder(stage: Stage) -> Path:
    (copied,) = (item.words() for item in stage.instructions if item.name == "COPY")
    if copied[0] != f"--from={BUILT}" or copied[2] != "/":
        raise InvalidConfiguration(f"{CONTAINERFILE}: stage {SHIPPED} is more than a folder of stage {BUILT}")
    return Path(copied[1].lstrip("/"))


class _Chroot:
    """A root file system in which instructions are carried out."""

    def __init__(self, root: Path) -> None:
        self._root, self._environment, self._place = root, {"PATH": PATH}, Path("/")

    def carry_out(self, instructions: Iterable[Instruction]) -> None:
        """One after the other. Raises Unavailable, InvalidConfiguration."""
        for item in instructions:
            match item.name:
                case "ENV":
                    self._environment |= item.pairs(self._environment)
                case "WORKDIR":
                    self._place = self._place / item.arguments
                    self._inside(self._place).mkdir(parents=True, exist_ok=True)
                case "RUN":
                    command = f"cd {self._place} && {item.arguments}"
                    run("chroot", str(self._root), "/bin/sh", "-ec", command, **self._environment)
                case "COPY":
                    *found, target = item.words()
                    self._copy([ROOT / name for name in found], self._place / target)
                case other if other not in NO_FILE:
                    raise InvalidConfiguration(f"{CONTAINERFILE}: {other} is not known here")

    def _copy(self, found: list[Path], target: Path) -> None:
        """A folder's content goes to the target, a file into it, as a Containerfile has it."""
        for path in found:
            if path.is_dir():
                shutil.copytree(path, self._inside(target), dirs_exist_ok=True, ignore=_NOT_OURS)
            else:
                shutil.copy(path, self._inside(target))

    def _inside(self, path: Path) -> Path:
        return self._root / path.relative_to("/")


_NOT_OURS = shutil.ignore_patterns("__pycache__")


def _files(path: Path) -> list[Path]:
    found = sorted(path.rglob("*")) if path.is_dir() else [path]
    return [item for item in found if item.is_file() and "__pycache__" not in item.parts]


def _digest(path: Path) -> str:
    return f"{path.relative_to(ROOT)} {hashlib.sha256(path.read_bytes()).hexdigest()}"
