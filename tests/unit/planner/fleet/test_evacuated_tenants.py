"""A tenant that leaves an instance which is down: what is not waited for, and what is given up when it is back."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from services.common.messages.compiled import AT_ONCE, RELEASE
from services.planner.domain.fleet.moves.moves import LOOK_AGAIN
from services.planner.domain.fleet.rows import HANDED_OVER, ON_SOURCE, Move, MovePath, MoveStep
from tests.unit.planner.fleet.test_moves import (
    ID,
    PATIENCE,
    Agents,
    agents,
    instances,
    moved_uncompared,
    ordered,
    shown,
    steps,
    until,
)
from tests.unit.planner.given import changed, gone, observed, sync_run
from tests.unit.planner.tenant import MANUAL, manifest, moved, operation, row, rows, says
from tests.unit.planner.world import NOW, World

__all__ = ["agents"]

NEXT = UUID(int=8)
FENCED = ("preparing", "adopting", "withdrawing", "done")


def evacuated(world: World, agents: Agents, *, lost: bool) -> Move:
    """The only tenant is to leave its instance, whose Argo CD is down; if ``lost``, nobody can reach it, either."""
    move = replace(ordered(world), path="forced", actor="remediation")
    world.moves[ID] = move
    if lost:
        lose(world, agents)
    return move


def force(world: World) -> None:
    """The source is evacuated, and its tenant on its way already."""
    world.moves[ID] = replace(world.moves[ID], path="forced", due_at=NOW + world.later)


def lose(world: World, agents: Agents) -> None:
    """Nobody can do anything at the source from now on, and its Argo CD does nothing."""
    source = world.moves[ID].source
    world.fleet = tuple(replace(each, is_down=True, is_out_of_reach=each.id == source) for each in world.fleet)
    agents.silent = source
    agents.lost = {place for place in agents.live if place[0] == source}
    agents.live -= agents.lost


def find(world: World, agents: Agents) -> None:
    """The source is back, as it was left."""
    world.fleet = tuple(replace(each, is_down=False, is_out_of_reach=False) for each in world.fleet)
    agents.silent = ""
    agents.live |= agents.lost


def lose_target(world: World, agents: Agents, step: str) -> Move:
    """The move has come to ``step`` when nobody can do anything at its target any more; a third instance is there."""
    move = ordered(world)
    world.fleet = (*world.fleet, replace(world.fleet[0], id="engine-3", namespace="argocd-3"))
    until(world, agents, step)
    agents.silent = move.target
    agents.settle()
    world.fleet = tuple(replace(each, is_down=each.id == move.target) for each in world.fleet)
    return world.moves[ID]


def move_on(world: World, agents: Agents, target: str) -> Move:
    """What becomes of a move whose target is evacuated: it is over, and another takes its place."""
    known = world.moves[ID]
    assert known.step == "adopting"
    world.moves[ID] = replace(known, step="done", message="its target is down")
    following = replace(
        known, id=NEXT, source=known.target, target=target, step="reserved", path="forced", reported="{}", due_at=NOW
    )
    world.moves[NEXT] = following
    world.take_due_moves()
    assert world.moves[NEXT].step == "preparing"
    return following


def reach(world: World, agents: Agents, *, lost: str = "") -> None:
    """Which instances are out of reach from now on: none but those that are ``lost``, separated by blanks."""
    world.fleet = tuple(replace(each, is_out_of_reach=each.id in lost.split()) for each in world.fleet)
    agents.silent = lost


def applications(world: World, instance: str) -> list[tuple[str, bool, bool]]:
    """What is wanted of each Application there, whether it is released, and whether at once."""
    rows = [each for each in world.engine.values() if (each.kind, each.engine_instance_id) == ("Application", instance)]
    texts = [(row.desired, json.loads(row.manifest)) for row in rows]
    return [(desired, text.get(RELEASE) is True, text.get(AT_ONCE) is True) for desired, text in texts]


def test_tenant_when_its_source_is_lost_then_it_is_on_the_target_and_the_source_gives_it_up_when_it_is_back(
    world: World, agents: Agents
) -> None:
    move = evacuated(world, agents, lost=True)
    agents.settle()
    here = world.moves[ID]
    assert (here.step, here.path, len(agents.live)) == ("withdrawing", "fenced", 2)
    assert {place for place, _ in agents.live} == {move.target}
    assert applications(world, move.source) == [("absent", True, True)] * 2
    assert shown(world) == {"sync": "Synced", "health": "Healthy"}
    find(world, agents)
    agents.settle()
    assert (steps(world), instances(world)) == ([*FENCED], {move.target})
    assert ({place for place, _ in agents.live}, agents.deleted) == ({move.target}, [])


@pytest.mark.parametrize("path", ["whole", "forced"])
@pytest.mark.parametrize("step", ON_SOURCE)
def test_tenant_when_its_source_is_lost_in_any_step_then_the_move_goes_on_without_it_whoever_has_ordered_it(
    world: World, agents: Agents, step: MoveStep, path: MovePath
) -> None:
    move = evacuated(world, agents, lost=False) if path == "forced" else ordered(world)
    until(world, agents, step)
    lose(world, agents)
    if path == "whole":
        agents.settle()
        assert world.moves[ID].step not in HANDED_OVER, "its source may be back in a moment"
        force(world)
    world.later += timedelta(seconds=5)
    agents.settle()
    assert (world.moves[ID].step, world.moves[ID].path) == ("withdrawing", "fenced")
    find(world, agents)
    agents.settle()
    assert (world.moves[ID].step, agents.deleted) == ("done", [])
    assert {place for place, _ in agents.live} == {move.target}


def test_tenant_when_its_source_is_lost_then_what_it_changes_is_deployed_and_what_it_deletes_is_deleted_by_the_target(
    world: World, agents: Agents
) -> None:
    move = evacuated(world, agents, lost=True)
    agents.settle()
    world.take(changed(30, content=MANUAL), gone(31, "other", uid="uid-2"))
    agents.settle()
    assert agents.deleted == ["gitopsdepl-uid-2"]
    assert applications(world, move.source) == [("absent", True, True)] * 2
    find(world, agents)
    agents.settle()
    assert (world.moves[ID].step, agents.deleted) == ("done", ["gitopsdepl-uid-2"])
    assert agents.live == {(move.target, "gitopsdepl-uid-1")}


def test_tenant_when_its_source_is_down_but_can_be_reached_then_its_sync_runs_are_not_waited_for(
    world: World, agents: Agents
) -> None:
    world.take(sync_run(20, "other"))
    move = evacuated(world, agents, lost=False)
    seen = []
    for _ in range(40):
        seen += applications(world, move.source)
        agents.work()
        world.take_due_moves()
    assert world.moves[ID].step == "done"
    assert ("present", True, True) in seen
    assert agents.deleted == []


RELEASED_RUNS: dict[str, list[bool]] = {"": [False], "Running": [True], "Succeeded": []}
"""By what a source tells of a run before its Application is gone: whether it has begun by the target's order."""


@pytest.mark.parametrize(("phase", "expected"), RELEASED_RUNS.items(), ids=["nothing", "that it was given", "its end"])
def test_sync_run_when_its_source_can_be_reached_then_the_target_starts_it_unless_that_has_told_of_it_before_it_let_go(
    world: World, agents: Agents, phase: str, expected: list[bool]
) -> None:
    world.take(sync_run(20, deployment="other"))
    move = evacuated(world, agents, lost=False)
    until(world, agents, "releasing")
    order = row(world, "SyncOperation")
    assert order.engine_instance_id == move.source
    told = [observed(900, moved("now", phase), instance=move.source, kind=order.kind, name=order.name)] if phase else []
    world.take(*told, *agents.reports())
    agents.settle()
    orders = rows(world, "SyncOperation")
    assert [each.engine_instance_id for each in orders] == [move.target] * len(expected)
    assert ["begun" in json.loads(each.manifest)["operation"] for each in orders] == expected


@pytest.mark.parametrize("phase", ["", "Running"])
def test_sync_run_when_its_source_is_lost_before_it_has_told_the_end_then_it_is_not_started_again_and_has_an_end(
    world: World, agents: Agents, phase: str
) -> None:
    """Nobody knows whether it has begun if nothing was told of it: the target starts nothing, and says it ended."""
    world.take(sync_run(20, deployment="other"))
    source = row(world, "SyncOperation").engine_instance_id
    if phase:
        says(world, 21, moved("now", phase), "SyncOperation")
    move = evacuated(world, agents, lost=True)
    agents.settle()
    order = row(world, "SyncOperation")
    assert (source, order.engine_instance_id) == (move.source, move.target)
    assert manifest(world, "SyncOperation")["operation"]["begun"] is True
    says(world, 4000, moved("now", "Error", message="the Application was deleted"), "SyncOperation")
    assert (rows(world, "SyncOperation"), operation(world, "now")["phase"]) == ([], "Error")


def test_sync_run_when_it_was_not_ordered_of_a_source_that_is_lost_then_the_target_starts_it_once(
    world: World, agents: Agents
) -> None:
    evacuated(world, agents, lost=False)
    until(world, agents, "pausing")
    world.take(sync_run(20, deployment="other"))
    lose(world, agents)
    world.later += timedelta(seconds=5)
    agents.settle()
    assert "begun" not in manifest(world, "SyncOperation")["operation"]


def test_tenant_when_its_source_goes_down_while_it_is_released_then_that_is_not_waited_for_any_more(
    world: World, agents: Agents
) -> None:
    move = ordered(world)
    until(world, agents, "releasing")
    assert applications(world, move.source) == [("present", True, False)] * 2
    force(world)
    world.take_due_moves()
    assert applications(world, move.source) == [("present", True, True)] * 2
    agents.settle()
    assert (world.moves[ID].step, world.moves[ID].path, agents.deleted) == ("done", "forced", [])


def test_tenant_when_an_operator_has_ordered_its_move_and_the_source_is_not_evacuated_then_it_goes_back(
    world: World, agents: Agents
) -> None:
    ordered(world)
    lose(world, agents)
    agents.settle()
    assert world.moves[ID].step == "pausing"
    world.later = timedelta(minutes=11)
    find(world, agents)
    agents.silent = world.moves[ID].source
    agents.settle()
    assert world.moves[ID].step in ("cancelling", "cancelled")


def test_tenant_when_its_target_is_lost_before_it_is_ready_then_the_move_goes_back_and_nothing_is_lost(
    world: World, agents: Agents
) -> None:
    move = evacuated(world, agents, lost=False)
    agents.silent = move.target
    agents.settle()
    world.moves[ID] = replace(world.moves[ID], is_cancelled=True, message="engine instance engine-2 is down")
    world.take_due_moves()
    agents.silent = ""
    agents.settle()
    assert (world.moves[ID].step, instances(world), agents.deleted) == ("cancelled", {move.source}, [])


def test_tenant_when_it_is_deleted_while_its_source_is_lost_then_the_target_deletes_all_and_the_source_gives_it_up(
    world: World, agents: Agents
) -> None:
    move = evacuated(world, agents, lost=True)
    agents.settle()
    world.take(gone(30), gone(31, "other", uid="uid-2"))
    agents.settle()
    assert sorted(agents.deleted) == ["gitopsdepl-uid-1", "gitopsdepl-uid-2"]
    find(world, agents)
    agents.settle()
    assert (agents.live, len(agents.deleted)) == (set(), 2)
    assert {row.kind for row in world.engine.values() if row.engine_instance_id == move.source} == set()


@pytest.mark.parametrize("back", [False, True], ids=["to a third instance", "back to its source"])
@pytest.mark.parametrize("step", ["releasing", "adopting"])
def test_tenant_when_its_target_is_lost_after_its_source_has_given_it_up_then_it_is_on_another_and_nothing_is_deleted(
    world: World, agents: Agents, step: str, back: bool
) -> None:
    move = lose_target(world, agents, step)
    following = move_on(world, agents, move.source if back else "engine-3")
    reach(world, agents, lost=move.target)
    agents.settle()
    assert (world.moves[NEXT].step, world.moves[NEXT].path) == ("withdrawing", "fenced")
    assert agents.live == {(following.target, "gitopsdepl-uid-1"), (following.target, "gitopsdepl-uid-2")}
    assert shown(world) == {"sync": "Synced", "health": "Healthy"}
    reach(world, agents)
    agents.settle()
    assert (world.moves[NEXT].step, instances(world), agents.deleted) == ("done", {following.target}, [])
    assert {place for place, _ in agents.live} == {following.target}


def test_tenant_when_its_target_is_down_and_can_be_reached_then_that_gives_it_up_before_another_has_it(
    world: World, agents: Agents
) -> None:
    move = lose_target(world, agents, "adopting")
    move_on(world, agents, "engine-3")
    reach(world, agents)
    agents.settle()
    assert (world.moves[NEXT].step, world.moves[NEXT].path) == ("done", "forced")
    assert (instances(world), agents.deleted) == ({"engine-3"}, [])
    assert move.target not in {place for place, _ in agents.live}


@pytest.mark.parametrize("is_lost", [True, False])
@pytest.mark.parametrize("step", ["adopting", "preparing"])
def test_deployment_when_deleted_while_the_target_is_lost_then_what_it_deployed_goes_once(
    world: World, agents: Agents, step: str, is_lost: bool
) -> None:
    """Also if that is back before the next one has the tenant: it never had the Application, and removes nothing."""
    move = lose_target(world, agents, "adopting")
    if step == "adopting":
        world.take(gone(3000))
    move_on(world, agents, "engine-3")
    reach(world, agents, lost=move.target)
    if step == "preparing":
        world.take(gone(3000))
    reach(world, agents, lost=move.target if is_lost else "")
    agents.settle()
    assert agents.deleted == ["gitopsdepl-uid-1"]
    reach(world, agents)
    agents.settle()
    assert (world.moves[NEXT].step, agents.deleted) == ("done", ["gitopsdepl-uid-1"])
    assert agents.live == {("engine-3", "gitopsdepl-uid-2")}


def test_move_when_its_target_is_down_then_it_ends_by_no_time_but_once_the_target_is_back(
    world: World, agents: Agents
) -> None:
    """Another one may have to take the tenant on, from where it never arrived."""
    move = ordered(world)
    agents.hanging = "gitopsdepl-uid-1"
    until(world, agents, "adopting")
    world.fleet = tuple(replace(each, is_down=each.id == move.target) for each in world.fleet)
    world.later = 2 * PATIENCE
    agents.settle()
    assert world.moves[ID].step == "adopting"
    world.fleet = tuple(replace(each, is_down=False) for each in world.fleet)
    world.later += LOOK_AGAIN
    agents.settle()
    assert world.moves[ID].step == "done"


def test_deployment_when_deleted_where_it_was_never_compared_then_an_evacuation_does_not_bring_it_back(
    world: World, agents: Agents
) -> None:
    """The engine has the Application, and is at its deletion."""
    move = moved_uncompared(world, agents)
    agents.silent = move.target
    world.take(gone(3000))
    following = replace(move, id=NEXT, source=move.target, target=move.source, path="forced", due_at=NOW)
    world.moves[NEXT] = following
    world.take_due_moves()
    assert world.moves[NEXT].step == "preparing"
    assert ("absent", False, False) in applications(world, move.target)


def test_status_when_the_move_from_a_target_that_was_lost_goes_back_then_the_last_one_stays_until_there_is_another(
    world: World, agents: Agents
) -> None:
    move = lose_target(world, agents, "adopting")
    move_on(world, agents, "engine-3")
    world.moves[NEXT] = replace(world.moves[NEXT], is_cancelled=True, message="engine instance engine-3 is down")
    world.take_due_moves()
    agents.settle()
    assert (world.moves[NEXT].step, shown(world)) == ("cancelled", {"sync": "Synced", "health": "Healthy"})
    reach(world, agents)
    while agents.work():
        assert shown(world) == {"sync": "Synced", "health": "Healthy"}
    assert (instances(world), agents.deleted) == ({move.target}, [])


def test_tenant_when_both_instances_of_its_move_are_lost_then_each_gives_it_up_when_it_is_back(
    world: World, agents: Agents
) -> None:
    move = evacuated(world, agents, lost=True)
    world.fleet = (*world.fleet, replace(world.fleet[0], id="engine-3", namespace="argocd-3", is_down=False))
    until(world, agents, "adopting")
    reach(world, agents, lost=f"{move.source} {move.target}")
    move_on(world, agents, "engine-3")
    agents.settle()
    assert {place for place, _ in agents.live} == {"engine-3"}
    reach(world, agents, lost=move.source)
    agents.settle()
    assert (world.moves[NEXT].step, instances(world)) == ("done", {move.source, "engine-3"})
    find(world, agents)
    agents.settle()
    assert (instances(world), agents.deleted) == ({"engine-3"}, [])
    assert {place for place, _ in agents.live} == {"engine-3"}
