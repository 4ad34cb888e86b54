"""Stacks as values: what their processes would be. Nothing is started, and no program has to be there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from devstack.components.stack import Stack
from devstack.stack.ports import NAMES, SPARE_NAMES
from devstack.stack.state_folder import State
from devstack.toolchain.install import Toolchain


@pytest.fixture
def simulator_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stack:
    """With the simulator."""
    monkeypatch.setenv("PATH", "/bin")
    state = State(tmp_path / "state")
    state.prepare()
    for folder in ("debezium", "converter"):
        (tmp_path / folder).mkdir()
    tools = Toolchain(*[tmp_path] * 7, valkey=tmp_path / "valkey-server", argocd=None)
    ports = {name: number for number, name in enumerate((*NAMES, *SPARE_NAMES), 20_000)}
    return Stack(state, ports, state.secrets(), tools, durable=False)


@pytest.fixture
def argocd_stack(simulator_stack: Stack, tmp_path: Path) -> Stack:
    """The same with Argo CD."""
    return replace(simulator_stack, tools=replace(simulator_stack.tools, argocd=tmp_path / "argocd"))
