"""LOCAL_WORKSPACES: in which engine clusters a workspace's namespaces are, and what tenants may do there alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from services.common.errors import InvalidConfiguration
from services.common.settings import load
from services.kinds.gitops_deployment.catalogue import NO_LOCAL_CLUSTER, NOT_ON_ENGINES_CLUSTER, PLATFORM_NAMESPACE
from services.planner.domain.events import Due, Event
from services.planner.domain.policy import Policy
from services.planner.settings import PolicySettings
from tests.unit.planner.fleet.test_moves import ID, Agents, ordered, until
from tests.unit.planner.given import NAMESPACE, changed, environment, secret
from tests.unit.planner.tenant import REMOTE, check, conditions, manifest, rows
from tests.unit.planner.world import FLEET, World

HERE, NORTH = FLEET[0], replace(FLEET[1], engine_cluster="north")
BOTH = {"local": frozenset({"default", "north"})}
OWN = {"name": "in-cluster", "namespace": NAMESPACE}
"""The tenant's namespace in its engine's cluster, as its project lists it."""


def placed_in(cluster: str, **local: frozenset[str]) -> World:
    """Of which all tenants are in one engine cluster."""
    return World(fleet=[replace(HERE, engine_cluster=cluster)], policy=Policy(local_workspaces=local))


def problem(world: World, name: str = "web") -> str:
    *_, message = conditions(world, "GitOpsDeployment", name)["ErrorOccurred"]
    return message


def listed(world: World, instance: str) -> list[dict[str, Any]]:
    """What the tenant's project lists there."""
    (project,) = [row for row in rows(world, "AppProject") if row.engine_instance_id == instance]
    found: list[dict[str, Any]] = json.loads(project.manifest)["spec"]["destinations"]
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("local", {"local": {"default"}}),
        ("local=north", {"local": {"north"}}),
        ("local,local=north", {"local": {"default", "north"}}),  # planners of before read that local is listed
        (" local , team.a=north,,local=north ", {"local": {"default", "north"}, "team.a": {"north"}}),
    ],
)
def test_setting_when_it_names_clusters_then_each_workspace_has_its_own_and_default_without(
    monkeypatch: pytest.MonkeyPatch, text: str, expected: Mapping[str, set[str]]
) -> None:
    monkeypatch.setenv("LOCAL_WORKSPACES", text)
    assert load(PolicySettings).policy.local_workspaces == expected


def test_setting_when_it_is_left_out_then_workspace_local_is_in_the_cluster_that_each_installation_has() -> None:
    assert PolicySettings(local_workspaces="local").policy == PolicySettings().policy == Policy()


@pytest.mark.parametrize("text", ["=north", "local=", "local=North", "local=a=b", "local default", "lo/cal"])
def test_setting_when_it_cannot_be_read_then_the_error_names_it_and_what_to_write(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("LOCAL_WORKSPACES", f"local,{text}")
    expected = f"LOCAL_WORKSPACES: .*'{text}' is no workspace; write workspace or workspace=cluster, comma separated"
    with pytest.raises(InvalidConfiguration, match=expected):
        load(PolicySettings)


@pytest.mark.parametrize(
    ("cluster", "local", "namespace", "expected"),
    [
        ("north", {"local": frozenset({"default"})}, NAMESPACE, NOT_ON_ENGINES_CLUSTER),
        ("default", {"local": frozenset({"north"})}, NAMESPACE, NOT_ON_ENGINES_CLUSTER),
        ("north", {"other": frozenset({"north"})}, NAMESPACE, NO_LOCAL_CLUSTER),
        ("north", {"local": frozenset({"default"})}, "kube-system", PLATFORM_NAMESPACE),
    ],
)
def test_deployment_when_its_tenants_engine_is_in_another_cluster_then_it_is_not_deployed_and_says_what_to_do(
    cluster: str, local: dict[str, frozenset[str]], namespace: str, expected: Any
) -> None:
    world = placed_in(cluster, **local)
    world.take(changed(1, namespace=namespace))
    assert (world.engine, problem(world)) == ({}, expected.message)
    assert not {"north", "default", HERE.id} & set(problem(world).split()), "users do not see the fleet"


def test_deployment_when_its_cluster_is_listed_later_then_it_is_deployed_with_its_tenants_next_event() -> None:
    world = placed_in("north", local=frozenset({"default"}))
    world.take(changed(1))
    assert world.engine == {}
    world.policy = Policy(local_workspaces=BOTH)
    world.take(secret(2))
    assert manifest(world, "Application")["spec"]["destination"] == OWN
    assert problem(world) == ""


@pytest.mark.parametrize(
    ("cluster", "expected"), [("default", PLATFORM_NAMESPACE.message), ("north", "")], ids=["its own", "another"]
)
def test_deployment_when_an_engine_has_a_namespace_of_that_name_then_it_is_refused_in_the_cluster_of_that_alone(
    cluster: str, expected: str
) -> None:
    engine = replace(FLEET[1], id="mistake", namespace=NAMESPACE, engine_cluster=cluster, accepting=False)
    world = World(fleet=[HERE, engine], policy=Policy(local_workspaces=BOTH))
    world.take(changed(1))
    assert [each.pending_reason for each in world.deployments.values()] == [expected]
    assert (world.engine == {}) == bool(expected)


def test_deployment_when_its_namespace_was_an_engines_then_it_is_deployed_once_it_is_looked_at_again() -> None:
    engine = replace(FLEET[1], id="mistake", namespace=NAMESPACE, accepting=False)
    world = World(fleet=[HERE, engine])
    world.take(changed(1))
    world.fleet = [HERE]
    (refused,) = world.deployments.values()
    world.take(Event(Due("local", NAMESPACE, refused.id), 0, ""))
    assert (problem(world), listed(world, HERE.id)) == ("", [OWN])


@pytest.mark.parametrize("cluster", ["default", "north"])
def test_deployment_when_its_workspace_is_in_several_clusters_then_it_is_deployed_in_each(cluster: str) -> None:
    world = placed_in(cluster, **BOTH)
    world.take(changed(1))
    assert manifest(world, "Application")["spec"]["destination"] == OWN
    assert listed(world, HERE.id) == [OWN]


def test_project_when_its_tenants_engine_is_in_another_cluster_then_it_lists_environments_alone() -> None:
    world = placed_in("north", local=frozenset({"default"}))
    world.take(secret(1), environment(2), changed(3, content=REMOTE))
    check(world, 4)
    (destination,) = listed(world, HERE.id)
    assert destination["name"].startswith("managed-env-")


@pytest.fixture
def agents() -> Agents:
    """Of a tenant in cluster default, whose workspace is in that alone, and that has an environment."""
    world = World(fleet=[HERE, NORTH])
    found = Agents(world)
    world.take(secret(1), environment(2))
    found.settle()
    world.take(changed(3, content=REMOTE))
    found.settle()
    assert OWN in listed(world, HERE.id)
    return found


def test_tenant_when_it_is_moved_to_another_cluster_and_back_then_its_project_is_compiled_anew_in_each(
    agents: Agents,
) -> None:
    world = agents.world
    ordered(world)
    until(world, agents, "pausing")
    assert (OWN in listed(world, HERE.id), OWN in listed(world, NORTH.id)) == (True, False)
    agents.settle()
    assert world.moves[ID].step == "done"
    assert [row.engine_instance_id for row in rows(world, "AppProject")] == [NORTH.id]
    assert OWN not in listed(world, NORTH.id)
    world.take(changed(50, "own", uid="uid-own"))
    agents.settle()
    assert (problem(world, "own"), len(agents.live)) == (NOT_ON_ENGINES_CLUSTER.message, 1)

    ordered(world)
    agents.settle()
    assert (world.moves[ID].step, OWN in listed(world, HERE.id)) == ("done", True)
    assert agents.live == {(HERE.id, "gitopsdepl-uid-1"), (HERE.id, "gitopsdepl-uid-own")}


@pytest.mark.parametrize("uid", ["uid-own", "uid-1"], ids=["a new one", "one that had an environment"])
def test_deployment_when_it_has_no_environment_while_the_source_of_a_move_releases_then_it_is_deployed_in_no_cluster(
    agents: Agents, uid: str
) -> None:
    """The move does not go back any more, and the target's cluster has another namespace of that name, or none."""
    world = agents.world
    move = ordered(world)
    until(world, agents, "releasing")
    name = "web" if uid == "uid-1" else "own"
    world.take(changed(50, name, uid=uid, generation=2))
    agents.settle()
    assert (world.moves[ID].step, problem(world, name)) == ("done", NOT_ON_ENGINES_CLUSTER.message)
    assert agents.live == {(move.target, "gitopsdepl-uid-1")}
    assert manifest(world, "Application")["spec"]["destination"]["namespace"] == "web"


def test_deployment_when_it_has_no_environment_before_the_source_of_a_move_releases_then_the_move_goes_back(
    agents: Agents,
) -> None:
    world = agents.world
    move = ordered(world)
    until(world, agents, "pausing")
    world.take(changed(50, "own", uid="uid-own"))
    agents.settle()
    world.later = world.policy.move_patience
    agents.settle()
    assert world.moves[ID].step == "cancelled"
    assert (move.source, "gitopsdepl-uid-own") in agents.live
