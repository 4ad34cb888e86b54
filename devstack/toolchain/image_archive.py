"""Container images without an engine: an archive in the OCI layout, with one layer, for containerd to import."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import shutil
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from services.common.errors import InvalidConfiguration

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
NAME = "io.containerd.image.name"


@dataclass(frozen=True)
class Image:
    """What an image says of itself."""

    name: str
    """With a registry, which is never asked, and a tag, e.g. ``localhost/pause:1``."""
    entrypoint: Sequence[str]
    user: str = "65534"
    environment: Sequence[str] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    folder: str = "/"
    """In which its program starts."""


def write(image: Image, layer: Path, archive: Path) -> None:
    """Write ``archive``; ``layer`` is a tar file of the image's root."""
    content = _described(layer)
    config = _json(_config(image, content["digest"]))
    described = {"mediaType": CONFIG, "digest": _digest(config), "size": len(config)}
    manifest = _json({"schemaVersion": 2, "mediaType": MANIFEST, "config": described, "layers": [content]})
    named = {
        "mediaType": MANIFEST,
        "digest": _digest(manifest),
        "size": len(manifest),
        "annotations": {NAME: image.name},
    }
    with tarfile.open(archive, "w") as tar:
        _add(tar, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(tar, "index.json", _json({"schemaVersion": 2, "manifests": [named]}))
        for blob in (config, manifest):
            _add(tar, _place(_digest(blob)), blob)
        tar.add(layer, _place(content["digest"]))


def extract_layer(archive: Path, target: Path) -> None:
    """Write the one layer of an archive of ours to ``target``."""
    with tarfile.open(archive) as tar:
        (manifest,) = _read(tar, "index.json")["manifests"]
        (layer,) = _read(tar, _place(manifest["digest"]))["layers"]
        with target.open("wb") as file:
            shutil.copyfileobj(_opened(tar, _place(layer["digest"])), file)


def write_programs(image: Image, programs: Mapping[str, Path], archive: Path) -> None:
    """The same of an image that has nothing but these programs, by their place in it."""
    layer = archive.with_suffix(".layer")
    with tarfile.open(layer, "w") as tar:
        add_programs(tar, programs)
    write(image, layer, archive)
    layer.unlink()


def add_programs(layer: tarfile.TarFile, programs: Mapping[str, Path]) -> None:
    """Into a layer, by their place in it."""
    for place, program in programs.items():
        _add(layer, place, program.read_bytes(), mode=0o755)


def _described(layer: Path) -> dict[str, Any]:
    with layer.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"mediaType": LAYER, "digest": f"sha256:{digest}", "size": layer.stat().st_size}


def _config(image: Image, layer: str) -> Mapping[str, Any]:
    told = {
        "Entrypoint": list(image.entrypoint),
        "User": image.user,
        "Env": list(image.environment),
        "Labels": dict(image.labels),
        "WorkingDir": image.folder,
    }
    return {
        "architecture": ARCHITECTURES[platform.machine()],
        "os": "linux",
        "config": told,
        "rootfs": {"type": "layers", "diff_ids": [layer]},
    }


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))


def _place(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _json(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content).encode()


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _read(tar: tarfile.TarFile, name: str) -> Any:
    return json.load(_opened(tar, name))


def _opened(tar: tarfile.TarFile, name: str) -> IO[bytes]:
    file = tar.extractfile(name)
    if file is None:
        raise InvalidConfiguration(f"the archive has no file {name}")
    return file
