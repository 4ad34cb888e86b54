"""A stack with a second engine cluster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from devstack.components import all_nodes, kubernetes
from devstack.components.stack import Stack
from devstack.harness import background
from devstack.harness.run import StackOptions, require_consistent
from devstack.stack.ports import NAMES
from devstack.stack.state_folder import State
from devstack.supervisor.process import Node, Process, Step
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
    for name in ("KAFKA_PASSWORD", "KUBECONFIG", "METRICS_PORT", "SEALING_PRIVATE_KEYS"):
        assert first[name] != second[name]
    assert found["north-argocd-simulator"].env["ENGINE_NAMESPACES"] == "gitops-service-argocd-north"


def test_planner_when_there_are_two_clusters_then_the_workspace_is_in_both(tmp_path: Path) -> None:
    """So that tests deploy in each without an environment."""

    def local_workspaces(**options: int) -> str | None:
        planner = nodes(tmp_path, **options)["planner"]
        assert isinstance(planner, Process)
        return planner.env.get("LOCAL_WORKSPACES")

    assert (local_workspaces(), local_workspaces(engine_clusters=2)) == (None, "local=default,local=north")


def test_sealing_keys_when_there_are_two_clusters_then_each_has_its_own_in_one_public_file(tmp_path: Path) -> None:
    found = nodes(tmp_path, engine_clusters=2)
    here, there = (found[name] for name in ("sealing-keys", "north-sealing-keys"))
    assert isinstance(here, Step)
    assert isinstance(there, Step)
    assert tuple(each.argv[each.argv.index("--engine-cluster") + 1] for each in (here, there)) == ("default", "north")
    assert here.env["SEALING_PUBLIC_KEYS"] == there.env["SEALING_PUBLIC_KEYS"]
    assert there.env["SEALING_PRIVATE_KEYS"] == found["north-agent"].env["SEALING_PRIVATE_KEYS"]
    (alone,) = [node for node in nodes(tmp_path).values() if node.name.endswith("sealing-keys")]
    assert isinstance(alone, Step)
    assert "--engine-cluster" not in alone.argv


@pytest.mark.parametrize("replicas", [1, 2])
def test_second_cluster_when_it_comes_up_then_planners_are_there_to_take_the_order_and_then_its_agent_comes(
    tmp_path: Path, replicas: int
) -> None:
    found = nodes(tmp_path, engine_clusters=2, replicas=replicas)
    planners = tuple(name for name in found if name.startswith("planner"))
    assert found["north-engine-cluster-add"].depends_on == planners
    assert "north-engine-cluster-add" in found["north-agent"].depends_on
    assert set(found["north-engine-wait"].depends_on) == {"north-engine-add", "north-agent"}
    assert {needed for node in found.values() for needed in node.depends_on} <= found.keys()


@pytest.fixture
def with_argocd(argocd_stack: Stack) -> Stack:
    return replace(argocd_stack, engine_clusters=2)


def of_north(stack: Stack) -> dict[str, Node]:
    found = {node.name: node for node in all_nodes(stack, infrastructure_only=False)}
    assert {needed for node in found.values() for needed in node.depends_on} <= found.keys()
    return {name: node for name, node in found.items() if name.startswith("north-")}


def test_second_cluster_when_argocd_is_real_then_it_has_one_of_its_own_and_no_simulator(with_argocd: Stack) -> None:
    found = of_north(with_argocd)
    assert "north-argocd-simulator" not in found
    controller = found["north-argocd-application-controller-1"]
    assert "--namespace=gitops-service-argocd-north" in controller.argv
    assert {"north-argocd-apply", "north-kube-controller-manager"} <= set(controller.depends_on)
    first, second = (each.account for each in (with_argocd.argocd_instances()[0], with_argocd.argocd_instances()[-1]))
    assert first.token != second.token
    accounts = {each.namespace for each in kubernetes._second(with_argocd).accounts}
    assert accounts == {"gitops-service", "gitops-service-argocd-north"}
    assert "gitops-service-argocd-north" not in {each.namespace for each in kubernetes._own(with_argocd).accounts}


def test_second_cluster_when_its_argocd_is_a_spare_then_it_is_held_and_its_instance_is_not_in_the_fleet_yet(
    with_argocd: Stack,
) -> None:
    found = of_north(replace(with_argocd, spares=True))
    held = {name for name, node in found.items() if isinstance(node, Process) and node.held}
    assert held == {f"north-argocd-{part}-1" for part in ("redis", "repo-server", "application-controller")}
    assert "north-engine-cluster-add" in found
    assert found.keys().isdisjoint({"north-engine-add", "north-engine-wait"})


def test_second_cluster_when_the_rest_has_no_place_for_it_then_that_is_refused() -> None:
    for option in ("pods", "links", "bare"):
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
