"""Releases: another image for the node that has one already, and the sources of one from before."""

from __future__ import annotations

import json
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path

from devstack.node.commands import run
from devstack.paths import ROOT
from devstack.toolchain import image_archive
from devstack.toolchain.service_image import CONTAINERFILE, describe

REVISION = "org.opencontainers.image.revision"
REPOSITORY, TAG = "docker.io/library/gitops-service", "next"


def import_next_release(archive: Path, folder: Path, containerd: Path) -> None:
    """Have an image of the same files with another id, as every build of another commit has.

    What is tried with it is the way from one release to the next, not what differs between their code.
    """
    image = describe(CONTAINERFILE.read_text())
    labels = {**image.labels, REVISION: TAG}
    layer, target = folder / "layer.tar", folder / "next.tar"
    _extract_layer(archive, layer)
    image_archive.write(replace(image, name=f"{REPOSITORY}:{TAG}", labels=labels), layer, target)
    run("ctr", "--address", str(containerd), "--namespace", "k8s.io", "images", "import", str(target))
    layer.unlink()
    target.unlink()


def _extract_layer(archive: Path, target: Path) -> None:
    """The only one that an image has."""
    with tarfile.open(archive) as tar:

        def read(path: str) -> dict[str, list[dict[str, str]]]:
            file = tar.extractfile(path)
            assert file is not None
            found: dict[str, list[dict[str, str]]] = json.load(file)
            return found

        (manifest,) = read("index.json")["manifests"]
        (layer,) = read(_place(manifest["digest"]))["layers"]
        source = tar.extractfile(_place(layer["digest"]))
        assert source is not None
        with target.open("wb") as file:
            shutil.copyfileobj(source, file)


def _place(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def extract_release_before(folder: Path) -> None:
    """The sources from before the newest revision of the database, as Git has them."""
    git = ("git", "-C", str(ROOT))
    newest = run(*git, "log", "-1", "--format=%H", "--", "migrations/versions").strip()
    archive = folder.with_suffix(".tar")
    run(*git, "archive", f"--output={archive}", f"{newest}~1")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    archive.unlink()
