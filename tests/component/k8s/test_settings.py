"""Each container gets settings that its program knows, with values that it takes, and all that it cannot do without."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic_settings import BaseSettings

from services.agent.settings import AgentSettings
from services.cli.backups import backup
from services.cli.installation import database
from services.cli.installation.connect import ConnectSettings
from services.common.settings import load
from services.planner.settings import PlannerSettings
from services.watcher.settings import WatcherSettings
from tests.component.k8s.manifests import Rendered, containers, environment, workloads

SETTINGS: dict[str, type[BaseSettings]] = {
    "watcher": WatcherSettings,
    "planner": PlannerSettings,
    "agent": AgentSettings,
}
OF_LIBRARIES = {"PGSSLMODE"}
STORE = {"AWS_ENDPOINT_URL", "AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
COMMANDS: dict[str, set[str]] = {
    "connector-keeper": {name.upper() for name in ConnectSettings.model_fields},
    "database-upgrade": {database.URL.envvar} | OF_LIBRARIES,
    "backup": {backup.BACKUP_URL.envvar, backup.PLACE.envvar} | STORE | OF_LIBRARIES,
}
TOKEN = "SCHEMA_REGISTRY_TOKEN"


def paths(settings: type[BaseSettings]) -> set[str]:
    """Variables that name a file."""
    return {name.upper() for name, field in settings.model_fields.items() if _is_path(field.annotation)}


def _is_path(annotation: Any) -> bool:
    return annotation is Path or any(_is_path(part) for part in get_args(annotation))


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("variant", ["base", "example"])
def test_service_when_deployed_then_it_knows_every_setting(rendered: Rendered, variant: str, name: str) -> None:
    known = {field.upper() for field in SETTINGS[name].model_fields} | OF_LIBRARIES
    assert environment(name, getattr(rendered, variant)).keys() - known == set()


@pytest.mark.parametrize("name", SETTINGS)
def test_service_when_deployed_then_it_takes_its_settings(
    rendered: Rendered, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "file"
    there.touch()
    files = paths(SETTINGS[name])
    for variable, value in environment(name, rendered.example).items():
        monkeypatch.setenv(variable, str(there) if variable in files else value)
    load(SETTINGS[name])


@pytest.mark.parametrize("name", SETTINGS)
def test_files_when_a_setting_names_one_then_its_folder_is_mounted(rendered: Rendered, name: str) -> None:
    (container,) = containers(workloads(rendered.example)[name])
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    found = environment(name, rendered.example)
    assert {str(Path(found[variable]).parent) for variable in paths(SETTINGS[name]) & found.keys()} <= mounted


@pytest.mark.parametrize("name", SETTINGS)
def test_probes_when_the_kubelet_asks_then_the_service_listens_there(rendered: Rendered, name: str) -> None:
    (container,) = containers(workloads(rendered.example)[name])
    found = environment(name, rendered.example)
    assert found["METRICS_HOST"] == "0.0.0.0"  # noqa: S104 - of a pod
    assert [str(port["containerPort"]) for port in container["ports"]] == [found["METRICS_PORT"]]
    annotations = workloads(rendered.example)[name]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == found["METRICS_PORT"]


@pytest.mark.parametrize("name", SETTINGS)
def test_kafka_when_a_service_comes_to_it_then_as_its_own_principal(rendered: Rendered, name: str) -> None:
    (container,) = containers(workloads(rendered.example)[name])
    (password,) = [item["valueFrom"] for item in container["env"] if item["name"] == "KAFKA_PASSWORD"]
    assert password == {"secretKeyRef": {"name": f"kafka-{name}", "key": "password"}}
    given = environment(name, rendered.example)
    of = {"watcher": "WORKSPACE", "agent": "ENGINE_CLUSTER"}
    assert given["KAFKA_USERNAME"] == (f"{name}-{given[of[name]]}" if name in of else name)


@pytest.mark.parametrize("name", COMMANDS)
def test_command_when_run_then_it_is_given_what_it_asks_for_and_nothing_else(rendered: Rendered, name: str) -> None:
    manifests = rendered.migration if name == "database-upgrade" else rendered.example
    assert environment(name, manifests).keys() == COMMANDS[name]


def test_transport_when_nothing_is_said_of_it_then_every_connection_is_encrypted_and_everybody_shows_who_he_is(
    rendered: Rendered,
) -> None:
    for name in SETTINGS:
        found = environment(name, rendered.example)
        assert found["KAFKA_SECURITY_PROTOCOL"] == "SASL_SSL"
        assert found["KAFKA_CA"]
        assert found["SCHEMA_REGISTRY_URL"].startswith("https://")
        assert found["SCHEMA_REGISTRY_CA"]
        (container,) = containers(workloads(rendered.base)[name])
        (token,) = [item for item in container["env"] if item["name"] == TOKEN]
        assert token["valueFrom"] == {"secretKeyRef": {"name": f"registry-{name}", "key": "token"}}
    keeper = environment("connector-keeper", rendered.example)
    assert keeper.pop("CONNECT_URL").startswith("https://")
    (container,) = containers(workloads(rendered.base)["connector-keeper"])
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {str(Path(file).parent) for file in keeper.values()} <= mounted


def test_owner_of_the_database_when_named_then_only_to_the_migration(rendered: Rendered) -> None:
    given = [item for item in workloads(rendered.everything).items() if "database-owner" in str(item[1])]
    assert [name for name, _ in given] == ["database-upgrade"]
