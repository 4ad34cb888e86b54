"""A service that cannot start says why in one line, with the exit code that tells the reason apart."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import psycopg
import pytest
import yaml
from psycopg import sql

from devstack.harness.hosted import HostedStack
from tests.component.agent.fleet_log import FleetLog
from tests.component.conftest import Database, Servers
from tests.unit.agent.instances_of_fleet import instance_row

NOBODY_LISTENS = "127.0.0.1:9"  # the discard port
ENDS_WITHIN_SECONDS = 120
PATIENT = {"START_TIMEOUT_SECONDS": "20"}
"""What is there may take long to answer on a busy machine; it would count as away by then."""
AT_ONCE, SOON = {"START_TIMEOUT_SECONDS": "2"}, {"START_TIMEOUT_SECONDS": "6"}
"""Where something is away or refuses for so long: what is asked first, or what is asked once others have answered."""


def start(service: str, environment: Mapping[str, str]) -> tuple[int, list[str]]:
    """Run a service to its end; returns exit code and the lines of stderr that are not log lines."""
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    ended = subprocess.run(
        [sys.executable, "-m", f"services.{service}"],
        env=inherited | PATIENT | {"LOG_LEVEL": "ERROR"} | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=ENDS_WITHIN_SECONDS,
    )
    return ended.returncode, [line for line in ended.stderr.splitlines() if not line.startswith("{")]


def refusal(service: str, environment: Mapping[str, str], code: int) -> str:
    """The one line with which the service must refuse to start."""
    exit_code, lines = start(service, environment)
    assert len(lines) == 1, lines
    assert lines[0].startswith(f"{service}: error: ")
    assert exit_code == code, lines
    return lines[0]


@pytest.fixture
def without_permission(kubeconfig: Path, tmp_path: Path) -> Path:
    """A kubeconfig whose user is known to nobody."""
    config = yaml.safe_load(kubeconfig.read_text())
    for user in config["users"]:
        user["user"] = {}
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.mark.parametrize("service", ["watcher", "planner", "agent"])
def test_service_when_nothing_is_set_then_every_missing_setting_is_named(service: str) -> None:
    line = refusal(service, {}, code=2)
    assert "KAFKA_BOOTSTRAP_SERVERS" in line
    assert "SCHEMA_REGISTRY_URL" in line


@pytest.mark.parametrize("service", ["watcher", "planner", "agent"])
def test_service_when_kafka_is_away_then_it_names_the_address(stack: HostedStack, service: str) -> None:
    line = refusal(service, stack.environment | AT_ONCE | {"KAFKA_BOOTSTRAP_SERVERS": NOBODY_LISTENS}, code=69)
    assert NOBODY_LISTENS in line


@pytest.mark.parametrize("service", ["watcher", "planner", "agent"])
def test_service_when_the_brokers_refuse_its_password_then_it_says_so_without_it(
    stack: HostedStack, service: str
) -> None:
    line = refusal(service, stack.environment_of(service) | {"KAFKA_PASSWORD": "hunter2"}, code=77)
    assert "KAFKA_PASSWORD" in line
    assert "hunter2" not in line


@pytest.mark.parametrize("service", ["watcher", "planner", "agent"])
def test_service_when_the_registry_is_away_then_it_says_so(stack: HostedStack, service: str) -> None:
    line = refusal(service, stack.environment | SOON | {"SCHEMA_REGISTRY_URL": f"http://{NOBODY_LISTENS}"}, code=69)
    assert "registry" in line


def test_planner_when_postgresql_is_away_then_it_says_so_without_the_password(stack: HostedStack) -> None:
    url = f"postgresql://gitops_planner:hunter2@{NOBODY_LISTENS}/gitops"
    line = refusal("planner", stack.environment | SOON | {"DATABASE_URL": url}, code=69)
    assert "PostgreSQL" in line
    assert "hunter2" not in line


def test_planner_when_the_database_has_another_revision_then_it_names_both_and_the_remedy(
    stack: HostedStack, database: Database
) -> None:
    with psycopg.connect(database.owner_url, autocommit=True) as owner:
        owner.execute("UPDATE alembic_version SET version_num = 'of_the_future'")
    line = refusal("planner", stack.environment | {"DATABASE_URL": database.planner_url}, code=2)
    assert "of_the_future" in line
    assert "gitopsctl database upgrade" in line


def test_planner_when_the_database_is_empty_then_it_names_the_remedy(stack: HostedStack, database: Database) -> None:
    with psycopg.connect(database.owner_url, autocommit=True) as owner:
        owner.execute("DROP TABLE alembic_version")
    line = refusal("planner", stack.environment | {"DATABASE_URL": database.planner_url}, code=2)
    assert "gitopsctl database upgrade" in line


def test_planner_when_the_database_s_log_would_repeat_its_statements_then_it_names_the_remedy(
    stack: HostedStack, servers: Servers, database: Database
) -> None:
    name = sql.Identifier(database.owner_url.rpartition("/")[2])
    with psycopg.connect(servers.postgres_admin_url, autocommit=True) as admin:
        admin.execute(
            sql.SQL("ALTER ROLE gitops_planner IN DATABASE {} SET log_min_error_statement = 'error'").format(name)
        )
    line = refusal("planner", stack.environment | {"DATABASE_URL": database.planner_url}, code=2)
    assert "ALTER ROLE gitops_planner SET log_min_error_statement = 'panic'" in line


@pytest.fixture
def fleet_topic(kafka_bootstrap: str, registry_url: str, topic_factory: Callable[[str, int], str]) -> str:
    """Agents without an instance need no rights."""
    log = FleetLog(kafka_bootstrap, registry_url, topic_factory("fleet", 1))
    log.write(instance_row("argocd"))
    return log.topic


@pytest.mark.parametrize(("service", "resource"), [("watcher", "gitopsdeployments"), ("agent", "app")])
def test_edge_when_its_kubeconfig_lacks_permission_then_it_names_the_resource(
    stack: HostedStack, servers: Servers, fleet_topic: str, without_permission: Path, service: str, resource: str
) -> None:
    kafka = {"KAFKA_BOOTSTRAP_SERVERS": servers.kafka, "FLEET_TOPIC": fleet_topic}
    line = refusal(service, stack.environment | SOON | kafka | {"KUBECONFIG": str(without_permission)}, code=77)
    assert resource in line


@pytest.mark.parametrize("service", ["watcher", "agent"])
def test_edge_when_its_kubeconfig_does_not_exist_then_the_file_is_named(
    stack: HostedStack, tmp_path: Path, service: str
) -> None:
    missing = tmp_path / "nowhere"
    line = refusal(service, stack.environment | {"KUBECONFIG": str(missing)}, code=2)
    assert str(missing) in line
