"""Releases: the image of one for a node that has another already, and the sources of earlier ones."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from dataclasses import dataclass, replace
from pathlib import Path

from devstack.node.commands import run
from devstack.paths import ROOT
from devstack.toolchain import image_archive
from devstack.toolchain.service_image import CONTAINERFILE, describe

REVISION = "org.opencontainers.image.revision"
REPOSITORY = "docker.io/library/gitops-service"
GIT = ("git", "-C", str(ROOT))
PROVIDE = """
from rich.console import Console
from devstack.toolchain.progress_bar import reporter
from devstack.toolchain.service_image import provide_archive
with reporter(Console(stderr=True)) as report:
    print(provide_archive(report))
"""


@dataclass(frozen=True)
class Release:
    """Sources, and the tag of the image that is made of them."""

    sources: Path
    tag: str

    @property
    def image(self) -> str:
        """Its name."""
        return f"{REPOSITORY}:{self.tag}"


NEXT = Release(ROOT, "next")
"""These sources."""


def import_release(release: Release, folder: Path, containerd: Path) -> None:
    """Have its image on the node, with an id of its own even if one of the same files is there."""
    image = describe(CONTAINERFILE.read_text())
    labels = {**image.labels, REVISION: release.tag}
    layer, target = folder / "layer.tar", folder / "release.tar"
    image_archive.extract_layer(_archive_of(release), layer)
    image_archive.write(replace(image, name=release.image, labels=labels), layer, target)
    run("ctr", "--address", str(containerd), "--namespace", "k8s.io", "images", "import", str(target))
    layer.unlink()
    target.unlink()


def _archive_of(release: Release) -> Path:
    """As its own sources make it."""
    command = [sys.executable, "-c", PROVIDE]
    outcome = subprocess.run(command, cwd=release.sources, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
    return Path(outcome.stdout.strip())


def newest_revision(commit: str = "HEAD") -> str:
    """The commit that brought its newest revision of the database, which need not be the last that brought one."""
    newest = max(run(*GIT, "ls-tree", "--name-only", commit, "migrations/versions/").split())
    return run(*GIT, "log", "-1", "--diff-filter=A", "--format=%H", commit, "--", newest).strip()


def last_of_same_revision() -> str:
    """The newest commit before this one from which an upgrade can be undone; this one if it is the first of those."""
    revision = newest_revision()
    return run(*GIT, "rev-list", "--max-count=1", "--skip=1", "HEAD", "--not", f"{revision}^@").strip() or revision


def extract(commit: str, folder: Path) -> Path:
    """Its sources, as Git has them, in a folder of its own in ``folder``."""
    sources = folder / f"release-{run(*GIT, 'rev-parse', commit).strip()}"
    archive = sources.with_suffix(".tar")
    run(*GIT, "archive", f"--output={archive}", commit)
    with tarfile.open(archive) as tar:
        tar.extractall(sources, filter="data")
    archive.unlink()
    return sources
