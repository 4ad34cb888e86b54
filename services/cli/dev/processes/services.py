"""This product's own services, and the stand-in for Argo CD."""

from __future__ import annotations

import sys

from services.cli.dev.probes import HOST, http
from services.cli.dev.process import Node, Process
from services.cli.dev.processes import steps
from services.cli.dev.stack import Stack

MODULES = {
    "watcher": "services.watcher",
    "planner": "services.planner",
    "agent-1": "services.agent",
    "agent-2": "services.agent",
    "argocd-simulator": "services.argocd_simulator",
}
"""Python module by process name."""

DATABASE_USERS = ("planner",)


def nodes(stack: Stack) -> list[Node]:
    """Each service as a process that waits for every step."""
    needed = ("kube-controller-manager", *(step.name for step in steps.nodes(stack)))
    return [_service(stack, name, module, needed) for name, module in MODULES.items()]


def _service(stack: Stack, name: str, module: str, depends_on: tuple[str, ...]) -> Process:
    port = stack.ports[name]
    folder = stack.state.root / name

    async def prepare() -> None:
        stack.state.folder(name)

    return Process(
        name=name,
        argv=(sys.executable, "-m", module),
        env=_environment(stack, name) | {"METRICS_PORT": str(port), "DATA_DIR": str(folder)},
        ports={"metrics": port},
        ready=http(port, "/readyz"),
        depends_on=depends_on,
        prepare=prepare,
    )


def _environment(stack: Stack, name: str) -> dict[str, str]:
    """A service gets what is for it: nobody but the planner has credentials of the database."""
    shared = stack.environment()
    shared.pop("DATABASE_OWNER_URL")
    if name not in DATABASE_USERS:
        shared.pop("DATABASE_URL")
    else:
        shared.pop("KUBECONFIG")
    return stack.base_environment() | shared
