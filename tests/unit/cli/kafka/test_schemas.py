"""``gitopsctl schemas``: ids that messages name are not given out anew, and a copy is no other file."""

from __future__ import annotations

import io
import json
from pathlib import Path
from zipfile import ZipFile

import pytest
from typer.testing import CliRunner, Result

from services.cli.kafka import schemas
from services.common.avro import COMPILED_SUBJECTS, SUBJECTS
from services.common.errors import InvalidConfiguration
from services.common.kafka import COMMANDS, LogExtent, TopicPartition

ENVIRONMENT = {"KAFKA_BOOTSTRAP_SERVERS": "localhost:1", "SCHEMA_REGISTRY_URL": "http://localhost:1"}
READ = {TopicPartition(COMMANDS, 0): LogExtent("topic", 7, 7)}
"""Messages that there were, and are no more."""


def copy_of(*subjects: str) -> bytes:
    buffer = io.BytesIO()
    with ZipFile(buffer, "w") as archive:
        archive.writestr("manifest-1.Manifest.json", "{}")
        for number, subject in enumerate(subjects):
            archive.writestr(f"{number}.ArtifactVersion.json", json.dumps({"artifactId": subject}))
    return buffer.getvalue()


class Fake:
    """A registry and a log."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.empty, self.extents, self.imported = False, dict(READ), list[bytes]()
        monkeypatch.setattr(schemas.SchemaRegistry, "is_empty", lambda _: self.empty)
        monkeypatch.setattr(schemas.SchemaRegistry, "register_schema", lambda *_: 1)
        monkeypatch.setattr(schemas, "count_partitions", lambda _, topics: dict.fromkeys(topics, 1))
        monkeypatch.setattr(schemas, "read_extents", lambda *_: self.extents)
        monkeypatch.setattr(schemas, "import_registry", lambda _, copy: self.imported.append(copy))
        monkeypatch.setattr(schemas, "export_registry", lambda _: copy_of("a", "a", "b"))


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    return Fake(monkeypatch)


def call(*arguments: str) -> Result:
    return CliRunner().invoke(schemas.app, arguments, env=ENVIRONMENT)


def test_apply_when_the_registry_is_empty_and_the_log_is_not_then_it_refuses(fake: Fake) -> None:
    fake.empty, fake.extents = True, {**READ, TopicPartition(COMMANDS, 1): LogExtent("topic", 0, 1)}
    result = call("apply")
    assert isinstance(result.exception, InvalidConfiguration)
    assert "schemas import" in str(result.exception)
    assert result.stdout == ""


@pytest.mark.parametrize("empty", [True, False], ids=["no message on the log", "schemas in the registry"])
def test_apply_when_no_id_can_change_its_meaning_then_all_schemas_are_registered(fake: Fake, empty: bool) -> None:
    fake.empty = empty
    if not empty:
        fake.extents = {TopicPartition(COMMANDS, 1): LogExtent("topic", 0, 1)}
    result = call("apply")
    assert len(result.stdout.splitlines()) == len(SUBJECTS | COMPILED_SUBJECTS)


def test_copy_when_exported_then_it_says_what_it_has_and_can_be_imported(fake: Fake, tmp_path: Path) -> None:
    file, fake.empty = tmp_path / "copy.zip", True
    assert "3 schemas of 2 subjects" in call("export", str(file)).stdout
    assert "3 schemas of 2 subjects, imported" in call("import", str(file)).stdout
    assert fake.imported == [file.read_bytes()]


def test_import_when_the_registry_has_schemas_then_it_refuses(fake: Fake, tmp_path: Path) -> None:
    file = tmp_path / "copy.zip"
    file.write_bytes(copy_of("a"))
    assert "an empty one is needed" in str(call("import", str(file)).exception)
    assert fake.imported == []


@pytest.mark.parametrize("content", [b"", b"hello", copy_of()], ids=["no file", "no ZIP file", "no schemas"])
def test_import_when_it_is_no_copy_then_nothing_is_asked_of_the_registry(
    fake: Fake, tmp_path: Path, content: bytes
) -> None:
    file, fake.empty = tmp_path / "copy.zip", True
    if content:
        file.write_bytes(content)
    assert "not a copy of a registry" in str(call("import", str(file)).exception)
    assert fake.imported == []
