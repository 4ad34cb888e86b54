"""Settings that whoever starts a stack gives to its services."""

from __future__ import annotations

from pathlib import Path

import pytest

from devstack.components.services import nodes
from devstack.components.stack import Stack
from devstack.harness.run import parse_settings
from devstack.stack.ports import NAMES
from devstack.stack.state_folder import State
from devstack.toolchain.install import Toolchain
from services.common.errors import InvalidConfiguration


def test_settings_when_given_then_services_have_them_in_place_of_the_stacks_own(tmp_path: Path) -> None:
    state = State(tmp_path / "state")
    state.prepare()
    tools = Toolchain(**dict.fromkeys(Toolchain.__annotations__, Path("/")) | {"argocd": None, "node": None})
    ports = {name: number for number, name in enumerate(NAMES, 20_000)}
    settings = parse_settings(["DELETION_DEADLINE_SECONDS=7", "PLATFORM_NAMESPACES=a=b"])
    stack = Stack(state, ports, state.secrets(), tools, durable=False, settings=settings)
    environments = {process.name: process.env for process in nodes(stack)}
    for service in ("watcher", "planner", "agent-1", "agent-2"):
        assert environments[service]["DELETION_DEADLINE_SECONDS"] == "7"
        assert environments[service]["PLATFORM_NAMESPACES"] == "a=b"
    assert "PLATFORM_NAMESPACES" not in environments["connector-keeper"]


@pytest.mark.parametrize("text", ["", "NAME", "name=value", "=value"])
def test_setting_when_it_has_no_name_or_no_value_then_it_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfiguration, match="NAME=VALUE"):
        parse_settings([text])
