"""A tenant that is too large for one instance: what each of its instances is told; it is one tenant all the same."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from services.common.messages.compiled import RELEASE
from services.common.messages.observation import ObservationEvent
from services.planner.domain.audit import PLACEMENT
from services.planner.domain.events import Event
from services.planner.domain.fleet.placement_view import PlacementView
from services.planner.domain.fleet.rows import Move, MoveStep
from services.planner.domain.ids import resource_id, tenant_id
from services.planner.engines.available import ENGINES
from services.planner.rows.fleet import PlacementCandidate
from tests.unit.planner.fleet.test_moves import BACK, ID, WAY, Agents, settle_by_chance, steps
from tests.unit.planner.given import (
    Failed,
    Removed,
    changed,
    credential,
    environment,
    gone,
    observed,
    resource_gone,
    secret,
    spec,
    status,
    sync_run,
)
from tests.unit.planner.tenant import moved
from tests.unit.planner.world import FLEET, NOW, World

CONNECTIONS = ["AppProject", "ClusterSecret", "ClusterSecret", "RepositorySecret"]


@pytest.fixture
def world() -> World:
    """Three instances, each of which may have three deployments of one tenant."""
    third = replace(FLEET[0], id="engine-3", namespace="argocd-3")
    return World(fleet=[replace(each, capacity=4) for each in (*FLEET, third)])


@pytest.fixture
def agents(world: World) -> Agents:
    """Of a tenant with three deployments in one environment, and two in another one, for which there was no room."""
    world.take(secret(1), environment(2, "dev"), environment(3, "prod"))
    world.take(secret(4, "login", "repository-credential"), credential(5))
    found = Agents(world)
    found.settle()
    for number in (1, 2, 3):
        world.take(deployment(number, "dev"))
    for number in (4, 5):
        world.take(deployment(number, "prod"))
    found.settle()
    return found


def deployment(number: int, environment: str, second: int = 0, generation: int = 1, path: str = "apps/web") -> Event:
    content = spec(destination={"environment": environment, "namespace": "web"})
    content |= {"source": content["source"] | {"path": path}, "type": "manual" if number == 5 else "automated"}
    at = second or 10 + number
    return changed(at, f"web-{number}", uid=f"uid-{number}", content=content, generation=generation)


def own(world: World) -> str:
    (tenant,) = world.tenants.values()
    return tenant.engine_instance_id


def part(world: World) -> str:
    """The other instance that the tenant is on."""
    (found,) = {each.engine_instance_id for each in world.deployments.values()} - {""}
    return found


def free(world: World) -> str:
    """The one that it is not on."""
    (found,) = {each.id for each in world.fleet} - {own(world), part(world)}
    return found


def names(*numbers: int) -> list[str]:
    return [f"gitopsdepl-uid-{number}" for number in numbers]


def on(world: World, instance: str, *, applications: bool = False) -> list[str]:
    """Kinds of what is desired there, or the names of its Applications."""
    rows = [row for row in world.engine.values() if row.engine_instance_id == instance and row.desired == "present"]
    if applications:
        return sorted(row.name for row in rows if row.kind == "Application")
    return sorted(row.kind for row in rows if row.kind != "Application")


def placements(world: World) -> list[tuple[str, str, str]]:
    """Of the audit: instance, action and message."""
    records = (each for each in world.audit_records.values() if each.kind == PLACEMENT)
    return [(each.name, each.action, each.message) for each in records]


def ordered(world: World, source: str, target: str) -> None:
    (tenant,) = world.tenants.values()
    world.moves[ID] = Move(
        id=ID, tenant_id=tenant.id, workspace=tenant.workspace, namespace=tenant.namespace, partition=0, source=source,
        target=target, step="reserved", is_cancelled=False, reported="{}", message="", actor="somebody", ordered_at=NOW,
        step_since=NOW, due_at=NOW,
    )  # fmt: skip


def test_deployment_when_there_is_no_room_for_its_environment_then_it_is_on_another_instance_with_the_others_of_it(
    world: World, agents: Agents
) -> None:
    assert on(world, own(world), applications=True) == names(1, 2, 3)
    assert on(world, part(world), applications=True) == names(4, 5)
    assert on(world, own(world)) == on(world, part(world)) == CONNECTIONS
    assert (on(world, free(world)), agents.deleted) == ([], [])


def test_deployment_when_its_environment_is_there_already_then_it_is_with_it_whatever_room_there_is(
    world: World, agents: Agents
) -> None:
    world.take(deployment(6, "dev", second=50))
    assert names(6)[0] in on(world, own(world), applications=True)


def test_deployment_when_it_names_no_environment_then_it_is_on_the_tenants_own_instance(
    world: World, agents: Agents
) -> None:
    world.take(changed(50, "local", uid="uid-6"))
    assert names(6)[0] in on(world, own(world), applications=True)


@pytest.mark.parametrize(
    "others", [[], [{"accepting": False}], [{"engine_cluster": "far"}], [{"dedicated_to": "team"}], [{"unready": True}]]
)
def test_deployment_when_no_other_instance_may_have_it_then_it_is_on_the_tenants_own(
    others: Sequence[dict[str, object]],
) -> None:
    first = replace(FLEET[0], capacity=1)
    world = World(fleet=[first])
    world.take(secret(1), environment(2, "dev"), environment(3, "prod"), deployment(1, "dev"))
    Agents(world).settle()
    world.fleet = [first, *(replace(FLEET[1], capacity=1, **change) for change in others)]  # type: ignore[arg-type]
    world.take(deployment(2, "prod"))
    assert {each.engine_instance_id for each in world.deployments.values()} == {""}


def test_deployment_when_tenants_are_not_to_be_split_then_only_an_environment_that_has_a_part_already_uses_it(
    world: World, agents: Agents
) -> None:
    world.policy = replace(world.policy, splits_tenants=False)
    world.take(environment(50, "late"))
    agents.settle()
    world.take(deployment(6, "prod", second=60), deployment(7, "late", second=61))
    assert {each.name for each in world.deployments.values() if each.engine_instance_id} == {"web-4", "web-5", "web-6"}


def test_deployment_when_changed_and_deleted_then_the_instance_that_has_it_is_told(
    world: World, agents: Agents
) -> None:
    there = part(world)
    world.take(deployment(4, "dev", second=50, generation=2, path="new"))
    agents.settle()
    (row,) = [row for row in world.engine.values() if row.name == names(4)[0]]
    assert (row.engine_instance_id, json.loads(row.manifest)["spec"]["source"]["path"]) == (there, "new")
    world.take(gone(51, "web-4", uid="uid-4"))
    agents.settle()
    assert (agents.deleted, on(world, there, applications=True)) == (names(4), names(5))


def test_reports_when_they_are_of_an_instance_that_does_not_have_the_deployment_then_they_change_nothing(
    world: World, agents: Agents
) -> None:
    (name,) = names(4)
    before = (dict(world.workspace), dict(world.observed), dict(world.engine))
    told: list[ObservationEvent] = [status(99, sync={"status": "OutOfSync"}), Removed(forced=False)]
    for number, event in enumerate([*told, Failed("x", permanent=True, message="no")]):
        world.take(observed(60 + number, event, instance=own(world), kind="Application", name=name))
    assert (dict(world.workspace), dict(world.observed), dict(world.engine)) == before


def test_credentials_when_they_fail_where_the_tenant_has_a_part_then_what_the_own_instance_found_is_shown(
    world: World, agents: Agents
) -> None:
    before = dict(world.checks)
    agents.bad = part(world)
    world.take(
        secret(60, generation=0, key="k2"), environment(61, "dev", generation=2), environment(62, "prod", generation=2)
    )
    agents.settle()
    assert {each.reason for each in world.checks.values()} == {each.reason for each in before.values()} == {"Succeeded"}


def test_sync_run_when_its_deployment_is_where_the_tenant_has_a_part_then_it_runs_there_once(
    world: World, agents: Agents
) -> None:
    world.take(sync_run(60, deployment="web-5"))
    (order,) = [row for row in world.engine.values() if row.kind == "SyncOperation"]
    assert order.engine_instance_id == part(world)
    for number, phase in enumerate(("Running", "Succeeded")):
        event = moved("now", phase)
        world.take(observed(61 + number, event, instance=part(world), kind=order.kind, name=order.name))
    assert [row for row in world.engine.values() if row.kind == "SyncOperation"] == []
    assert [run.phase for run in world.sync_runs.values()] == ["Succeeded"]


def test_part_when_its_last_deployment_is_gone_then_nothing_of_the_tenant_is_left_there(
    world: World, agents: Agents
) -> None:
    there = part(world)
    world.take(gone(60, "web-4", uid="uid-4"), gone(61, "web-5", uid="uid-5"))
    agents.settle()
    assert {row.engine_instance_id for row in world.engine.values()} == {own(world)} != {there}
    assert sorted(agents.deleted) == names(4, 5)


def test_part_when_its_first_deployment_comes_then_the_audit_says_where_and_no_more_with_later_ones(
    world: World, agents: Agents
) -> None:
    expected = [
        (own(world), "create", f"placed on {own(world)}"),
        (part(world), "create", f"a part placed on {part(world)}"),
    ]
    assert placements(world) == expected
    world.take(deployment(6, "prod", second=50), gone(51, "web-4", uid="uid-4"))
    agents.settle()
    assert placements(world) == expected


def test_parts_when_they_come_at_once_then_the_audit_says_where_each_of_them_is(world: World) -> None:
    world.take(secret(1), environment(2, "dev"), environment(3, "prod"), environment(4, "late"))
    Agents(world).settle()
    named = zip(range(1, 8), ["dev", "dev", "dev", "prod", "prod", "prod", "late"], strict=True)
    world.take(*(deployment(number, name) for number, name in named))
    others = sorted({each.id for each in world.fleet} - {own(world)})
    assert placements(world)[1:] == [(each, "create", f"a part placed on {each}") for each in others]


def test_part_when_its_last_deployment_is_gone_then_the_audit_says_so_and_where_it_is_when_one_comes_again(
    world: World, agents: Agents
) -> None:
    there = part(world)
    world.take(gone(60, "web-4", uid="uid-4"), gone(61, "web-5", uid="uid-5"))
    agents.settle()
    assert placements(world)[2:] == [(there, "delete", f"no part left on {there}")]
    world.take(deployment(6, "prod", second=3000))
    assert placements(world)[3:] == [(part(world), "create", f"a part placed on {part(world)}")]


def test_environment_when_gone_then_the_part_gives_its_copy_up_first_and_leaves_the_account(
    world: World, agents: Agents
) -> None:
    world.take(environment(60, "prod", generation=2, createNewServiceAccount=True))
    agents.settle()
    world.take(resource_gone(61, "GitOpsDeploymentManagedEnvironment", "prod"))
    leaving = [row for row in world.engine.values() if row.desired == "absent"]
    assert [(row.kind, row.engine_instance_id) for row in leaving] == [("ClusterSecret", part(world))]
    assert json.loads(leaving[0].manifest)[RELEASE] is True
    agents.work()
    last = [row for row in world.engine.values() if row.desired == "absent"]
    assert [(row.kind, row.engine_instance_id) for row in last] == [("ClusterSecret", own(world))]
    assert RELEASE not in json.loads(last[0].manifest)
    agents.settle()
    assert not [row for row in world.engine.values() if row.desired == "absent"]


def test_tenant_when_all_of_it_is_deleted_then_nothing_is_left_anywhere(world: World, agents: Agents) -> None:
    delete_all(world)
    agents.settle()
    assert (world.engine, world.tenants, sorted(agents.deleted)) == ({}, {}, names(1, 2, 3, 4, 5))


@pytest.mark.parametrize("seed", range(12))
def test_tenant_when_deleted_and_agents_report_in_any_order_then_nothing_is_left_and_accounts_go_last(
    world: World, agents: Agents, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311
    world.take(environment(60, "prod", generation=2, createNewServiceAccount=True))
    agents.settle()
    events: list[Event] = []
    delete_all(world, events.append)
    chance.shuffle(events)
    for _ in range(300):
        if events and chance.random() < 0.5:
            world.take(events.pop())
        reports = list(agents.reports())
        chance.shuffle(reports)
        for report in reports:
            world.take(report)
        if chance.random() < 0.2:
            world.memory.clear()
        secrets = [row for row in world.engine.values() if row.kind == "ClusterSecret"]
        copied = {row.name for row in secrets if row.engine_instance_id != own(world)} if world.tenants else set()
        deployed = {row.engine_instance_id for row in world.engine.values() if row.kind == "Application"}
        for row in secrets if len(deployed) > 1 else ():
            assert row.desired == "present" or row.name not in copied or row.engine_instance_id != own(world)
        if not world.tenants and not events:
            break
    assert (world.engine, world.tenants, sorted(agents.deleted)) == ({}, {}, names(1, 2, 3, 4, 5))


def delete_all(world: World, take: Callable[[Event], object] | None = None) -> None:
    take = take or world.take
    for number in range(1, 6):
        take(gone(3000 + number, f"web-{number}", uid=f"uid-{number}"))
    for kind, each in (
        ("ManagedEnvironment", "dev"),
        ("ManagedEnvironment", "prod"),
        ("RepositoryCredential", "login"),
    ):
        take(resource_gone(3010, f"GitOpsDeployment{kind}", each))
    for each in ("kubeconfig", "login"):
        take(resource_gone(3020, "Secret", each, f"uid-secret-{each}"))


def moves(world: World) -> dict[str, tuple[str, str]]:
    """Source and target of each move that a split tenant may make."""
    return {
        "own": (own(world), free(world)),
        "part": (part(world), free(world)),
        "back": (part(world), own(world)),
    }


MOVES = ("own", "part", "back")


@pytest.mark.parametrize("way", MOVES)
def test_move_when_it_is_of_what_one_instance_has_then_that_goes_and_the_rest_stays_as_it_is(
    world: World, agents: Agents, way: str
) -> None:
    source, target = moves(world)[way]
    there, staying = on(world, source, applications=True), {each.id for each in world.fleet} - {source, target}
    before = {key: row for key, row in world.engine.items() if row.engine_instance_id in staying}
    had = on(world, target, applications=True)
    ordered(world, source, target)
    agents.settle()
    assert (world.moves[ID].step, steps(world), agents.deleted) == ("done", list(WAY), [])
    assert on(world, target, applications=True) == sorted([*there, *had])
    assert (on(world, target), on(world, source)) == (CONNECTIONS, [])
    assert {key: row for key, row in world.engine.items() if row.engine_instance_id in staying} == before
    assert {each.engine_instance_id for each in world.deployments.values()} == {
        "own": {"", part(world)} if way == "own" else set(), "part": {"", target}, "back": {""}
    }[way]  # fmt: skip


@pytest.mark.parametrize("way", MOVES)
def test_move_when_it_brings_a_part_or_takes_one_away_then_its_own_rows_of_the_audit_are_all_that_say_so(
    world: World, agents: Agents, way: str
) -> None:
    before = placements(world)
    ordered(world, *moves(world)[way])
    agents.settle()
    assert (steps(world), placements(world)) == (list(WAY), before)


@pytest.mark.parametrize("way", MOVES)
@pytest.mark.parametrize("seed", range(8))
def test_move_when_reports_come_in_any_order_and_more_than_once_then_the_end_is_the_same(
    world: World, agents: Agents, way: str, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311
    source, target = moves(world)[way]
    ordered(world, source, target)
    settle_by_chance(world, agents, chance, rounds=900)
    assert (steps(world), on(world, source), agents.deleted) == (list(WAY), [], [])
    assert sorted(name for _, name in agents.live) == names(1, 2, 3, 4, 5)


@pytest.mark.parametrize("way", MOVES)
def test_move_when_other_instances_tell_again_what_they_have_while_the_target_is_prepared_then_it_gets_on(
    world: World, agents: Agents, way: str
) -> None:
    """What is there has the same names, and other digests."""
    source, target = moves(world)[way]
    ordered(world, source, target)
    until(world, agents, "preparing")
    for event in list(agents.reports()):
        world.take(event)
        agents.start_again(but=target)
        agents.work()
    agents.settle()
    assert (steps(world), on(world, source)) == (list(WAY), [])


@pytest.mark.parametrize("way", MOVES)
@pytest.mark.parametrize("step", ["preparing", "pausing"])
def test_move_when_cancelled_then_everything_is_as_before(world: World, agents: Agents, way: str, step: str) -> None:
    before = {key: (row.desired, row.digest) for key, row in world.engine.items()}
    ordered(world, *moves(world)[way])
    until(world, agents, step)
    world.moves[ID] = replace(world.moves[ID], is_cancelled=True, message="an operator has cancelled it")
    world.memory.clear()
    agents.settle()
    assert steps(world)[-2:] == list(BACK)
    assert {key: (row.desired, row.digest) for key, row in world.engine.items()} == before


@pytest.mark.parametrize("way", MOVES)
@pytest.mark.parametrize("step", WAY[:-1])
def test_tenant_when_deleted_at_any_step_then_nothing_is_left_anywhere(
    world: World, agents: Agents, way: str, step: str
) -> None:
    ordered(world, *moves(world)[way])
    until(world, agents, step)
    delete_all(world)
    agents.settle()
    assert (world.engine, world.tenants, sorted(agents.deleted)) == ({}, {}, names(1, 2, 3, 4, 5))


@pytest.mark.parametrize("step", ["ordered", "reserved"])
def test_deployment_when_a_move_of_its_tenant_has_not_begun_then_no_other_instance_gets_a_part(
    world: World, step: MoveStep
) -> None:
    """The tenant's planner has not heard of the move."""
    world.take(secret(1), environment(2, "dev"), environment(3, "prod"), environment(4, "late"))
    agents = Agents(world)
    agents.settle()
    world.take(*(deployment(number, "dev") for number in (1, 2, 3)))
    ordered(world, own(world), next(each.id for each in world.fleet if each.id != own(world)))
    world.moves[ID] = replace(world.moves[ID], step=step, due_at=None)
    world.take(deployment(4, "prod"))
    assert {each.engine_instance_id for each in world.deployments.values()} == {""}
    world.moves[ID] = replace(world.moves[ID], step="cancelled")
    world.take(deployment(5, "late"))
    assert on(world, part(world), applications=True) == names(5)


def split_again(world: World, agents: Agents) -> str:
    """Another part, on the instance that the tenant was not on."""
    there = free(world)
    world.take(deployment(6, "prod", second=40), environment(41, "late"))
    agents.settle()
    world.take(deployment(7, "late", second=42))
    agents.settle()
    assert on(world, there, applications=True) == names(7)
    return there


def in_far_cluster(world: World) -> str:
    """The instance that the tenant is not on: it is in another cluster than the others."""
    there = free(world)
    world.fleet = [replace(each, engine_cluster="far") if each.id == there else each for each in world.fleet]
    return there


SPLIT_SINCE: dict[str, tuple[Callable[[World, Agents], tuple[str, str]], str]] = {
    "to a part": (lambda world, _: (own(world), part(world)), "has a part of tenant local/team-a already"),
    "of a part to another": (
        lambda world, agents: (part(world), split_again(world, agents)),
        "has a part of tenant local/team-a already",
    ),
    "to another cluster": (
        lambda world, _: (own(world), in_far_cluster(world)),
        "is in cluster far, and the tenant has parts on several instances of",
    ),
    "of a part to another cluster": (
        lambda world, _: (part(world), in_far_cluster(world)),
        "is in cluster far, and the tenant has parts on several instances of",
    ),
}


@pytest.mark.parametrize(("way", "rule"), SPLIT_SINCE.values(), ids=SPLIT_SINCE)
def test_move_when_its_tenant_was_split_since_so_that_it_would_be_refused_then_it_ends_before_it_begins(
    world: World, agents: Agents, way: Callable[[World, Agents], tuple[str, str]], rule: str
) -> None:
    source, target = way(world, agents)
    before = {key: (row.desired, row.digest) for key, row in world.engine.items()}
    ordered(world, source, target)
    agents.settle()
    move = world.moves[ID]
    assert (steps(world), move.is_cancelled, move.due_at, agents.deleted) == (["cancelled"], True, None, [])
    assert rule in move.message
    assert {key: (row.desired, row.digest) for key, row in world.engine.items()} == before


def begun_to_its_part(world: World, agents: Agents) -> None:
    """A planner that did not ask has begun to move what is on the tenant's own instance to where it has a part."""
    there = part(world)
    ordered(world, own(world), there)
    world.moves[ID] = replace(world.moves[ID], step="preparing")
    world.memory.clear()
    agents.start_again(but="")


def test_move_when_its_target_has_a_part_all_the_same_then_it_goes_back_and_the_part_stays(
    world: World, agents: Agents
) -> None:
    before = {key: (row.desired, row.digest) for key, row in world.engine.items()}
    begun_to_its_part(world, agents)
    world.moves[ID] = replace(world.moves[ID], is_cancelled=True)
    agents.settle()
    assert steps(world) == list(BACK)
    assert {key: (row.desired, row.digest) for key, row in world.engine.items()} == before


def test_move_when_its_target_has_a_part_all_the_same_then_that_is_none_any_more(world: World, agents: Agents) -> None:
    begun_to_its_part(world, agents)
    agents.settle()
    assert (world.moves[ID].step, agents.deleted) == ("done", [])
    assert {each.engine_instance_id for each in world.deployments.values()} == {""}
    assert on(world, own(world), applications=True) == names(1, 2, 3, 4, 5)
    world.take(environment(60, "prod", generation=2, createNewServiceAccount=True))
    agents.settle()
    world.take(resource_gone(61, "GitOpsDeploymentManagedEnvironment", "prod"))
    agents.settle()
    assert on(world, own(world)) == ["AppProject", "ClusterSecret", "RepositorySecret"]


@pytest.mark.parametrize("is_gone", [False, True])
def test_own_instance_when_rows_call_it_a_part_then_they_do_no_more_and_credentials_go_with_their_environment(
    world: World, is_gone: bool
) -> None:
    """``is_gone``: a planner for which it was a part has let the environment go, and kept its credentials."""
    world.take(secret(1), environment(2, "dev"), deployment(1, "dev"))
    agents = Agents(world)
    agents.settle()
    here = own(world)
    world.deployments = {key: replace(row, engine_instance_id=here) for key, row in world.deployments.items()}
    if is_gone:
        gone_before = (each for each in world.resources.values() if each.name == "dev")
        world.resources |= {each.id: replace(each, present=False) for each in gone_before}
    world.memory.clear()
    world.take(deployment(1, "dev", second=50, generation=2, path="new"))
    assert {each.engine_instance_id for each in world.deployments.values()} == {""}
    if not is_gone:
        world.take(resource_gone(60, "GitOpsDeploymentManagedEnvironment", "dev"))
    agents.settle()
    assert on(world, here) == ["AppProject"]


def test_deployment_when_a_rebuild_brings_its_tenant_to_where_it_had_a_part_then_it_is_on_its_own_instance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = FLEET
    found = {tenant_id("local", "team-a"): first.id, resource_id("local", "uid-1"): first.id}
    found |= {resource_id("local", "uid-2"): second.id, resource_id("local", "uid-3"): "retired"}
    view = PlacementView({each.id: each for each in FLEET}, ENGINES, placements=found)
    monkeypatch.setattr(World, "view", view)
    world = World()
    world.take(secret(1), environment(2, "dev"))
    Agents(world).settle()
    world.take(*(deployment(number, "dev") for number in (1, 2, 3, 4)))
    known = {each.name: each.engine_instance_id for each in world.deployments.values()}
    assert known == {"web-1": "", "web-2": second.id, "web-3": "", "web-4": ""}


def until(world: World, agents: Agents, step: str) -> None:
    for _ in range(50):
        if world.moves[ID].step == step:
            return
        if not world.take_due_moves():
            agents.work()
    raise AssertionError(f"{world.moves[ID].step}, never {step}")


@pytest.mark.parametrize("way", ["own", "part"])
def test_part_when_its_instance_is_lost_then_it_is_on_the_target_and_given_up_when_the_source_is_back(
    world: World, agents: Agents, way: str
) -> None:
    source, target = moves(world)[way]
    ordered(world, source, target)
    world.moves[ID] = replace(world.moves[ID], path="forced", actor="remediation")
    world.fleet = [lost(each) if each.id == source else each for each in world.fleet]
    agents.silent = source
    agents.lost = {place for place in agents.live if place[0] == source}
    agents.live -= agents.lost
    agents.settle()
    assert (world.moves[ID].step, world.moves[ID].path) == ("withdrawing", "fenced")
    world.fleet = [replace(each, is_down=False, is_out_of_reach=False) for each in world.fleet]
    agents.silent = ""
    agents.live |= agents.lost
    agents.settle()
    assert (world.moves[ID].step, agents.deleted, on(world, source)) == ("done", [], [])
    assert sorted(name for _, name in agents.live) == names(1, 2, 3, 4, 5)


def lost(instance: PlacementCandidate) -> PlacementCandidate:
    return replace(instance, is_down=True, is_out_of_reach=True)
