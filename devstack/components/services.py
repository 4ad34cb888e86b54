"""Our own services, and the stand-in for Argo CD."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

from devstack.components import steps, toxiproxy
from devstack.components.stack import Stack
from devstack.stack import clocks
from devstack.stack.identities import ACCOUNTS
from devstack.stack.replicas import processes_of
from devstack.stack.second_cluster import PREFIX
from devstack.supervisor.health_checks import http
from devstack.supervisor.process import Process

MODULES = {
    "watcher": "services.watcher",
    "planner": "services.planner",
    "agent-1": "services.agent",
    "agent-2": "services.agent",
    "argocd-simulator": "devstack.argocd_simulator",
}
"""Python module by process name, where there is one of each but of the agents."""

SIMULATOR = "argocd-simulator"
"""Not started where there is the real one."""

OF_ENGINE_CLUSTERS = {"agent": "services.agent", SIMULATOR: "devstack.argocd_simulator"}
"""Python module by service, of those that each engine cluster needs."""

HASTE = {"DELETION_DEADLINE_SECONDS": "15"}
"""A real Argo CD may need minutes to delete what it deployed; the simulator either does it at once or never."""


def nodes(stack: Stack) -> list[Process]:
    """Each service as a process that waits for every step; with a node, ours are pods instead."""
    needed = ("kube-controller-manager", *(step.name for step in steps.COMMANDS))
    # The agents ask the git servers of whom they have the keys.
    needed += ("git-https", "git-ssh") if stack.with_git else ()
    needed += ("argocd-apply",) if stack.with_argocd else ()
    needed += (toxiproxy.NAME,) if stack.with_links else ()
    services = [
        _service(stack, name, module, needed)
        for name, module in modules(stack.replicas).items()
        if (not stack.with_argocd if name == SIMULATOR else not stack.with_pods)
    ]
    return services if stack.with_pods else [*services, _connector_keeper(stack, needed)]


def modules(replicas: int) -> dict[str, str]:
    """Python module by process name, with so many planners and watchers."""
    return {process: module for name, module in MODULES.items() for process in processes_of(name, replicas)}


def _connector_keeper(stack: Stack, depends_on: tuple[str, ...]) -> Process:
    return Process(
        name="connector-keeper",
        argv=(sys.executable, "-m", "services.cli", "connector", "keep"),
        env=stack.base_environment() | stack.connect_login(),
        ready=_at_once,
        depends_on=depends_on,
    )


async def _at_once() -> bool:
    """It serves nobody, so nobody has to wait for it."""
    return True


def of_second_cluster(stack: Stack, service: str, depends_on: tuple[str, ...]) -> Process:
    """One of :data:`OF_ENGINE_CLUSTERS` in the second engine cluster."""
    common = _service(stack, PREFIX + service, OF_ENGINE_CLUSTERS[service], depends_on)
    return replace(common, env={**common.env, **stack.environment_there(service)})


def _service(stack: Stack, name: str, module: str, depends_on: tuple[str, ...]) -> Process:
    port, seen = stack.ports[name], stack.seen_by(name)
    own = {"METRICS_PORT": str(port)} | ({"GROUP_INSTANCE_ID": name} if module == "services.agent" else {})
    # A service that is killed leaves its temporary files behind: here the next start finds and removes them.
    temporary = stack.state.root / "tmp" / name
    return Process(
        name=name,
        argv=_command(stack, name, module),
        env=_environment(seen, module) | own | {"TMPDIR": str(temporary)},
        ports={"metrics": port},
        ready=http(port, "/readyz"),
        depends_on=depends_on,
        prepare=lambda: _prepare(seen, name, temporary),
    )


def _command(stack: Stack, name: str, module: str) -> tuple[str, ...]:
    if not stack.clocks:
        return sys.executable, "-m", module
    return sys.executable, "-m", clocks.__name__, str(clocks.clock_of(stack.state, name)), module


async def _prepare(stack: Stack, name: str, temporary: Path) -> None:
    stack.write_kubeconfigs(*map(stack.state.kubeconfig_of, ACCOUNTS))
    if stack.clocks:
        clocks.prepare_clock(stack.state, name)
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)  # noqa: ASYNC240 - nothing else waits for it


def _environment(stack: Stack, module: str) -> dict[str, str]:
    service = module.rpartition(".")[2].replace("_", "-")
    haste = {"HEARTBEAT_REPOSITORY": stack.git_site().heartbeat_url} if stack.with_argocd else HASTE
    return stack.base_environment() | stack.environment_of(service) | haste | dict(stack.settings)
