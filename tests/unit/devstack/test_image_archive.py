"""The digest of an image tells what is in it, and nothing of the build."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

from devstack.containers.archive import write_archive

EPOCH = 1_700_000_000
NAME = "gitops-service:dev"


def add(archive: tarfile.TarFile, name: str, content: bytes, mtime: float = 0, **fields: Any) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mtime = len(content), mtime
    for field, value in fields.items():
        setattr(member, field, value)
    archive.addfile(member, io.BytesIO(content))


def saved(path: Path, *, built_at: int, content: str = "hello", **config: Any) -> Path:
    """What ``docker save`` writes of an image that was built at that time."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w", format=tarfile.PAX_FORMAT) as files:
        add(files, "bin/hello", content.encode(), built_at + 0.25, mode=0o755, uname=f"builder-{built_at}")
    labels = {"title": "x", "com.docker.compose.version": str(built_at)}
    image = {
        "created": str(built_at),
        "config": {"User": "10001", "Labels": labels},
        "history": [{"created": built_at}],
    }
    with tarfile.open(path, "w") as archive:
        add(archive, "layer.tar", layer.getvalue())
        add(archive, "config.json", json.dumps(image | config).encode())
        add(archive, "manifest.json", json.dumps([{"Config": "config.json", "Layers": ["layer.tar"]}]).encode())
    return path


def test_digest_when_an_image_is_built_later_then_it_is_the_same(tmp_path: Path) -> None:
    # The first from what an engine has kept since before the commit.
    first = write_archive(saved(tmp_path / "a", built_at=EPOCH - 99), tmp_path / "a.tar", NAME, EPOCH)
    second = write_archive(
        saved(tmp_path / "b", built_at=EPOCH + 99, docker_version="28"), tmp_path / "b.tar", NAME, EPOCH
    )
    assert first == second
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()


def test_digest_when_a_file_differs_then_it_is_another(tmp_path: Path) -> None:
    first = write_archive(saved(tmp_path / "a", built_at=EPOCH), tmp_path / "a.tar", NAME, EPOCH)
    assert write_archive(saved(tmp_path / "b", built_at=EPOCH, content="bye"), tmp_path / "b.tar", NAME, EPOCH) != first


def test_archive_when_written_then_every_blob_is_what_its_name_says_and_the_digest_is_the_manifests(
    tmp_path: Path,
) -> None:
    digest = write_archive(saved(tmp_path / "a", built_at=EPOCH), tmp_path / "a.tar", NAME, EPOCH)
    with tarfile.open(tmp_path / "a.tar") as archive:
        contents = {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]
    blobs = {name: content for name, content in contents.items() if name.startswith("blobs/")}
    assert len(blobs) == 3
    assert all(name == f"blobs/sha256/{hashlib.sha256(content).hexdigest()}" for name, content in blobs.items())
    (named,) = json.loads(contents["index.json"])["manifests"]
    assert named["digest"] == digest
    (for_docker,) = json.loads(contents["manifest.json"])
    assert {for_docker["Config"], *for_docker["Layers"]} < blobs.keys()
    assert for_docker["RepoTags"] == [NAME]


def test_configuration_when_written_then_what_the_image_says_of_itself_stays(tmp_path: Path) -> None:
    write_archive(saved(tmp_path / "a", built_at=EPOCH + 1), tmp_path / "a.tar", NAME, EPOCH)
    with tarfile.open(tmp_path / "a.tar") as archive:
        path = json.loads(archive.extractfile("manifest.json").read())[0]["Config"]  # type: ignore[union-attr]
        config = json.loads(archive.extractfile(path).read())  # type: ignore[union-attr]
    assert config["config"] == {"User": "10001", "Labels": {"title": "x"}}
    assert config["created"] == "2023-11-14T22:13:20Z"
