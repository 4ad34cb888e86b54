"""What k8s/README.md tells an operator to type, typed: each command, in its order, on servers with nothing in them.

Then a GitOpsDeployment goes through all of it. There is no node, so pods are processes (:mod:`.containers`), and Argo
CD's are the simulator.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console

from devstack.harness.hosted import HostedStack, hosted
from devstack.harness.mirror import mirrored
from devstack.paths import COMPOSE, ROOT
from devstack.toolchain import install as toolchain
from devstack.toolchain.progress_bar import reporter
from services.common.kubernetes import APPLICATION, connect
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from tests.component.k8s.readme import blocks, commands
from tests.component.plain_http import plain_client
from tests.e2e.tenant import fresh_tenant
from tests.stack.containers import Container, Namespace, await_ready, running
from tests.stack.operator import (
    ARGOCD_SECTION,
    ENGINE,
    OTHER_SECRETS,
    OVERLAY,
    Operator,
    equip,
    make_secrets,
    port_of,
)

OURS = "gitops-service"
SECTIONS = ("TLS", "What you bring", ARGOCD_SECTION, "Installing", "Upgrading")
"""Where the README has commands, in the order in which they are typed: the registry needs a key when it starts."""
OF_RELEASES = {"From before revision 0022"}
"""Sections for who comes from an older release: tests/node_upgrade types those of the newest revision."""

MIGRATED = "kubectl -n gitops-service wait --for condition=complete --timeout 10m job/database-upgrade"
NOT_TYPED = {
    OTHER_SECRETS: "an ellipsis: one such command is typed for each Secret of the README's table",
    MIGRATED: "no kubelet: the container's command is run instead",
}
"""Commands that cannot be typed on this machine, and what takes their place."""

QUESTION = "kubectl auth can-i"
WAIT_FOR_CONNECT = ("gitopsctl connector apply", "gitopsctl workspaces add local")
"""Before these Connect's pod, which ends as long as the brokers do not know it, would have been started once more."""

SERVICES = {"watcher": "watcher", "planner": "planner", "agent": "agent-1"}
"""By Deployment the process of a stack whose port for metrics it has."""


@dataclass(frozen=True)
class Installation:
    """What is there once all is typed, and pods would run."""

    stack: HostedStack
    operator: Operator
    namespace: Namespace


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Operator:
    """In a checkout."""
    folder = tmp_path_factory.mktemp("operator")
    shutil.copytree(ROOT / "k8s", folder / "k8s")
    (folder / "compose").symlink_to(COMPOSE)
    with reporter(Console()) as report:
        return Operator(folder, toolchain.kubectl(report) / "kubectl", {"O": OVERLAY})


@pytest.fixture(scope="module")
def tokens(operator: Operator) -> dict[str, str]:
    """What the commands for the registry print, by the holder of a token, and its public key."""
    printed = {command: operator.type(command).strip() for command in commands("TLS")}
    holders = {command.split()[3]: text for command, text in printed.items() if "schemas token" in command}
    (public,) = [text for command, text in printed.items() if "-pubout" in command]
    return holders | {"public key": public}


@pytest.fixture(scope="module")
def servers(stacks_folder: Path, operator: Operator, tokens: dict[str, str]) -> Iterator[HostedStack]:
    """What an operator brings: brokers, PostgreSQL, registry and a cluster; Connect cannot start yet.

    Its token is signed with the operator's key, too.
    """
    options = ("--bare", "--tls", "--registry-key", str(operator.folder / "registry-tokens.pem"))
    with hosted(stacks_folder / "bare", *options, output=stacks_folder / "bare.out") as running_servers:
        registry = Path(f"/proc/{running_servers.pids()['registry']}/cmdline").read_text()
        assert f"-Dquarkus.oidc.public-key={tokens['public key']}\0" in registry
        yield running_servers


@pytest.fixture(scope="module")
def installation(servers: HostedStack, operator: Operator, tokens: dict[str, str]) -> Iterator[Installation]:
    """Everything typed, from the first command of "What you bring" to the last of "Installing"."""
    equip(operator, servers, tokens)
    operator.type("kubectl create namespace kafka")  # where Connect would be
    kubeconfig = Path(servers.environment["KUBECONFIG"])
    with plain_client(kubeconfig) as api, ExitStack() as pods:
        namespace = Namespace(OURS, api, kubeconfig, operator.folder / "pods")
        for section in SECTIONS[1:4]:
            for command in commands(section):
                if command in WAIT_FOR_CONNECT and "connect" not in servers.pids():
                    servers.start("connect")
                if command == OTHER_SECRETS:
                    make_secrets(operator, servers, tokens)
                elif command == MIGRATED:
                    namespace.run_job("database-upgrade")
                elif command.startswith(QUESTION):  # of any namespace, to be answered with no
                    assert operator.type(f"! {command.replace('TENANT', 'default')}").split()[0] == "no"
                else:
                    operator.type(command)
        servers.start("kube-controller-manager")
        run_pods(servers, operator, namespace, pods)
        yield Installation(servers, operator, namespace)


def run_pods(servers: HostedStack, operator: Operator, namespace: Namespace, pods: ExitStack) -> None:
    """One of each Deployment of ours, until it is ready; and the simulator in place of Argo CD's."""
    logs = operator.folder
    operator.type("gitopsctl rbac apply --from compose/kubernetes/argocd-simulator-rbac.yaml")
    given = {"ENGINE_NAMESPACES": ENGINE, "KUBECONFIG": str(servers.state.kubeconfig_of("argocd-simulator"))}
    simulator = Container((sys.executable, "-m", "devstack.argocd_simulator"), given)
    pods.enter_context(running(simulator, logs / "simulator.log"))
    pods.enter_context(running(namespace.deployed("connector-keeper"), logs / "connector-keeper.log"))
    ports = {name: port_of(servers, process, "metrics") for name, process in SERVICES.items()}
    started = {
        name: pods.enter_context(running(namespace.deployed(name, port), logs / f"{name}.log"))
        for name, port in ports.items()
    }
    for name, process in started.items():
        await_ready(process, ports[name], logs / f"{name}.log")


def test_readme_when_it_shows_commands_then_those_of_every_section_are_typed() -> None:
    assert blocks("sh").keys() == {*SECTIONS, *OF_RELEASES}
    shown = {command for section in SECTIONS for command in commands(section)}
    assert shown >= NOT_TYPED.keys()


@pytest.mark.long  # the same manifests become pods in tests/node/test_deployed.py
async def test_installation_when_every_command_is_typed_then_a_deployment_goes_there_and_back(
    installation: Installation,
) -> None:
    async with (
        await connect(installation.namespace.kubeconfig) as kube,
        mirrored(kube, GITOPS_DEPLOYMENT) as deployments,
        mirrored(kube, APPLICATION) as applications,
        fresh_tenant(kube, deployments, applications) as tenant,
    ):
        created = await tenant.create()
        application = await tenant.application_of(created, timeout_seconds=90)  # the first of all, by cold services
        assert application["metadata"]["namespace"] == ENGINE
        await tenant.until_status("is healthy", health__status="Healthy")


@pytest.mark.long
def test_upgrade_when_every_command_is_typed_then_each_succeeds(installation: Installation) -> None:
    for command in commands("Upgrading"):
        if command == MIGRATED:
            installation.namespace.run_job("database-upgrade")
        else:
            installation.operator.type(command)
