"""What arrives from Maven Central is what the lock says, or it is named."""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
from pathlib import Path

import pytest

from devstack.toolchain import maven
from devstack.toolchain.install import MAVEN_LOCK, write_service_manifest
from devstack.toolchain.maven import Artifact, fetch_all, key_of, parse_line, read_lock
from services.common.errors import Unavailable

GOOD = b"contents of the jar"


def artifact(content: bytes = GOOD, name: str = "thing", packaging: str = "jar") -> Artifact:
    return Artifact(
        "kafka", "org.example", name, "1.0", packaging, "", len(content), hashlib.sha256(content).hexdigest()
    )


@pytest.fixture
def central(monkeypatch: pytest.MonkeyPatch) -> list[bytes | Exception]:
    """What the server answers, one item a request, the last one for ever."""
    answers: list[bytes | Exception] = []

    def download(artifact: Artifact, scratch: Path) -> Path:
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        scratch.mkdir(parents=True)
        file = scratch / f"{artifact.name}-{artifact.version}.{artifact.packaging}"
        file.write_bytes(answer)
        return file

    monkeypatch.setattr(maven, "download", download)
    return answers


def test_lock_when_read_then_every_line_survives_being_written_again() -> None:
    lines = [line for line in MAVEN_LOCK.read_text().splitlines() if not line.startswith("#")]
    assert [parse_line(line).line() for line in lines] == lines


def test_lock_when_read_then_it_has_the_components_of_the_stack_with_whole_checksums() -> None:
    components = read_lock(MAVEN_LOCK)
    assert components.keys() == {*("kafka", "debezium", "converter", "registry", "postgres-x86_64", "postgres-aarch64")}
    assert all(re.fullmatch(r"[0-9a-f]{64}", item.sha256) for items in components.values() for item in items)


def test_lock_when_read_then_no_component_has_two_versions_of_a_library() -> None:
    for items in read_lock(MAVEN_LOCK).values():
        names = [(item.group, item.name, item.classifier) for item in items]
        assert len(names) == len(set(names))


def test_key_when_a_checksum_changes_then_it_changes() -> None:
    assert key_of([artifact(b"1")]) != key_of([artifact(b"2")])


def test_key_when_only_the_order_changes_then_it_stays() -> None:
    one, two = artifact(name="a"), artifact(name="b")
    assert key_of([one, two]) == key_of([two, one])


def test_file_when_it_arrives_whole_then_it_is_kept_and_counted(
    central: list[bytes | Exception], tmp_path: Path
) -> None:
    central.append(GOOD)
    sizes: list[int] = []
    fetch_all([artifact()], tmp_path, sizes.append)
    assert [path.name for path in tmp_path.iterdir()] == ["thing-1.0.jar"]
    assert sizes == [len(GOOD)]


@pytest.mark.parametrize(
    "first", [GOOD[:-1], b"", b"something else", RuntimeError("not found"), OSError("connection reset")]
)
def test_file_when_it_arrives_damaged_then_it_is_fetched_again(
    central: list[bytes | Exception], tmp_path: Path, first: bytes | Exception
) -> None:
    central.extend([first, GOOD])
    fetch_all([artifact()], tmp_path, lambda size: None)
    assert (tmp_path / "thing-1.0.jar").read_bytes() == GOOD


def test_file_when_it_is_always_another_then_it_is_named(central: list[bytes | Exception], tmp_path: Path) -> None:
    central.append(b"tampered with")
    with pytest.raises(Unavailable, match=r"org\.example:thing:1\.0:jar.*13 bytes.*SHA-256.*maven\.lock"):
        fetch_all([artifact()], tmp_path, lambda size: None)
    assert list(tmp_path.iterdir()) == []


def test_archive_when_fetched_then_it_is_unpacked(central: list[bytes | Exception], tmp_path: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo("lib/inner.jar")
        member.size = 3
        archive.addfile(member, io.BytesIO(b"jar"))
    central.append(packed.getvalue())
    fetch_all([artifact(packed.getvalue(), packaging="tar.gz")], tmp_path, lambda size: None)
    assert (tmp_path / "lib" / "inner.jar").read_bytes() == b"jar"


def test_service_manifest_when_written_then_java_finds_the_converter(tmp_path: Path) -> None:
    import zipfile  # noqa: PLC0415

    write_service_manifest(tmp_path / "m.jar")
    with zipfile.ZipFile(tmp_path / "m.jar") as jar:
        (name,) = jar.namelist()
        assert name == "META-INF/services/org.apache.kafka.connect.storage.Converter"
        assert jar.read(name) == b"io.apicurio.registry.utils.converter.AvroConverter\n"
