"""A wheel is all that an installation needs: nothing is read from a checkout, and nothing of a developer's is in it."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from devstack.commands import GROUPS as DEVELOPERS_GROUPS
from devstack.harness.hosted import HostedStack
from devstack.paths import ROOT
from services.common.avro import COMPILED_SUBJECTS, SUBJECTS, SchemaRegistry
from tests.component.conftest import Database

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
UV = Path(sys.executable).with_name("uv")

LOG = {"KAFKA_BOOTSTRAP_SERVERS": "kafka:9092", "SCHEMA_REGISTRY_URL": "http://registry"}
SETTINGS = {
    "watcher": LOG | {"SEALING_PUBLIC_KEYS": "/keys.json"},
    "planner": LOG | {"DATABASE_URL": "postgresql://gitops_planner@postgres/gitops"},
    "agent": LOG | {"SEALING_PRIVATE_KEYS": "/keys.json"},
}
"""What each service cannot do without."""


@dataclass(frozen=True)
class Installation:
    """The wheel in an environment of its own, with what it depends on as locked; run outside the checkout."""

    folder: Path

    def run(self, program: str, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment with no other settings."""
        argv = [str(self.folder / "venv" / "bin" / program), *arguments]
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "COLUMNS": "200"} | settings
        return subprocess.run(
            argv, cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=120
        )


def uv(*arguments: str | Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    subprocess.run([UV, "--quiet", "--project", ROOT, *arguments], env=environment, check=True)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    uv("build", "--wheel", "--out-dir", folder, ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installation(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """The wheel, installed."""
    folder = tmp_path_factory.mktemp("installation")
    requirements = folder / "requirements.txt"
    uv("export", "--locked", "--no-default-groups", "--no-emit-project", "--no-hashes", "--output-file", requirements)
    uv("venv", "--python", sys.executable, folder / "venv")
    uv("pip", "install", "--no-deps", "--python", folder / "venv", "--requirements", requirements, wheel)
    return Installation(folder)


def files_below(folder: str, suffix: str) -> set[str]:
    return {str(path.relative_to(ROOT)) for path in (ROOT / folder).glob(f"*{suffix}")}


def test_wheel_when_built_then_it_holds_the_services_and_nothing_of_a_developers(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"services", f"gitops_service-{PROJECT['version']}.dist-info"}
    assert {name.split("/")[1] for name in names if name.startswith("services/")} == {
        *(path.name for path in (ROOT / "services").iterdir() if path.name != "__pycache__"),
        "data",
    }


def test_wheel_when_built_then_it_holds_what_the_services_read(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    shared = {
        *files_below("schemas/avro", ".avsc"),
        *files_below("migrations/versions", ".py"),
        *files_below("k8s/crds", ".yaml"),
        *files_below("k8s/rbac", ".yaml"),
        "migrations/env.py",
    }
    assert {f"services/data/{name}" for name in shared} <= names
    assert {"services/common/kafka/topics.yaml", "services/common/kafka/acls.yaml"} <= names


def test_command_when_asked_for_its_version_then_it_is_the_projects(installation: Installation) -> None:
    assert installation.run("gitopsctl", "--version").stdout == f"gitopsctl {PROJECT['version']}\n"


@pytest.mark.parametrize("group", DEVELOPERS_GROUPS)
def test_command_when_it_is_a_developers_then_an_installation_does_not_know_it(
    installation: Installation, group: str
) -> None:
    outcome = installation.run("gitopsctl", group)
    assert outcome.returncode == 2
    assert f"No such command '{group}'" in outcome.stderr


@pytest.mark.parametrize("service", SETTINGS)
def test_settings_when_right_then_a_service_says_nothing_of_them(installation: Installation, service: str) -> None:
    outcome = installation.run("python", "-m", f"services.{service}", "--check-settings", **SETTINGS[service])
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (0, "", "")


@pytest.mark.parametrize("service", SETTINGS)
def test_settings_when_one_is_wrong_and_others_are_missing_then_the_service_names_each(
    installation: Installation, service: str
) -> None:
    outcome = installation.run("python", "-m", f"services.{service}", "--check-settings", METRICS_PORT="-1")
    told = outcome.stderr.removeprefix(f"{service}: error: invalid settings: ")
    assert outcome.returncode == 2
    assert {each.partition(": ")[0] for each in told.split("; ")} == {*SETTINGS[service], "METRICS_PORT"}


def test_topics_when_compared_from_a_wheel_then_they_are_those_of_the_checkout(
    installation: Installation, stack: HostedStack
) -> None:
    outcome = installation.run("gitopsctl", "topics", "apply", "--dry-run", **operators(stack))
    assert (outcome.returncode, outcome.stdout) == (0, "every topic is as declared\n"), outcome.stderr


def test_schemas_when_registered_from_a_wheel_then_they_are_those_of_the_checkout(
    installation: Installation, stack: HostedStack
) -> None:
    registry = SchemaRegistry(stack.environment["SCHEMA_REGISTRY_URL"])
    outcome = installation.run("gitopsctl", "schemas", "apply", **operators(stack))
    assert outcome.stdout.splitlines() == [
        f"{subject}: schema {registry.id_of(subject)} from {file}"
        for subject, file in (SUBJECTS | COMPILED_SUBJECTS).items()
    ], outcome.stderr


def test_migrations_when_run_from_a_wheel_then_they_make_the_declared_database(
    installation: Installation, database: Database
) -> None:
    outcome = installation.run("gitopsctl", "database", "check", DATABASE_OWNER_URL=database.owner_url)
    assert outcome.stdout.splitlines()[-1:] == ["database: as declared"], outcome.stderr


def operators(stack: HostedStack) -> dict[str, str]:
    """The operator's settings for what runs."""
    return {name: value for name, value in stack.environment.items() if name != "PATH"}
