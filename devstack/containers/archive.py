"""Writes an image as an OCI archive whose digest depends on what is in it alone, not on when or where it was built.

Engines note the time of a build in an image's configuration and in its files; here every time is the one given, such
as that of the commit: files that an engine has kept since an earlier build are older than it, others newer. What is
written is what manifests name by its digest and what ``skopeo copy oci-archive:FILE docker://…`` takes to a registry;
``docker load`` reads it, too.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

COMPRESSION = 4
"""A tenth larger than with the best, in a quarter of the time."""
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
OF_THE_BUILD = ("container", "container_config", "docker_version")
"""Fields of an image's configuration that say who built it."""
OF_COMPOSE = "com.docker.compose."
"""Labels that say the same."""


@dataclass(frozen=True)
class Blob:
    """A file that is named by its digest."""

    content: bytes
    media_type: str

    @property
    def sha256(self) -> str:
        """In hex."""
        return hashlib.sha256(self.content).hexdigest()

    @property
    def path(self) -> str:
        """In an OCI layout."""
        return f"blobs/sha256/{self.sha256}"

    def descriptor(self) -> dict[str, Any]:
        """How others refer to it."""
        return {"mediaType": self.media_type, "digest": f"sha256:{self.sha256}", "size": len(self.content)}


def write_archive(saved: Path, target: Path, name: str, epoch: int) -> str:
    """Write what ``docker save`` put into ``saved`` to ``target``, as image ``name``; returns its digest."""
    with tarfile.open(saved) as archive:
        (image,) = json.loads(_read(archive, "manifest.json"))
        config = json.loads(_read(archive, image["Config"]))
        layers = [_layer(archive, path, epoch) for path in image["Layers"]]
    config_blob = Blob(_json(_config(config, [diff for _, diff in layers], epoch)), CONFIG)
    blobs = [blob for blob, _ in layers]
    manifest = Blob(_json(_manifest(config_blob, blobs)), MANIFEST)
    _write(target, name, manifest, config_blob, blobs)
    return f"sha256:{manifest.sha256}"


def _layer(archive: tarfile.TarFile, path: str, epoch: int) -> tuple[Blob, str]:
    """The layer with the one time, and the digest of what it is unpacked."""
    source = archive.extractfile(path)
    assert source is not None  # noqa: S101 - a saved image's layers are files
    with tempfile.TemporaryFile() as plain:
        _rewrite(source, plain, epoch)
        plain.seek(0)
        diff = f"sha256:{hashlib.file_digest(plain, 'sha256').hexdigest()}"
        plain.seek(0)
        return Blob(gzip.compress(plain.read(), COMPRESSION, mtime=0), LAYER), diff


def _rewrite(source: IO[bytes], target: IO[bytes], epoch: int) -> None:
    with (
        tarfile.open(fileobj=source, mode="r|*") as old,
        tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in old:
            member.mtime = epoch
            member.uname = member.gname = ""
            member.pax_headers = {
                key: value for key, value in member.pax_headers.items() if not key.endswith(("atime", "ctime", "mtime"))
            }
            new.addfile(member, old.extractfile(member) if member.isreg() else None)


def _config(config: dict[str, Any], diffs: list[str], epoch: int) -> dict[str, Any]:
    created = datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    kept = {field: value for field, value in config.items() if field not in OF_THE_BUILD}
    labels = kept["config"].get("Labels") or {}
    kept["config"] |= {"Labels": {name: value for name, value in labels.items() if not name.startswith(OF_COMPOSE)}}
    history = [step | {"created": created} for step in config.get("history", [])]
    return kept | {"created": created, "history": history, "rootfs": {"type": "layers", "diff_ids": diffs}}


def _manifest(config: Blob, layers: list[Blob]) -> dict[str, Any]:
    parts = {"config": config.descriptor(), "layers": [layer.descriptor() for layer in layers]}
    return {"schemaVersion": 2, "mediaType": MANIFEST} | parts


def _write(target: Path, name: str, manifest: Blob, config: Blob, layers: list[Blob]) -> None:
    """An OCI layout, with the file beside it by which ``docker load`` finds its way."""
    named = manifest.descriptor() | {"annotations": {"org.opencontainers.image.ref.name": name.partition(":")[2]}}
    for_docker = [{"Config": config.path, "RepoTags": [name], "Layers": [layer.path for layer in layers]}]
    files = {
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _json({"schemaVersion": 2, "manifests": [named]}),
        "manifest.json": _json(for_docker),
        **{blob.path: blob.content for blob in (manifest, config, *layers)},
    }
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as archive:
        for path, content in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _read(archive: tarfile.TarFile, path: str) -> bytes:
    file = archive.extractfile(path)
    assert file is not None  # noqa: S101 - as docker writes it
    return file.read()
