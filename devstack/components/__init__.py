"""Every process of the stack, one module per component; this one puts them together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from devstack.components import (
    apicurio,
    argocd,
    connect,
    git,
    kafka,
    kubernetes,
    node,
    postgres,
    second_cluster,
    services,
    steps,
    toxiproxy,
)
from devstack.components.stack import Stack
from devstack.supervisor.process import Node, Process, Step
from services.common.errors import InvalidConfiguration


def all_nodes(
    stack: Stack, *, infrastructure_only: bool, bare: bool = False, without: Collection[str] = ()
) -> list[Node]:
    """The processes and steps of ``stack``, less those named in ``without``; our services held if so asked.

    ``bare``: no steps, see :func:`servers_alone`.

    Raises:
        InvalidConfiguration: ``without`` names one that does not exist, or that another needs.
    """
    infrastructure = [toxiproxy, postgres, kafka, apicurio, connect, kubernetes, steps]
    infrastructure += [git] if stack.with_git else []
    infrastructure += [argocd] if stack.with_argocd else []
    nodes = [item for component in infrastructure for item in component.nodes(stack)]
    if stack.tools.node:
        nodes += node.nodes(stack, stack.tools.node, infrastructure_only=infrastructure_only)
    nodes += [replace(service, held=infrastructure_only) for service in services.nodes(stack)]
    nodes += second_cluster.nodes(stack) if stack.engine_clusters > 1 else []
    nodes = servers_alone(nodes) if bare else nodes
    kept = [item for item in nodes if item.name not in without]
    _check(nodes, kept, without)
    return kept


def servers_alone(nodes: Iterable[Node]) -> list[Node]:
    """Without the steps; a process that needs what one of them makes is held, and ends before whatever they need."""
    nodes = list(nodes)
    steps = {item.name: item for item in nodes if isinstance(item, Step)}

    def without_steps(names: Iterable[str]) -> Iterator[str]:
        for name in names:
            yield from without_steps(steps[name].depends_on) if name in steps else (name,)

    return [
        replace(
            item,
            depends_on=tuple(dict.fromkeys(without_steps(item.depends_on))),
            held=item.held or not steps.keys().isdisjoint(item.depends_on),
        )
        for item in nodes
        if isinstance(item, Process)
    ]


def _check(nodes: list[Node], kept: list[Node], without: Collection[str]) -> None:
    unknown = set(without) - {item.name for item in nodes}
    if unknown:
        raise InvalidConfiguration(f"--without {', '.join(sorted(unknown))}: there is no such process")
    for item in kept:
        needed = set(item.depends_on) & set(without)
        if needed:
            raise InvalidConfiguration(f"--without {', '.join(sorted(needed))}: {item.name} needs it")
