"""What compose.yaml gives each of our services is what the local stack gives it: settings, credentials, and no more."""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml
from dotenv import dotenv_values
from pydantic_settings import BaseSettings

from devstack.argocd_simulator.settings import SimulatorSettings
from devstack.components.services import MODULES
from devstack.components.stack import ENGINE_NAMESPACES, Stack
from devstack.paths import COMPOSE, ROOT
from devstack.stack.identities import ACCOUNTS, IDENTITIES, PRINCIPALS
from devstack.stack.state_folder import State
from devstack.toolchain.install import Toolchain
from services.agent.settings import AgentSettings
from services.cli.kafka.topics import password_variable
from services.common.settings import load
from services.planner.settings import PlannerSettings
from services.watcher.settings import WatcherSettings

CONTAINERFILE = (COMPOSE / "Containerfile").read_text()
STACK: dict[str, Any] = yaml.safe_load((COMPOSE / "compose.yaml").read_text())["services"]
SETTINGS: dict[str, type[BaseSettings]] = {
    "watcher": WatcherSettings,
    "planner": PlannerSettings,
    "agent": AgentSettings,
    "argocd-simulator": SimulatorSettings,
}
OF_CONTAINERS = {"LOG_FORMAT", "METRICS_HOST", "METRICS_PORT"}
"""The local stack's processes share one host, and each has a port of its own."""
ENV_FILES = {argocd: dotenv_values(COMPOSE / name) for argocd, name in ((False, ".env"), (True, "argocd.env"))}
"""What Compose is told by the file that it reads, with real Argo CD and without."""
BY_DEFAULT = {"KAFKA_SASL_MECHANISM"}
ADDRESSES = {"KAFKA_BOOTSTRAP_SERVERS", "SCHEMA_REGISTRY_URL", "KUBECONFIG", "DATABASE_URL", "KAFKA_PASSWORD"}
PATHS = {"SEALING_PRIVATE_KEYS", "SEALING_PUBLIC_KEYS"}


def service_of(name: str) -> str:
    """``agent-1`` is one process of ``agent``."""
    return MODULES[name].rpartition(".")[2].replace("_", "-")


def environment(name: str, *, argocd: bool = False) -> dict[str, str]:
    """A container's, with defaults in place of what the caller's shell may set."""
    given: dict[str, str] = STACK[name]["environment"]

    def set_or_default(variable: re.Match[str]) -> str:
        return ENV_FILES[argocd].get(variable[1]) or variable[2]

    return {key: re.sub(r"\$\{(\w+):-(.*?)\}", set_or_default, str(value)) for key, value in given.items()}


@pytest.fixture
def local(tmp_path: Path) -> Stack:
    """A local stack that was never started."""
    tools = Toolchain(**dict.fromkeys(Toolchain.__annotations__, tmp_path) | {"argocd": None})
    return Stack(State(tmp_path), defaultdict(int), defaultdict(str), tools, durable=False)


@pytest.mark.parametrize("name", MODULES)
def test_service_when_started_then_it_takes_its_settings(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in environment(name).items():
        monkeypatch.setenv(variable, value)
    load(SETTINGS[service_of(name)])


@pytest.mark.parametrize("name", MODULES)
def test_service_when_started_then_it_has_the_settings_that_it_has_in_the_local_stack(name: str, local: Stack) -> None:
    known = {field.upper() for field in SETTINGS[service_of(name)].model_fields}
    there, here = local.environment_of(service_of(name)), environment(name)
    assert known & here.keys() - OF_CONTAINERS == known & there.keys() - BY_DEFAULT
    same = known & here.keys() & there.keys() - ADDRESSES - PATHS
    assert {variable: here[variable] for variable in same} == {variable: there[variable] for variable in same}


@pytest.mark.parametrize("name", ["agent-1", "agent-2"])
def test_agent_when_argocd_is_real_then_it_takes_none_that_does_not_keep_tenants_apart(name: str, local: Stack) -> None:
    settings = [local.environment_of("agent"), environment(name), environment(name, argocd=True)]
    with_simulator, in_compose, with_argocd = (each.get("ACCEPT_UNISOLATED_ENGINES") for each in settings)
    assert (with_simulator, in_compose, with_argocd) == ("true", "true", "false")


@pytest.mark.parametrize("name", MODULES)
def test_credentials_when_given_then_they_are_the_services_own(name: str) -> None:
    identity, given = IDENTITIES[service_of(name)], environment(name)
    mounted = {mount.split(":")[0] for mount in STACK[name].get("volumes", [])}
    assert given.get("KAFKA_USERNAME", "") == identity.principal
    assert ("KUBECONFIG" in given) == bool(identity.account)
    assert {volume for volume in mounted if volume.startswith("account-")} == (
        {f"account-{identity.account}"} if identity.account else set()
    )
    assert (f"gitops_{identity.database_role}:" in given.get("DATABASE_URL", "")) == bool(identity.database_role)


def test_sealing_keys_when_mounted_then_the_private_ones_only_where_something_is_opened() -> None:
    holders = {
        keys: {name for name in STACK for mount in STACK[name].get("volumes", []) if mount.startswith(f"{keys}:")}
        for keys in ("sealing-private", "sealing-public")
    }
    assert holders == {"sealing-private": {"setup", "agent-1", "agent-2"}, "sealing-public": {"setup", "watcher"}}


def test_principals_when_made_then_everybody_gets_the_password_it_comes_with() -> None:
    made = environment("principals") | environment("setup")
    assert {name for name in made if name.startswith("KAFKA_PASSWORD_")} == {
        password_variable(principal) for principal in PRINCIPALS
    }
    for name in MODULES:
        if principal := IDENTITIES[service_of(name)].principal:
            assert environment(name)["KAFKA_PASSWORD"] == made[password_variable(principal)]
    assert environment("connect")["GITOPS_CONNECT_PASSWORD"] == made["KAFKA_PASSWORD_CONNECT"]


def test_accounts_when_made_then_each_has_a_volume_of_its_own() -> None:
    mounts = dict(mount.split(":") for mount in STACK["credentials"]["volumes"])
    holders = {"admin", *ACCOUNTS, *(f"argocd-{number}" for number, _ in enumerate(ENGINE_NAMESPACES, 1))}
    assert {volume: path for volume, path in mounts.items() if volume.startswith("account-")} == {
        f"account-{holder}": f"/accounts/{holder}" for holder in holders
    }
    assert set(re.findall(r"/accounts/([a-z0-9-]+)", CONTAINERFILE)) == holders


@pytest.mark.parametrize("name", [name for name in STACK if STACK[name]["image"].startswith("gitops-service")])
def test_container_when_run_then_it_can_gain_no_rights(name: str) -> None:
    assert STACK[name]["cap_drop"] == ["ALL"]
    assert STACK[name]["security_opt"] == ["no-new-privileges:true"]
    assert STACK[name].get("read_only", False) == (STACK[name]["image"] != "gitops-service-stack:dev")


def test_services_image_when_built_then_it_has_the_wheel_and_nothing_of_the_local_stack() -> None:
    stages = {part.split("\n")[0].rpartition(" AS ")[2]: part for part in CONTAINERFILE.split("\nFROM ")}
    assert re.findall(r"^COPY (.+)$", stages["service"], re.MULTILINE) == ["--from=root /image /"]
    assert CONTAINERFILE.count("\nFROM scratch AS service\n") == CONTAINERFILE.count("\nFROM release AS root\n") == 1
    assert "--no-editable" in stages["release"]
    built_of = re.findall(r"^COPY (.+) \S+$", stages["release"] + stages["dependencies"], re.MULTILINE)
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    folders = {folder.split("/")[0] for folder in wheel["only-include"]}
    assert set(" ".join(built_of).split()) == folders | {
        "pyproject.toml",
        "uv.lock",
        "toolchain/uv.txt",
        "README.md",
        "LICENSE",
    }


def test_images_when_built_then_from_an_exact_release_and_not_as_root() -> None:
    outside = re.findall(r"^ARG \w+_IMAGE=(\S+)$", CONTAINERFILE, re.MULTILINE)
    arguments = re.findall(r"^FROM \$\{(\w+)\}", CONTAINERFILE, re.MULTILINE)
    stages = {"scratch", *re.findall(r" AS (\S+)$", CONTAINERFILE, re.MULTILINE)}
    assert {*re.findall(r"^FROM ([^$\s]+)", CONTAINERFILE, re.MULTILINE)} <= stages
    assert [name for name in arguments if not re.search(rf"^ARG {name}=", CONTAINERFILE, re.MULTILINE)] == []
    assert "scratch" in outside  # of what was made elsewhere: nothing, unless somebody says so
    outside.remove("scratch")
    assert [source for source in outside if not re.search(r":\d+\.\d+\.\d+-|@sha256:", source)] == []
    finals = [part for part in CONTAINERFILE.split("\nFROM ") if "ENTRYPOINT" in part]
    assert len(finals) == 3
    assert all(re.search(r"^USER 10001(:10001)?$", part, re.MULTILINE) for part in finals)
    assert not re.search(r"apt-get|apk ", CONTAINERFILE)  # all that runs is Python's, or comes as Python packages
