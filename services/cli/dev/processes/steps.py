"""What must be in the infrastructure before the services start: each a command of ``gitopsctl``."""

from __future__ import annotations

import sys

from services.cli.dev.process import Node, Step
from services.cli.dev.stack import Stack
from services.common.paths import ROOT

ENGINE_CRDS = ROOT / "compose" / "kubernetes" / "argocd-crds.yaml"


def nodes(stack: Stack) -> list[Node]:
    """The steps, in the order in which an operator would take them."""
    return [
        _step(stack, "database upgrade", ("database-roles",)),
        _step(stack, "topics apply", ("kafka",)),
        _step(stack, "schemas apply", ("registry",)),
        _step(stack, "engines apply", ("database-upgrade",)),
        # Without its publication and its topics the connector's task fails.
        _step(stack, "connector apply", ("connect", "database-upgrade", "topics-apply")),
        _step(stack, "crds apply", ("kube-apiserver",)),
        _step(stack, "crds apply", ("kube-apiserver",), "--from", str(ENGINE_CRDS), name="engine-crds-apply"),
        _step(stack, "dev namespaces", ("kube-apiserver",), name="engine-namespaces"),
    ]


def _step(stack: Stack, command: str, depends_on: tuple[str, ...], *arguments: str, name: str = "") -> Step:
    return Step(
        name=name or command.replace(" ", "-"),
        argv=(sys.executable, "-m", "services.cli", *command.split(), *arguments),
        env=stack.base_environment() | stack.environment(),
        depends_on=depends_on,
    )
