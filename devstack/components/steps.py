"""What must be in the infrastructure before the services start: each a command of ``gitopsctl``."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

from devstack.components.stack import Stack
from devstack.paths import COMPOSE
from devstack.stack.identities import ENGINE_CLUSTER, PRINCIPALS, WORKSPACE
from devstack.supervisor.process import Node, Step
from services.cli.kafka.topics import password_variable
from services.common import package_data

ENGINE_CRDS = COMPOSE / "kubernetes" / "argocd-crds.yaml"
FOREIGN_CRDS = COMPOSE / "kubernetes" / "foreign-crds.yaml"
"""Of kinds of other services that are followed: where these run, they bring their own."""
SIMULATOR_RBAC = COMPOSE / "kubernetes" / "argocd-simulator-rbac.yaml"


@dataclass(frozen=True)
class Command:
    """One step."""

    name: str
    arguments: tuple[str, ...]
    """Of ``gitopsctl``."""
    depends_on: tuple[str, ...]

    def argv(self) -> tuple[str, ...]:
        """The command line."""
        return (sys.executable, "-m", "services.cli", *self.arguments)


def sources(*places: Path) -> tuple[str, ...]:
    """Options that name files or folders of manifests: a command that reads all of them starts once."""
    return tuple(word for place in places for word in ("--from", str(place)))


FLEET, KEYS, CRDS = "engines-apply", "sealing-keys", "crds-apply"

COMMANDS = (
    Command(KEYS, ("keys", "generate", "--if-missing"), ()),
    Command("database-upgrade", ("database", "upgrade"), ("database-roles",)),
    Command(FLEET, ("engines", "apply"), ("database-upgrade",)),
    Command("topics-apply", ("topics", "apply"), ("kafka",)),
    Command("topics-acls", ("topics", "acls"), ("kafka",)),
    Command("schemas-apply", ("schemas", "apply"), ("registry", "topics-apply")),
    # Without its publication, its topics and its schemas the connector's task fails.
    Command(
        "connector-apply", ("connector", "apply"), ("connect", "database-upgrade", "topics-apply", "schemas-apply")
    ),
    # Connect has to know the table of a workspace before there is one.
    Command("workspaces-add", ("workspaces", "add", WORKSPACE), ("topics-acls", "connector-apply")),
    Command(CRDS, ("crds", "apply", *sources(package_data.CRDS, ENGINE_CRDS, FOREIGN_CRDS)), ("kube-apiserver",)),
    Command("engine-namespaces", ("dev", "namespaces"), ("kube-apiserver",)),
    Command("rbac-apply", ("rbac", "apply", *sources(package_data.RBAC, SIMULATOR_RBAC)), ("engine-namespaces",)),
)
"""In an order in which they can be run one after the other."""


def nodes(stack: Stack) -> list[Node]:
    """The steps. All but the one that makes the fleet's first instances prepare spares, too.

    Where there are two engine clusters, each has sealing keys of its own; with real Argo CD they share them.
    """
    environment = stack.base_environment() | stack.environment() | _passwords(stack) | dict(stack.settings)
    prepared = environment | {"ENGINE_NAMESPACES": ",".join(stack.argocd_namespaces)}
    return [
        Step(command.name, command.argv(), environment if command.name == FLEET else prepared, command.depends_on)
        for command in (_of_cluster(each) if stack.has_keys_of_clusters else each for each in COMMANDS)
    ]


def _of_cluster(command: Command) -> Command:
    if command.name != KEYS:
        return command
    return replace(command, arguments=(*command.arguments, "--engine-cluster", ENGINE_CLUSTER))


def _passwords(stack: Stack) -> dict[str, str]:
    """For ``topics acls`` and ``workspaces add``."""
    return {password_variable(name): stack.secrets[f"kafka-{name}"] for name in PRINCIPALS}
