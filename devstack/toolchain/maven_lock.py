"""Write ``toolchain/maven.lock`` from ``toolchain/maven.toml``: the only place where versions are resolved."""

from __future__ import annotations

import tempfile
import tomllib
from collections.abc import Iterable
from dataclasses import replace
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

from jgo.maven import MavenContext

from devstack.toolchain.maven import CONNECTIONS, Artifact, download, maven_context, sha256_of
from services.common.errors import InvalidConfiguration

HEADER = """\
# Written by `gitopsctl toolchain lock` from maven.toml. Do not edit.
# component  group:artifact:version:packaging[:classifier]  bytes  sha256
"""


def write_lock(wanted: Path, lock: Path) -> int:
    """Resolve ``wanted``, fetch every file once to hash it, write ``lock``; returns the number of files."""
    components = tomllib.loads(wanted.read_text())
    with tempfile.TemporaryDirectory() as scratch:
        context = maven_context(Path(scratch) / "resolver")
        artifacts = [item for name, table in components.items() for item in _resolve(context, name, table)]
        locked = _measure_all(artifacts, Path(scratch))
    lock.write_text(HEADER + "".join(f"{artifact.line()}\n" for artifact in sorted(locked)))
    return len(locked)


def _resolve(context: MavenContext, component: str, table: dict[str, Any]) -> list[Artifact]:
    files = [_parse(component, coordinates) for coordinates in table.get("files", [])]
    resolved = [item for group in table.get("resolve", []) for item in _resolve_group(context, component, group)]
    excluded = set(table.get("exclude", []))
    return _one_version_each([*files, *(item for item in resolved if item.group not in excluded)])


def _resolve_group(context: MavenContext, component: str, coordinates: list[str]) -> list[Artifact]:
    inputs, transitive = context.resolver.resolve([context.create_dependency(text) for text in coordinates])
    return [
        Artifact(component, found.groupId, found.artifactId, found.version, found.type, found.classifier, 0, "")
        for found in (*inputs, *transitive)
        if found.scope != "test"
    ]


def _parse(component: str, coordinates: str) -> Artifact:
    group, name, version, packaging, *classifier = coordinates.split(":")
    return Artifact(component, group, name, version, packaging, "".join(classifier), 0, "")


def _one_version_each(artifacts: Iterable[Artifact]) -> list[Artifact]:
    """Drop repetitions; two versions of one library on a class path are an error of maven.toml."""
    by_name: dict[tuple[str, str, str], Artifact] = {}
    for artifact in artifacts:
        known = by_name.setdefault((artifact.group, artifact.name, artifact.classifier), artifact)
        if known.version != artifact.version:
            raise InvalidConfiguration(
                f"toolchain/maven.toml: {known.coordinates} and {artifact.version} meet in [{artifact.component}]"
            )
    return list(by_name.values())


def _measure_all(artifacts: list[Artifact], scratch: Path) -> list[Artifact]:
    def measure(numbered: tuple[int, Artifact]) -> Artifact:
        number, artifact = numbered
        file = download(artifact, scratch / str(number))
        return replace(artifact, size=file.stat().st_size, sha256=sha256_of(file))

    with ThreadPool(CONNECTIONS) as pool:
        return pool.map(measure, enumerate(artifacts), chunksize=1)
