"""A stack with several planners and watchers."""

from __future__ import annotations

from pathlib import Path

import pytest

from devstack.components.services import nodes
from devstack.components.stack import Stack
from devstack.stack.ports import NAMES
from devstack.stack.state_folder import State
from devstack.supervisor.process import Process
from devstack.toolchain.install import Toolchain


@pytest.fixture
def folder(tmp_path: Path) -> State:
    state = State(tmp_path / "state")
    state.prepare()
    return state


def processes(state: State, replicas: int) -> dict[str, Process]:
    tools = Toolchain(**dict.fromkeys(Toolchain.__annotations__, Path("/")) | {"argocd": None, "node": None})
    ports = {name: number for number, name in enumerate(NAMES, 20_000)}
    stack = Stack(state, ports, state.secrets(), tools, durable=False, replicas=replicas)
    return {process.name: process for process in nodes(stack)}


def test_services_when_there_is_one_of_each_then_none_asks_for_a_lease(folder: State) -> None:
    alone = processes(folder, replicas=1)
    assert {"watcher", "planner", "agent-1", "agent-2"} <= alone.keys()
    assert "LEADER_ELECTION" not in alone["watcher"].env


def test_services_when_there_are_two_then_each_has_its_own_port_and_one_watcher_leads(folder: State) -> None:
    double = processes(folder, replicas=2)
    ours = ("watcher-1", "watcher-2", "planner-1", "planner-2", "agent-1", "agent-2")
    assert double.keys() == {*ours, "argocd-simulator", "connector-keeper"}
    assert len({double[name].ports["metrics"] for name in ours}) == len(ours)
    assert [double[name].env["LEADER_ELECTION"] for name in ("watcher-1", "watcher-2")] == ["true", "true"]
