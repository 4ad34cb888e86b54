"""The profile ``argocd`` of compose.yaml runs Argo CD as the local stack does."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from dotenv import dotenv_values

from devstack.commands.dev import credentials
from devstack.components import argocd
from devstack.components.services import SIMULATOR
from devstack.components.stack import ENGINE_NAMESPACES, Stack
from devstack.git import example_server
from devstack.paths import COMPOSE
from devstack.stack.argocd_instance import CONTROLLER_ACCOUNT
from devstack.supervisor.process import Process
from services.kinds.gitops_deployment.model import GitOpsDeploymentSpec

SCRIPT = (COMPOSE / "run.sh").read_text()
STACK: dict[str, Any] = yaml.safe_load((COMPOSE / "compose.yaml").read_text())["services"]
PROFILED = {name: item for name, item in STACK.items() if item.get("profiles") == ["argocd"]}
INSTANCES = {name: item for name, item in PROFILED.items() if re.search(r"-\d$", name)}

PLACES = {
    "address", "port", "metrics-address", "metrics-port", "redis", "repo-server", "kubeconfig", "namespace",
}  # fmt: skip
"""Flags whose values are addresses or paths: another in every stack."""
OF_CONTAINERS = {"ARGOCD_INSTANCE", "ARGOCD_NAMESPACE"}
"""From which run.sh makes flags."""
ELSEWHERE = {"PATH", "GENERATORS_FOLDER", "TZ", "LANG", "SSL_CERT_FILE"}
"""Set by run.sh, or the caller's."""
OF_EACH_STACK = {"REDIS_PASSWORD", "ARGOCD_ASK_PASS_SOCK"}


@pytest.fixture
def local(argocd_stack: Stack) -> dict[str, Process]:
    """The local stack's processes of Argo CD."""
    argocd_stack.argocd_instances()[0].configure_redis(6379, "127.0.0.1")
    return {node.name: node for node in argocd.nodes(argocd_stack) if isinstance(node, Process)}


def flags(words: list[str]) -> dict[str, str]:
    """By name; those that say where something is without their values."""
    pairs = (word.removeprefix("--").split("=", 1) for word in words if word.startswith("--"))
    return {name: "" if name in PLACES else value for name, value in pairs}


def section(component: str) -> str:
    """What run.sh does to become ``component``."""
    found = re.search(rf"^{component}\)\n(.*?)^    ;;$", SCRIPT, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_instances_when_compared_with_the_local_stack_then_they_are_the_same(local: dict[str, Process]) -> None:
    assert INSTANCES.keys() == local.keys()
    assert PROFILED.keys() - INSTANCES.keys() == {"argocd-setup", "git"}


@pytest.mark.parametrize("component", ["argocd-repo-server", "argocd-application-controller"])
def test_flags_when_run_in_a_container_then_they_are_the_local_stacks(
    component: str, local: dict[str, Process]
) -> None:
    words = re.findall(r"--[^\s\"]+", section(component))
    assert flags(words) == flags([*local[f"{component}-1"].argv])


@pytest.mark.parametrize("name", [name for name in INSTANCES if "redis" not in name])
def test_environment_when_run_in_a_container_then_it_is_the_local_stacks(name: str, local: dict[str, Process]) -> None:
    here, there = STACK[name]["environment"], local[name].env
    assert here.keys() - OF_CONTAINERS == there.keys() - ELSEWHERE
    same = {name for name in here.keys() & there.keys() if "/" not in there[name]} - OF_EACH_STACK
    assert "ARGOCD_GPG_ENABLED" in same
    assert {name: here[name] for name in same} == {name: there[name] for name in same}


def test_redis_when_run_in_a_container_then_it_keeps_as_little_as_the_local_stacks(
    local: dict[str, Process],
) -> None:
    written = Path(local["argocd-redis-1"].argv[1]).read_text().splitlines()
    constant = [line for line in written if line.split(" ")[0] not in {"bind", "port", "requirepass", "dir"}]
    assert constant
    assert [line for line in constant if f"'{line}'" not in section("argocd-redis")] == []
    assert section("argocd-redis").count("requirepass") == 1


@pytest.mark.parametrize("number", range(1, len(ENGINE_NAMESPACES) + 1))
def test_controller_when_run_in_a_container_then_each_has_a_namespace_and_an_account_of_its_own(number: int) -> None:
    controller = STACK[f"argocd-application-controller-{number}"]
    assert controller["environment"]["ARGOCD_NAMESPACE"] == ENGINE_NAMESPACES[number - 1]
    assert controller["volumes"] == [f"account-argocd-{number}:/account:ro"]
    repo_server = STACK[f"argocd-repo-server-{number}"]
    assert [item["environment"]["ARGOCD_INSTANCE"] for item in (controller, repo_server)] == [str(number)] * 2


def test_credentials_when_made_then_each_controller_comes_as_its_own_account(tmp_path: Path) -> None:
    for mount in STACK["credentials"]["volumes"]:
        (tmp_path / mount.split(":/")[1]).mkdir(parents=True)
    credentials(tmp_path / "credentials", tmp_path / "accounts", "kube-apiserver", 6443)
    admitted = (tmp_path / "credentials" / "tokens.csv").read_text()
    for number, namespace in enumerate(ENGINE_NAMESPACES, 1):
        config = yaml.safe_load((tmp_path / "accounts" / f"argocd-{number}" / "kubeconfig").read_text())
        (user,) = config["users"]
        account = f"system:serviceaccount:{namespace}:{CONTROLLER_ACCOUNT}"
        assert f"{user['user']['token']},{account},{account}," in admitted


def test_simulator_when_argocd_is_chosen_then_it_is_left_out_and_otherwise_not() -> None:
    chosen = [dotenv_values(COMPOSE / name)["COMPOSE_PROFILES"] for name in (".env", "argocd.env")]
    assert chosen == ["simulator", "argocd"]
    assert [name for name, item in STACK.items() if item.get("profiles") == ["simulator"]] == [SIMULATOR]
    assert [name for name, item in STACK.items() if SIMULATOR in item.get("depends_on", {})] == []


def test_services_when_a_profile_is_not_chosen_then_no_other_waits_for_one_of_it() -> None:
    waiting = {
        name for name, item in STACK.items() if name not in PROFILED and PROFILED.keys() & item.get("depends_on", {})
    }
    assert waiting == set()


def test_script_when_its_image_has_no_java_then_it_does_not_look_for_it(tmp_path: Path) -> None:
    outcome = subprocess.run(
        ["/bin/sh", str(COMPOSE / "run.sh"), "nobody"], env={"PATH": str(tmp_path)}, capture_output=True, check=False
    )
    assert outcome.returncode == 2
    users = {name for name in re.findall(r"^([a-z-]+)\)$", SCRIPT, re.MULTILINE) if "$java" in section(name)}
    assert users == {
        name for name in re.findall(r"^([a-z-]+)\)$", SCRIPT, re.MULTILINE) if "find_java" in section(name)
    }
    assert [name for name in users if STACK[name]["image"] != "gitops-service-stack:dev"] == []


def test_git_server_when_the_profile_is_chosen_then_every_file_calls_it_by_the_name_in_its_certificate() -> None:
    (name,) = STACK["git"]["networks"]["default"]["aliases"]
    assert f"\ngit_host={name} " in SCRIPT
    _, deployment = yaml.safe_load_all((COMPOSE / "example.yaml").read_text())
    repository, folder = deployment["spec"]["source"]["repoURL"], deployment["spec"]["source"]["path"]
    port = re.search(r'example_server /data "\$git_host" (\d+) /authority/ca\.crt$', section("git"), re.MULTILINE)
    assert port is not None
    assert repository == f"https://{name}:{port[1]}/public/{example_server.NAME}.git"
    assert [path for path in example_server.FILES if path.startswith(f"{folder}/")] == list(example_server.FILES)
    assert GitOpsDeploymentSpec.model_validate(deployment["spec"]).source.repo_url == repository


def test_authority_of_the_git_server_when_mounted_then_repo_servers_read_it_and_nothing_else_of_the_server() -> None:
    mounts = {name: item.get("volumes", []) for name, item in STACK.items()}
    holders = {
        volume: {name for name in mounts for mount in mounts[name] if mount.split(":")[0] == volume}
        for volume in ("git", "git-authority")
    }
    servers = {name for name in INSTANCES if "repo-server" in name}
    assert holders == {"git": {"git"}, "git-authority": {"git"} | servers}
    assert all(mounts[name] == ["git-authority:/authority:ro,nocopy"] for name in servers)
