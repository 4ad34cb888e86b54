"""A stack of servers with nothing in them: no step, and nobody is started who would find too little there."""

from __future__ import annotations

from devstack.components import servers_alone
from devstack.supervisor.process import Node, Process, Step


async def ready() -> bool:
    return True


NODES: tuple[Node, ...] = (
    Process("kafka", ("kafka",), ready),
    Process("registry", ("registry",), ready, depends_on=("kafka",)),
    Step("topics", ("gitopsctl",), depends_on=("kafka",)),
    Step("workspaces", ("gitopsctl",), depends_on=("topics", "registry")),
    Process("watcher", ("watcher",), ready, depends_on=("workspaces", "topics")),
)


def test_stack_when_its_servers_are_alone_then_there_are_no_steps() -> None:
    assert [node.name for node in servers_alone(NODES)] == ["kafka", "registry", "watcher"]


def test_process_when_it_needs_what_a_step_makes_then_it_waits_to_be_started() -> None:
    held = {node.name: node.held for node in servers_alone(NODES) if isinstance(node, Process)}
    assert held == {"kafka": False, "registry": False, "watcher": True}


def test_process_when_it_waited_for_a_step_then_it_still_ends_before_what_the_step_needed() -> None:
    needed = {node.name: node.depends_on for node in servers_alone(NODES)}
    assert needed == {"kafka": (), "registry": ("kafka",), "watcher": ("kafka", "registry")}
