"""A stack with a second engine cluster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from devstack.components import all_nodes
from devstack.components.stack import Stack
from devstack.harness import background
from devstack.harness.run import StackOptions, require_consistent
from devstack.stack.ports import NAMES
from devstack.stack.state_folder import State
from devstack.supervisor.process import Node
from devstack.toolchain.install import Toolchain
from services.common.errors import InvalidConfiguration

OPTIONS = StackOptions(
    infrastructure_only=False, without=(), fresh=False, durable=False, argocd=False, engine_clusters=2
)


def nodes(folder: Path, **options: int) -> dict[str, Node]:
    state = State(folder / "state")
    state.prepare()
    tools = Toolchain(**dict.fromkeys(Toolchain.__annotations__, Path("/")) | {"argocd": None, "node": None})
    ports = {name: number for number, name in enumerate(NAMES, 20_000)}
    stack = Stack(state, ports, state.secrets(), tools, durable=False, **options)
    return {node.name: node for node in all_nodes(stack, infrastructure_only=False)}


def test_stack_when_it_has_one_engine_cluster_then_nothing_of_a_second_is_there(tmp_path: Path) -> None:
    assert [name for name in nodes(tmp_path) if name.startswith("north-")] == []


def test_second_cluster_when_there_is_one_then_its_agent_has_rights_of_its_own_at_brokers_and_api_server(
    tmp_path: Path,
) -> None:
    found = nodes(tmp_path, engine_clusters=2)
    first, second = found["agent-1"].env, found["north-agent"].env
    assert (second["ENGINE_CLUSTER"], second["KAFKA_USERNAME"]) == ("north", "agent-north")
    for name in ("KAFKA_PASSWORD", "KUBECONFIG", "METRICS_PORT"):
        assert first[name] != second[name]
    assert found["north-argocd-simulator"].env["ENGINE_NAMESPACES"] == "gitops-service-argocd-north"


@pytest.mark.parametrize("replicas", [1, 2])
def test_second_cluster_when_it_comes_up_then_planners_are_there_to_take_the_order_and_then_its_agent_comes(
    tmp_path: Path, replicas: int
) -> None:
    found = nodes(tmp_path, engine_clusters=2, replicas=replicas)
    planners = tuple(name for name in found if name.startswith("planner"))
    assert found["north-engine-cluster-add"].depends_on == planners
    assert "north-engine-cluster-add" in found["north-agent"].depends_on
    assert {needed for node in found.values() for needed in node.depends_on} <= found.keys()


def test_second_cluster_when_the_rest_has_no_place_for_it_then_that_is_refused() -> None:
    for option in ("pods", "argocd", "links", "bare"):
        with pytest.raises(InvalidConfiguration, match=f"--engine-clusters 2 and --{option}"):
            require_consistent(replace(OPTIONS, **{option: True}))
    with pytest.raises(InvalidConfiguration, match="--engine-clusters 2 and --infra"):
        require_consistent(replace(OPTIONS, infrastructure_only=True))
    require_consistent(OPTIONS)


def test_stack_when_it_is_left_running_in_the_background_then_it_is_started_with_the_same_options(
    tmp_path: Path,
) -> None:
    command = background._command(State(tmp_path), replace(OPTIONS, git=True, clocks=True), 3)
    assert {"--git", "--clocks"} <= set(command)
    assert command[command.index("--engine-clusters") + 1] == "2"
