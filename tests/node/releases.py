"""Another release of our image, for the node that has one already."""

from __future__ import annotations

import json
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path

from devstack.node.commands import run
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
