"""A tenant that is moved: what the two engines are told, in which order, whatever happens in between."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from services.common.json_values import canonical
from services.common.messages.compiled import RELEASE
from services.common.messages.observation import ObservationEvent
from services.kinds.shared.api_group import FINALIZER
from services.kinds.sync_run.catalogue import TERMINATED_FOR_MOVE
from services.kinds.sync_run.model import SYNC_RUN
from services.planner.domain.events import Event
from services.planner.domain.fleet.moves.moves import LONGEST, NUMBERS
from services.planner.domain.fleet.rows import Move
from services.planner.rows.compiled import EngineRow
from tests.unit.planner.given import (
    SYNCED,
    Applied,
    Checked,
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
from tests.unit.planner.tenant import MANUAL, REMOTE, moved
from tests.unit.planner.world import NOW, World

ID = UUID(int=7)
PATIENCE, SECOND = timedelta(minutes=10), timedelta(seconds=1)
TERMINATED = TERMINATED_FOR_MOVE.message
WAY = ("preparing", "pausing", "releasing", "adopting", "withdrawing", "done")
BACK = ("cancelling", "cancelled")
HEALTHY = {"sync": SYNCED, "health": {"status": "Healthy"}}
OUT_OF_SYNC = {"sync": {"status": "OutOfSync"}, "health": {"status": "Healthy"}}


@dataclass
class Agents:
    """What both engines hold, and what their agents have still to report of it."""

    world: World
    live: set[tuple[str, str]] = field(default_factory=set)
    """Instance and name of Applications that exist."""
    deleted: list[str] = field(default_factory=list)
    """Applications that went with all that they had deployed."""
    second: int = 1000
    silent: str = ""
    """Instances whose agents do nothing, separated by blanks."""
    bad: str = ""
    """The instance where no credentials work."""
    unchecked: bool = False
    """No agent gets to credentials before they change again."""
    undeleted: str = ""
    """The instance where no deletion comes to its end."""
    hanging: str = ""
    """The Application that no engine comes to compare any more."""
    lost: set[tuple[str, str]] = field(default_factory=set)
    """Applications of an instance that does nothing, and cannot be reached."""
    _done: dict[tuple[str, ...], str] = field(default_factory=dict)

    def work(self) -> bool:
        """Carry out rows, one report at a time; returns whether there was anything to do."""
        events = list(self.reports())
        for event in events:
            self.world.take(event)
        return bool(events)

    def reports(self) -> Iterator[Event]:
        """What is to be reported of rows that are new."""
        for row in list(self.world.engine.values()):
            key = (row.engine_instance_id, row.kind, row.name)
            state = f"{row.desired} {row.digest}"
            if row.engine_instance_id not in self.silent.split() and self._done.get(key) != state:
                self._done[key] = state
                for event in self._carried_out(row):
                    self.second += 1
                    yield observed(self.second, event, instance=row.engine_instance_id, kind=row.kind, name=row.name)
        self._done = {key: known for key, known in self._done.items() if key in self._keys()}

    def start_again(self, but: str) -> None:
        """Agents that start tell again what they have found of projects, clusters and repositories: all but one's."""
        self._done = {key: state for key, state in self._done.items() if key[0] == but or key[1] == "Application"}

    def _keys(self) -> set[tuple[str, ...]]:
        return {(row.engine_instance_id, row.kind, row.name) for row in self.world.engine.values()}

    def _carried_out(self, row: EngineRow) -> Iterator[ObservationEvent]:
        place = (row.engine_instance_id, row.name)
        assert json.loads(row.manifest)["metadata"]["namespace"] == row.namespace
        if row.kind == "Application":
            yield from self._application(row, place)
        elif row.desired == "absent":
            yield Removed(forced=False)
        elif row.kind.endswith("Secret"):
            if self.unchecked:
                return
            bad = row.engine_instance_id == self.bad
            yield Checked(row.digest, *(("InvalidCredentials", "no") if bad else ("Succeeded", "")))
        else:
            yield Applied(row.digest)

    def _application(self, row: EngineRow, place: tuple[str, str]) -> Iterator[ObservationEvent]:
        is_released = json.loads(row.manifest).get(RELEASE) is True
        if row.desired == "absent" and row.engine_instance_id == self.undeleted:
            return
        if row.desired == "absent" or is_released:
            if place in self.live and not is_released:
                self.deleted.append(row.name)
            self.live.discard(place)
            yield Removed(forced=False)
            return
        is_new = place not in self.live
        self.live.add(place)
        assert [name for _, name in self.live].count(row.name) == 1, "two Argo CDs would deploy it"
        yield Applied(row.digest)
        if is_new:
            yield status(1, conditions=[{"type": "InvalidSpecError", "message": "the cluster is not known yet"}])
        if is_new and row.name != self.hanging:
            yield status(2, **HEALTHY)

    def settle(self) -> None:
        """Until there is nothing left to do."""
        for _ in range(100):
            worked = self.work()
            if not self.world.take_due_moves() and not worked:
                return
        raise AssertionError("it never comes to rest")


def target_of(world: World) -> str:
    (tenant,) = world.tenants.values()
    return next(each.id for each in world.fleet if each.id != tenant.engine_instance_id)


def ordered(world: World) -> Move:
    """Room is reserved for the only tenant on the other instance."""
    (tenant,) = world.tenants.values()
    move = Move(
        id=ID, tenant_id=tenant.id, workspace=tenant.workspace, namespace=tenant.namespace, partition=0,
        source=tenant.engine_instance_id, target=target_of(world), step="reserved", is_cancelled=False, reported="{}",
        message="", actor="somebody", ordered_at=NOW, step_since=NOW, due_at=NOW,
    )  # fmt: skip
    world.moves[ID] = move
    return move


def steps(world: World) -> list[str]:
    """As the audit has them, in their order."""
    found = [each for each in world.audit_records.values() if each.kind == "Move"]
    return [each.message.split(":")[0] for each in sorted(found, key=lambda each: each.generation)]


def status_of(world: World, name: str = "web") -> dict[str, Any]:
    (found,) = [each for each in world.workspace.values() if (each.kind, each.name) == ("GitOpsDeployment", name)]
    parts: dict[str, Any] = json.loads(found.status)
    return parts


def shown(world: World, name: str = "web") -> dict[str, str]:
    parts = status_of(world, name)
    return {part: parts.get(part, {}).get("status", "") for part in ("sync", "health")}


def sync_orders(world: World) -> list[EngineRow]:
    return [row for row in world.engine.values() if row.kind == "SyncOperation"]


def instances(world: World) -> set[str]:
    return {row.engine_instance_id for row in world.engine.values()}


def settle_by_chance(world: World, agents: Agents, chance: random.Random, rounds: int) -> None:
    """Reports come late, twice and in any order, planners take over from each other, until the move is over."""
    late: list[Event] = []
    for _ in range(rounds):
        late += agents.reports()
        chance.shuffle(late)
        if chance.random() < 0.2:
            world.memory.clear()  # another planner has taken over
        if late and chance.random() < 0.7:
            event = late.pop()
            world.take(event, *([event] if chance.random() < 0.3 else []))
        elif chance.random() < 0.7:
            world.take_due_moves()
        if world.moves[ID].is_over and not late:
            break
    agents.settle()


@pytest.fixture
def agents(world: World) -> Agents:
    """Of a tenant with an environment, a credential and two deployments, all of which work."""
    world.take(secret(1), environment(2), secret(3, "login", "repository-credential"), credential(4))
    found = Agents(world)
    found.settle()
    world.take(changed(5, content=REMOTE), changed(6, "other", uid="uid-2", content=MANUAL))
    found.settle()
    assert len(found.live) == 2
    return found


def test_move_when_agents_do_what_they_are_told_then_the_tenant_is_on_the_target_and_nothing_was_deleted(
    world: World, agents: Agents
) -> None:
    kinds = sorted(row.kind for row in world.engine.values())
    move = ordered(world)
    agents.settle()
    assert (world.moves[ID].step, steps(world)) == ("done", list(WAY))
    assert (instances(world), agents.live) == (
        {move.target},
        {(move.target, "gitopsdepl-uid-1"), (move.target, "gitopsdepl-uid-2")},
    )
    assert (agents.deleted, sorted(row.kind for row in world.engine.values())) == ([], kinds)


def test_move_when_it_is_over_then_the_tenants_row_and_its_statuses_say_nothing_of_it(
    world: World, agents: Agents
) -> None:
    before = dict(world.workspace)
    ordered(world)
    agents.settle()
    assert {key: row.status for key, row in world.workspace.items()} == {key: row.status for key, row in before.items()}


SUCCEEDED = {"phase": "Succeeded", "syncResult": {"revision": SYNCED["revision"]}}
FAILED = {"phase": "Failed", "message": "no such kind"}
RUNNING = {"phase": "Running"}
OPERATIONS = {
    "ended before": ([SUCCEEDED], SUCCEEDED),
    "failed before": ([FAILED], FAILED),
    "ends at the source": ([RUNNING, SUCCEEDED], SUCCEEDED),
    "no end is told": ([RUNNING], None),
}


@pytest.mark.parametrize(("told", "expected"), OPERATIONS.values(), ids=OPERATIONS)
def test_operation_when_the_target_has_nothing_to_sync_then_the_last_one_of_the_source_is_still_shown_if_it_has_ended(
    world: World, agents: Agents, told: list[dict[str, Any]], expected: dict[str, Any] | None
) -> None:
    """Promotions read of it what was deployed."""
    move = ordered(world)
    for number, operation in enumerate(told):
        if number:
            until(world, agents, "pausing")
        reported = status(900 + number, **HEALTHY, operationState=operation)
        world.take(observed(990 + number, reported, instance=move.source))
    agents.settle()
    world.later = PATIENCE / 2
    agents.settle()
    for number, compared in enumerate((HEALTHY, OUT_OF_SYNC), start=3):
        world.take(observed(5000 + number, status(number, **compared), instance=move.target))
        found = status_of(world)
        assert (world.moves[ID].step, found["sync"]["status"]) == ("done", compared["sync"]["status"])
        assert found.get("operationState") == expected
        holding = [each["type"] for each in found["conditions"] if each["status"] == "True"]
        assert holding == (["SyncError"] if expected == FAILED else [])


def test_status_when_the_source_reports_while_it_is_left_then_the_last_one_stays_until_the_target_reports(
    world: World, agents: Agents
) -> None:
    move = ordered(world)
    seen = []
    for _ in range(40):
        for each in (move.source, move.target):
            if each != world.tenants[move.tenant_id].engine_instance_id or world.moves[ID].step in {
                "pausing",
                "releasing",
            }:
                world.take(observed(2000, status(900, **OUT_OF_SYNC), instance=each))
        seen.append(shown(world))
        agents.work()
        world.take_due_moves()
    assert world.moves[ID].step == "done"
    assert seen == [{"sync": "Synced", "health": "Healthy"}] * 40


@pytest.mark.parametrize("seed", range(30))
def test_move_when_reports_come_in_any_order_and_more_than_once_then_the_end_is_the_same(
    world: World, agents: Agents, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311
    move = ordered(world)
    settle_by_chance(world, agents, chance, rounds=400)
    assert (steps(world), instances(world), agents.deleted) == (list(WAY), {move.target}, [])


@pytest.mark.parametrize("step", ["preparing", "pausing"])
def test_move_when_cancelled_before_the_source_is_released_then_everything_is_as_before(
    world: World, agents: Agents, step: str
) -> None:
    before = {key: (row.desired, row.digest) for key, row in world.engine.items()}
    ordered(world)
    until(world, agents, step)
    world.moves[ID] = replace(world.moves[ID], is_cancelled=True, message="an operator has cancelled it")
    world.memory.clear()
    agents.settle()
    assert world.moves[ID].step == "cancelled"
    assert {key: (row.desired, row.digest) for key, row in world.engine.items()} == before
    assert agents.deleted == []


def require_step(world: World, agents: Agents, later: timedelta, step: str) -> None:
    """So much later, when there is nothing left to do, the move is at ``step``."""
    world.later = later
    agents.settle()
    assert world.moves[ID].step == step


def until(world: World, agents: Agents, step: str) -> None:
    """Go on until the move is at ``step``, of which nothing is reported yet."""
    for _ in range(50):
        if world.moves[ID].step == step:
            return
        if not world.take_due_moves():
            agents.work()
    raise AssertionError(f"{world.moves[ID].step}, never {step}")


@pytest.mark.parametrize("fault", ["silent", "bad"])
def test_move_when_the_target_is_not_ready_in_time_then_it_goes_back_and_says_why(
    world: World, agents: Agents, fault: str
) -> None:
    move = ordered(world)
    setattr(agents, fault, move.target)
    agents.settle()
    for minutes in (4, 6):
        require_step(world, agents, timedelta(minutes=minutes), "preparing")
    world.later = timedelta(minutes=11)
    agents.settle()
    agents.silent = ""
    agents.settle()
    assert world.moves[ID].step == "cancelled"
    assert "preparing took longer than 0:10:00: " in world.moves[ID].message
    assert (instances(world), agents.deleted) == ({move.source}, [])


def test_move_when_the_tenant_changes_its_credentials_faster_than_anybody_checks_them_then_it_goes_on_nevertheless(
    world: World, agents: Agents
) -> None:
    """Else it could stay as long as it likes, and its instance would never be empty."""
    move = ordered(world)
    agents.unchecked = True
    for second in range(20, 30):
        world.take(secret(second), secret(second, "login", "repository-credential"))
        agents.settle()
    require_step(world, agents, timedelta(minutes=4), "preparing")
    world.later = timedelta(minutes=5)
    agents.settle()
    assert (world.moves[ID].step, instances(world), agents.deleted) == ("done", {move.target}, [])
    agents.unchecked = False
    world.take(secret(30), secret(30, "login", "repository-credential"))
    agents.settle()
    assert {check.reason for check in world.checks.values()} == {"Succeeded"}


BOUND = "deployment other names no environment: what it has deployed would stay in the cluster"


@pytest.mark.parametrize("step", ["reserved", "preparing"])
def test_move_when_it_is_to_another_cluster_than_a_deployment_goes_to_then_it_goes_back_at_once_and_says_why(
    world: World, agents: Agents, step: str
) -> None:
    """What is deployed to the engine's own cluster would be left behind there, and be made anew in the other."""
    move = ordered(world)
    until(world, agents, step)
    world.fleet = [replace(each, engine_cluster=each.id) for each in world.fleet]
    agents.settle()
    assert (world.moves[ID].message, world.moves[ID].is_cancelled) == (BOUND, True)
    assert (world.moves[ID].step, instances(world), agents.deleted) == ("cancelled", {move.source}, [])


def test_move_when_a_deployment_goes_to_the_cluster_of_the_source_once_it_is_paused_then_it_goes_back_after_a_while(
    world: World, agents: Agents
) -> None:
    move = ordered(world)
    until(world, agents, "pausing")
    world.fleet = [replace(each, engine_cluster=each.id) for each in world.fleet]
    world.later = timedelta(minutes=11)
    agents.settle()
    assert world.moves[ID].message == f"pausing took longer than 0:10:00: {BOUND}"
    assert (world.moves[ID].step, instances(world), agents.deleted) == ("cancelled", {move.source}, [])


def test_move_when_it_is_to_another_cluster_and_all_deployments_have_environments_then_it_is_done(
    world: World, agents: Agents
) -> None:
    world.take(changed(90, "other", uid="uid-2", content=REMOTE, generation=2))
    agents.settle()
    move = ordered(world)
    world.fleet = [replace(each, engine_cluster=each.id) for each in world.fleet]
    agents.settle()
    assert (world.moves[ID].step, instances(world), agents.deleted) == ("done", {move.target}, [])


def test_move_when_the_target_is_away_after_the_release_then_it_goes_on_when_it_is_back(
    world: World, agents: Agents
) -> None:
    move = ordered(world)
    until(world, agents, "adopting")
    agents.silent = move.target
    world.fleet = tuple(replace(each, is_down=each.id == move.target) for each in world.fleet)
    require_step(world, agents, timedelta(days=1) - SECOND, "adopting")
    world.fleet = tuple(replace(each, is_down=False) for each in world.fleet)
    world.take_due_moves()
    assert world.moves[ID].step == "adopting", "what is deleted meanwhile can still be removed"
    agents.silent = ""
    agents.settle()
    assert world.moves[ID].step == "done"


def test_move_when_a_tenant_keeps_the_source_from_pausing_what_it_changes_then_it_goes_on_all_the_same(
    world: World, agents: Agents
) -> None:
    """As with repositories of hosts that take long to look up, each another one."""
    move = ordered(world)
    until(world, agents, "pausing")
    agents.silent = move.source
    agents.settle()
    require_step(world, agents, PATIENCE / 2 - SECOND, "pausing")
    require_step(world, agents, PATIENCE / 2, "releasing")
    agents.silent = ""
    agents.settle()
    assert (world.moves[ID].step, instances(world), agents.deleted) == ("done", {move.target}, [])


def test_move_when_a_tenant_keeps_the_target_from_what_it_changes_then_it_ends_once_the_target_has_it_as_it_was(
    world: World, agents: Agents
) -> None:
    move = ordered(world)
    agents.hanging = "gitopsdepl-uid-2"
    agents.settle()
    world.take(changed(90, "other", uid="uid-2", content=REMOTE, generation=2))
    agents.silent = move.target
    require_step(world, agents, PATIENCE - SECOND, "adopting")
    require_step(world, agents, PATIENCE, "done")


def test_move_when_the_target_works_and_makes_no_application_then_it_ends_after_a_day(
    world: World, agents: Agents
) -> None:
    """A tenant may keep it from that, as with a host that takes long to look up: its source is to be empty some day."""
    move = ordered(world)
    until(world, agents, "adopting")
    agents.silent = move.target
    for later, step in (
        (PATIENCE, "adopting"),
        (LONGEST - SECOND, "adopting"),
        (LONGEST, "done"),
    ):
        require_step(world, agents, later, step)
    agents.silent = ""
    agents.settle()
    assert (instances(world), agents.deleted) == ({move.target}, [])
    assert {place for place, _ in agents.live} == {move.target}


def test_move_when_the_target_never_compares_an_application_then_it_is_done_all_the_same_and_the_status_stays(
    world: World, agents: Agents
) -> None:
    """Or a tenant whose cluster does not answer would keep a place for moves, and its source, for ever."""
    move, before = ordered(world), shown(world)
    agents.hanging = "gitopsdepl-uid-1"
    for later, step in ((timedelta(0), "adopting"), (PATIENCE - SECOND, "adopting"), (PATIENCE, "done")):
        world.later = later
        agents.settle()
        assert (world.moves[ID].step, shown(world)) == (step, before)
    assert (instances(world), agents.deleted) == ({move.target}, [])
    world.take(observed(3000, status(3, **OUT_OF_SYNC), instance=move.target))
    assert shown(world) == {"sync": "OutOfSync", "health": "Healthy"}


def moved_uncompared(world: World, agents: Agents) -> Move:
    """It is over by its time: the target has all Applications, and has not compared the first."""
    move = ordered(world)
    agents.hanging = "gitopsdepl-uid-1"
    for later in (timedelta(0), PATIENCE):
        world.later = later
        agents.settle()
    assert world.moves[ID].step == "done"
    return move


def test_move_when_the_target_never_compares_an_application_then_it_can_still_be_deleted(
    world: World, agents: Agents
) -> None:
    move = moved_uncompared(world, agents)
    world.take(gone(3000))
    agents.settle()
    assert (agents.deleted, agents.live) == (["gitopsdepl-uid-1"], {(move.target, "gitopsdepl-uid-2")})


@pytest.mark.parametrize("step", WAY[:-1])
def test_deployment_when_deleted_at_any_step_then_what_it_deployed_goes_once(
    world: World, agents: Agents, step: str
) -> None:
    move = ordered(world)
    until(world, agents, step)
    world.take(gone(3000))
    agents.settle()
    assert agents.deleted == ["gitopsdepl-uid-1"]
    assert (world.moves[ID].step, agents.live) == ("done", {(move.target, "gitopsdepl-uid-2")})


def applications(world: World) -> list[EngineRow]:
    """Rows of Applications."""
    return [row for row in world.engine.values() if row.kind == "Application"]


def test_move_when_the_tenant_always_has_a_deletion_under_way_then_the_target_ends_it(
    world: World, agents: Agents
) -> None:
    """Else it could stay as long as it likes, with what its own cluster does not let go."""
    move = ordered(world)
    agents.undeleted = move.source
    world.take(gone(3000))
    agents.settle()
    assert world.moves[ID].step == "pausing"
    world.later, agents.silent = timedelta(minutes=5), move.target
    agents.settle()
    automated = {
        row.name: "automated" in json.loads(row.manifest)["spec"].get("syncPolicy", {}) for row in applications(world)
    }
    assert (world.moves[ID].step, automated["gitopsdepl-uid-1"]) == ("adopting", False), "it would be made anew"
    agents.silent = ""
    agents.settle()
    assert (world.moves[ID].step, agents.deleted) == ("done", ["gitopsdepl-uid-1"])
    assert (instances(world), agents.live) == ({move.target}, {(move.target, "gitopsdepl-uid-2")})


@pytest.mark.parametrize("step", WAY[:-1])
def test_tenant_when_deleted_at_any_step_then_nothing_is_left_on_either_instance(
    world: World, agents: Agents, step: str
) -> None:
    ordered(world)
    until(world, agents, step)
    world.take(gone(3000), gone(3001, "other", uid="uid-2"))
    world.take(
        resource_gone(3002, "GitOpsDeploymentManagedEnvironment", "prod"),
        resource_gone(3003, "GitOpsDeploymentRepositoryCredential", "login"),
        resource_gone(3004, "Secret", "kubeconfig", "uid-secret-kubeconfig"),
        resource_gone(3005, "Secret", "login", "uid-secret-login"),
    )
    agents.settle()
    assert (world.engine, world.tenants, sorted(agents.deleted)) == ({}, {}, ["gitopsdepl-uid-1", "gitopsdepl-uid-2"])


@pytest.mark.parametrize("step", WAY[:-1])
def test_deployment_when_made_or_changed_at_any_step_then_the_target_has_it(
    world: World, agents: Agents, step: str
) -> None:
    move = ordered(world)
    until(world, agents, step)
    world.take(changed(3000, "third", uid="uid-3"))
    world.take(changed(3001, content=REMOTE | {"source": spec()["source"] | {"path": "new"}}, generation=2))
    agents.settle()
    assert {name for instance, name in agents.live if instance == move.target} == {
        f"gitopsdepl-uid-{n}" for n in (1, 2, 3)
    }
    (row,) = [row for row in world.engine.values() if row.name == "gitopsdepl-uid-1"]
    assert json.loads(row.manifest)["spec"]["source"]["path"] == "new"
    assert "automated" in json.loads(row.manifest)["spec"]["syncPolicy"]


def test_source_when_pausing_then_its_applications_are_not_automated_and_only_then_released(
    world: World, agents: Agents
) -> None:
    ordered(world)
    until(world, agents, "pausing")
    (row,) = [row for row in world.engine.values() if row.name == "gitopsdepl-uid-1"]
    paused = json.loads(row.manifest)
    assert ("automated" in paused["spec"].get("syncPolicy", {}), RELEASE in paused) == (False, False)
    until(world, agents, "releasing")
    (row,) = [row for row in world.engine.values() if row.name == "gitopsdepl-uid-1"]
    assert json.loads(row.manifest) == paused | {RELEASE: True}


def test_credentials_when_handed_over_then_the_source_is_told_neither_a_login_nor_to_remove_the_account(
    world: World, agents: Agents
) -> None:
    world.take(environment(90, createNewServiceAccount=True, generation=2))
    agents.settle()
    move = ordered(world)
    until(world, agents, "withdrawing")
    left = [json.loads(row.manifest) for row in world.engine.values() if row.engine_instance_id == move.source]
    secrets = [each for each in left if each["kind"] == "Secret"]
    assert [(each[RELEASE], "secret" in each["recipe"]) for each in secrets] == [(True, False)] * 2


def test_sync_run_when_ordered_while_the_source_is_left_then_it_is_started_once_on_the_target(
    world: World, agents: Agents
) -> None:
    move = ordered(world)
    until(world, agents, "pausing")
    world.take(sync_run(3000, deployment="other"))
    until(world, agents, "releasing")
    assert sync_orders(world) == []
    agents.settle()
    (order,) = sync_orders(world)
    assert order.engine_instance_id == move.target


def test_sync_run_when_it_runs_then_the_source_is_not_released_before_it_ends(world: World, agents: Agents) -> None:
    world.take(sync_run(90, deployment="other"))
    move = ordered(world)
    agents.settle()
    assert world.moves[ID].step == "pausing"
    (run,) = sync_orders(world)
    ended = moved("now", "Succeeded")
    world.take(observed(3000, ended, instance=run.engine_instance_id, kind=run.kind, name=run.name))
    agents.settle()
    assert (world.moves[ID].step, run.engine_instance_id) == ("done", move.source)


def syncing(world: World, instance: str, second: int = 900, **operation: Any) -> None:
    """An agent tells of a deployment's sync that it is at work, unless something else is said of it."""
    reported = status(second, **OUT_OF_SYNC, operationState=RUNNING | operation)
    world.take(observed(second, reported, instance=instance))


def test_sync_when_it_is_at_work_then_the_source_is_not_released_before_it_ends(world: World, agents: Agents) -> None:
    move = ordered(world)
    syncing(world, move.source)
    agents.settle()
    assert world.moves[ID].step == "pausing"
    syncing(world, move.source, 901, phase="Succeeded")
    agents.settle()
    assert world.moves[ID].step == "done"


def test_sync_when_it_never_ends_then_the_move_goes_on_after_half_of_the_patience(world: World, agents: Agents) -> None:
    """Or a tenant would keep its instance for ever, by a hook that never ends."""
    move = ordered(world)
    syncing(world, move.source)
    agents.settle()
    require_step(world, agents, PATIENCE / 2 - SECOND, "pausing")
    require_step(world, agents, PATIENCE / 2, "done")


def test_sync_when_it_waits_for_its_next_attempt_then_the_target_makes_that(world: World, agents: Agents) -> None:
    """One that always fails never ends."""
    move = ordered(world)
    syncing(world, move.source, finishedAt="2026-05-04T12:00:00Z")
    agents.settle()
    assert world.moves[ID].step == "done"


def test_sync_when_the_source_is_evacuated_then_it_is_not_waited_for(world: World, agents: Agents) -> None:
    world.moves[ID] = replace(ordered(world), path="forced")
    syncing(world, world.moves[ID].source)
    agents.settle()
    assert world.moves[ID].step == "done"


def test_sync_when_only_the_instance_before_the_source_has_told_of_it_then_it_is_not_waited_for(
    world: World, agents: Agents
) -> None:
    """Which nobody hears of any more: the source has not compared the deployment yet."""
    move = ordered(world)
    until(world, agents, "releasing")
    syncing(world, move.source)
    agents.hanging = "gitopsdepl-uid-1"
    for later in (timedelta(0), PATIENCE):
        world.later = later
        agents.settle()
    assert world.moves[ID].step == "done"
    agents.hanging = ""
    back = ordered(world)
    agents.settle()
    assert (world.moves[ID].step, instances(world)) == ("done", {back.target})


def shown_of_run(world: World) -> tuple[str, str]:
    (found,) = [row for row in world.workspace.values() if row.kind == SYNC_RUN.kind]
    operation = json.loads(found.status)["operation"]
    return operation["phase"], operation["message"]


def test_sync_run_when_it_has_not_ended_after_half_of_the_patience_then_it_is_terminated_and_the_move_goes_on(
    world: World, agents: Agents
) -> None:
    """Or a tenant would keep its instance for ever, by a hook that never ends."""
    world.take(sync_run(90, deployment="other"))
    (run,) = sync_orders(world)
    report = partial(observed, instance=run.engine_instance_id, kind=run.kind, name=run.name)
    world.take(report(91, moved("now", "Running")))
    move = ordered(world)
    agents.settle()
    world.later = timedelta(minutes=4, seconds=59)
    agents.settle()
    assert json.loads(sync_orders(world)[0].manifest)["operation"]["state"] == "Running"
    world.later = timedelta(minutes=5)
    agents.settle()
    assert json.loads(sync_orders(world)[0].manifest)["operation"]["state"] == "Terminated"
    assert shown_of_run(world) == ("Terminating", TERMINATED)
    world.take(report(92, replace(moved("now", "Failed"), message="Operation terminated")))
    agents.settle()
    assert (shown_of_run(world), sync_orders(world)) == (("Failed", TERMINATED), [])
    assert (world.moves[ID].step, instances(world)) == ("done", {move.target})


def test_sync_run_when_it_is_terminated_and_its_agent_is_away_then_the_move_goes_back(
    world: World, agents: Agents
) -> None:
    world.take(sync_run(90, deployment="other"))
    move = ordered(world)
    agents.settle()
    for minutes in (5, 11):
        world.later = timedelta(minutes=minutes)
        agents.settle()
    assert world.moves[ID].message == "pausing took longer than 0:10:00: the sync run of other"
    assert (world.moves[ID].step, instances(world)) == ("cancelled", {move.source})


def test_deployment_when_it_waits_for_its_cr_then_the_finalizer_is_released_after_the_move(
    world: World, agents: Agents
) -> None:
    ordered(world)
    until(world, agents, "releasing")
    world.take(changed(3000, content=REMOTE, deleting=True, finalizers=(FINALIZER,), generation=2))
    agents.settle()
    (row,) = [each for each in world.workspace.values() if (each.kind, each.name) == ("GitOpsDeployment", "web")]
    assert (row.release_finalizer, agents.deleted) == (True, ["gitopsdepl-uid-1"])


def test_audit_when_a_tenant_was_moved_then_it_has_who_ordered_it_and_each_step(world: World, agents: Agents) -> None:
    move = ordered(world)
    agents.settle()
    rows = [each for each in world.audit_records.values() if each.kind == "Move"]
    assert sorted(each.generation for each in rows) == [NUMBERS[step] for step in WAY]  # type: ignore[index]
    assert {(each.actor, each.name) for each in rows} == {("somebody", move.target)}


def test_move_when_its_target_was_added_since_the_fleet_was_read_then_it_begins_once_that_is_known(
    world: World, agents: Agents
) -> None:
    move, fleet = ordered(world), world.fleet
    world.fleet = tuple(each for each in fleet if each.id != move.target)
    world.take_due_moves()
    assert (world.moves[ID].step, world.parked) == ("reserved", {})
    world.fleet = fleet
    agents.settle()
    assert world.moves[ID].step == "done"


def test_sync_run_when_a_former_instance_says_that_it_ended_then_it_is_not_started_once_more(
    world: World, agents: Agents
) -> None:
    """A rebuild replays what was reported before a move, and knows the tenant where it is by now."""
    world.take(sync_run(90, deployment="other"))
    (order,) = sync_orders(world)
    report = partial(observed, instance=target_of(world), kind=order.kind, name=order.name)
    world.take(report(91, moved("now", "Running")))
    assert sync_orders(world) == [order]
    world.take(report(92, moved("now", "Succeeded")))
    assert sync_orders(world) == []
    (ended,) = world.sync_runs.values()
    assert ended.phase == "Succeeded"


def test_objects_when_an_instance_holds_some_and_neither_a_move_nor_a_deployment_needs_them_then_they_go(
    world: World, agents: Agents
) -> None:
    """A move that a rebuild does not know of may have left them."""
    there = next(each for each in world.fleet if each.id == target_of(world))
    project = next(row for row in world.engine.values() if row.kind == "AppProject")
    project = replace(project, engine_instance_id=there.id, namespace=there.namespace)
    left, kept = replace(project, name="left", desired="absent"), replace(project, name="kept")
    before = dict(world.engine)
    world.engine |= {(row.engine_instance_id, row.kind, row.namespace, row.name): row for row in (left, kept)}
    world.memory.clear()
    for number, row in enumerate((left, kept)):
        world.take(observed(3000 + number, Removed(forced=False), instance=there.id, kind=row.kind, name=row.name))
    assert world.engine == before


def test_reports_when_of_neither_instance_then_they_change_nothing(world: World, agents: Agents) -> None:
    ordered(world)
    until(world, agents, "preparing")
    before = canonical(world.moves[ID].reported)
    world.take(observed(3000, Applied("x"), instance="engine-9", kind="AppProject", name="app-project"))
    assert canonical(world.moves[ID].reported) == before
