"""A stack with Argo CDs that wait to be started and added."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from devstack.components import all_nodes
from devstack.components.stack import ENGINE_NAMESPACES, SPARE_NAMESPACES, Stack
from devstack.demo.argocds import CAPACITY, Instance
from devstack.harness import background
from devstack.harness.run import StackOptions, require_consistent
from devstack.paths import COMPOSE
from devstack.stack.second_cluster import NAMESPACE
from devstack.stack.state_folder import State
from devstack.supervisor.process import Node, Process
from services.common.errors import InvalidConfiguration
from services.common.kubernetes import Manifest

OPTIONS = StackOptions(infrastructure_only=False, without=(), fresh=False, durable=False, argocd=True, spares=True)
EVERY_NAMESPACE = ",".join((*ENGINE_NAMESPACES, *SPARE_NAMESPACES))


@pytest.fixture
def nodes(argocd_stack: Stack) -> dict[str, Node]:
    """By name."""
    return {node.name: node for node in all_nodes(replace(argocd_stack, spares=True), infrastructure_only=False)}


def test_spares_when_the_stack_starts_then_they_are_held_and_nothing_waits_for_them(nodes: dict[str, Node]) -> None:
    held = {name for name, node in nodes.items() if isinstance(node, Process) and node.held}
    parts = ("redis", "repo-server", "application-controller")
    assert held == {f"argocd-{part}-{number}" for part in parts for number in (2, 3, 4)}
    assert {name for node in nodes.values() if node.name not in held for name in node.depends_on} & held == set()


def test_spares_when_the_fleet_is_made_then_only_the_first_is_in_it_and_each_is_prepared(
    nodes: dict[str, Node],
) -> None:
    assert nodes["engines-apply"].env["ENGINE_NAMESPACES"] == ENGINE_NAMESPACES[0]
    for step in ("engine-namespaces", "rbac-apply", "argocd-apply", "argocd-rbac-apply"):
        assert nodes[step].env["ENGINE_NAMESPACES"] == EVERY_NAMESPACE


def test_rights_of_spares_when_compared_with_those_of_the_others_then_they_are_the_same() -> None:
    places = {"rbac.yaml": ENGINE_NAMESPACES, "spares.yaml": SPARE_NAMESPACES, "north.yaml": (NAMESPACE,)}
    first, spares, north = (_rights(file, namespaces) for file, namespaces in places.items())
    assert first == spares
    assert [_of_one(each) for each in first if each["metadata"].get("namespace") != "place-1"] == north


def _rights(file: str, namespaces: tuple[str, ...]) -> list[Manifest]:
    text = (COMPOSE / "argocd" / file).read_text()
    for number, place in enumerate(namespaces):
        text = text.replace(f"namespace: {place}\n", f"namespace: place-{number}\n")
    return list(yaml.safe_load_all(text.replace("-spares\n", "\n").rstrip() + "\n"))


def _of_one(manifest: Manifest) -> Manifest:
    subjects = {"subjects": manifest["subjects"][:1]} if "subjects" in manifest else {}
    return manifest | subjects


@pytest.mark.parametrize("changed", [{"argocd": False}, {"pods": True}, {"links": True}])
def test_spares_when_the_rest_has_no_place_for_them_then_that_is_refused(changed: dict[str, bool]) -> None:
    require_consistent(OPTIONS)
    with pytest.raises(InvalidConfiguration, match="--spares"):
        require_consistent(replace(OPTIONS, **changed))  # type: ignore[arg-type]


def test_stack_with_spares_when_left_in_the_background_then_it_is_started_with_them(tmp_path: Path) -> None:
    assert "--spares" in background._command(State(tmp_path), OPTIONS, 3)


def test_instance_when_it_joins_the_demos_fleet_then_its_command_and_its_processes_are_those_of_its_number() -> None:
    other = Instance(1, "north-1", "general", "3.2.11", "north")
    assert "--cluster north --namespace gitops-service-argocd-north " in other.added_by
    assert other.controller == "north-argocd-application-controller-1"
    instance = Instance(3, "canary-2", "canary", "3.2.11")
    where = f"--namespace gitops-service-argocd-3 --ring canary --version 3.2.11 --capacity {CAPACITY}"
    assert instance.added_by == f"add canary-2 {where}"
    assert instance.controller == "argocd-application-controller-3"
