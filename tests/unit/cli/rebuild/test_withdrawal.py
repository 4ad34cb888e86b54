"""What agents and watchers are told of what a sweep withdraws: what somebody else has, too, stays."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import fields

import pytest

from services.agent.objects.desired_objects import is_released
from services.cli.rebuild.placements import placements_claimed
from services.cli.rebuild.streamed_topics import claim_of
from services.cli.rebuild.withdrawal import _by_object, _uid_to_remove, departing
from services.common.json_values import digest
from services.common.messages import EngineResource, WorkspaceObject
from services.planner.rows.compiled import EngineObjectKey
from tests.unit.cli.rebuild.compiled_rows import compiled
from tests.unit.planner.fleet.test_moves import Agents, ordered, until
from tests.unit.planner.given import changed, credential, environment, secret
from tests.unit.planner.tenant import REMOTE
from tests.unit.planner.world import World


@pytest.mark.parametrize(("kind", "uid"), [("GitOpsDeployment", "uid-1"), ("DeploymentTarget", "")])
def test_sweep_when_it_withdraws_an_object_then_none_to_delete_is_named_but_a_child(kind: str, uid: str) -> None:
    """A patch names the uid of a user's own object."""
    assert _uid_to_remove(compiled(WorkspaceObject, kind=kind, uid="uid-1")) == {"uid": uid}


def streamed(step: str) -> tuple[list[EngineResource], str, str]:
    """What the topics hold while a tenant's move is at ``step``; and its source and target."""
    world = World()
    agents = Agents(world)
    world.take(secret(1), environment(2, createNewServiceAccount=True))
    world.take(secret(3, "login", "repository-credential"), credential(4))
    agents.settle()
    world.take(changed(5, content=REMOTE))
    agents.settle()
    move = ordered(world)
    until(world, agents, step)
    names = [field.name for field in fields(EngineResource) if field.name != "deleted"]
    rows = [{name: getattr(row, name) for name in names} for row in world.engine.values()]
    return [EngineResource(**row, deleted=False) for row in rows], move.source, move.target


def keys_of(rows: Iterable[EngineResource]) -> set[EngineObjectKey]:
    return {(row.kind, row.name) for row in rows}


@pytest.mark.parametrize(
    ("step", "is_target_left"),
    [("preparing", True), ("pausing", True), ("releasing", True), ("adopting", False)],
)
def test_sweep_when_a_tenant_was_being_moved_then_the_instance_that_does_not_have_it_leaves_the_account_to_the_other(
    step: str, *, is_target_left: bool
) -> None:
    rows, source, target = streamed(step)
    (placed,) = placements_claimed(claim for row in rows if (claim := claim_of(row)) is not None).tenants.values()
    wanted = [row for row in rows if row.engine_instance_id == placed]
    unknown_rows = [row for row in rows if row.engine_instance_id != placed]
    assert {row.engine_instance_id for row in unknown_rows} == {target if is_target_left else source}
    assert {row.kind for row in unknown_rows} == {"AppProject", "ClusterSecret", "RepositorySecret"}
    assert not any(map(is_released, unknown_rows)), "by the topics alone an agent would remove the account"
    told = [departing(row, keys_of(wanted)) for row in unknown_rows]
    assert {row.kind for row in told if is_released(row)} == {"ClusterSecret", "RepositorySecret"}
    assert [row.identity for row in told] == [row.identity for row in unknown_rows]
    assert all(row.digest == digest(row.manifest) for row in told)
    (cluster,) = [json.loads(row.manifest)["recipe"] for row in told if row.kind == "ClusterSecret"]
    assert cluster["createServiceAccount"]


def test_sweep_when_no_instance_wants_an_object_any_more_then_what_was_made_with_it_goes_too() -> None:
    rows, *_ = streamed("preparing")
    others = {(kind, f"{name}-of-another") for kind, name in keys_of(rows)}
    assert [departing(row, others) for row in rows] == rows


def test_sweep_when_another_instance_has_an_application_then_what_it_has_deployed_stays() -> None:
    rows, *_ = streamed("preparing")
    (application,) = [row for row in rows if row.kind == "Application"]
    assert not is_released(application)
    assert is_released(departing(application, keys_of(rows)))


def test_order_to_an_agent_when_it_is_withdrawn_then_it_stays_as_it_is() -> None:
    order = compiled(EngineResource, kind="OrphanRemoval", name="one", manifest="{}")
    assert departing(order, {("OrphanRemoval", "one")}) is order


def test_object_when_reported_gone_then_its_key_is_found_by_instance_kind_and_name() -> None:
    key, other = ("one", "Application", "argocd", "app-1"), ("two", "Application", "argocd", "app-1")
    found = _by_object([key, other])
    assert found.get(("one", "Application", "app-1")) == [key]
    assert found.get(("one", "AppProject", "app-1")) is None
