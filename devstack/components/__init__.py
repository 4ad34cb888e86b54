"""Every process of the stack, one module per component; this one puts them together."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from devstack.components import apicurio, argocd, connect, git, kafka, kubernetes, node, postgres, services, steps
from devstack.components.stack import Stack
from devstack.supervisor.process import Node
from services.common.errors import InvalidConfiguration


def all_nodes(stack: Stack, *, infrastructure_only: bool, without: Collection[str] = ()) -> list[Node]:
    """The processes and steps of ``stack``, less those named in ``without``; our services held if so asked.

    Raises:
        InvalidConfiguration: ``without`` names one that does not exist, or that another needs.
    """
    infrastructure = [postgres, kafka, apicurio, connect, kubernetes, steps]
    infrastructure += [git, argocd] if stack.with_argocd else []
    nodes = [item for component in infrastructure for item in component.nodes(stack)]
    if stack.tools.node:
        nodes += node.nodes(stack, stack.tools.node, infrastructure_only=infrastructure_only)
    nodes += [replace(service, held=infrastructure_only) for service in services.nodes(stack)]
    kept = [item for item in nodes if item.name not in without]
    _check(nodes, kept, without)
    return kept


def _check(nodes: list[Node], kept: list[Node], without: Collection[str]) -> None:
    unknown = set(without) - {item.name for item in nodes}
    if unknown:
        raise InvalidConfiguration(f"--without {', '.join(sorted(unknown))}: there is no such process")
    for item in kept:
        needed = set(item.depends_on) & set(without)
        if needed:
            raise InvalidConfiguration(f"--without {', '.join(sorted(needed))}: {item.name} needs it")
