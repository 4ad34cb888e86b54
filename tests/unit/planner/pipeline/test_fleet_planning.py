"""What is read of a fleet before something is decided on it: all that this takes, and nothing of other instances."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import get_args
from uuid import UUID

import pytest

from services.common.errors import Poison
from services.common.messages import (
    AbortRollout,
    AddEngineCluster,
    AddEngineInstance,
    AssignWorkspace,
    CancelMove,
    DedicateEngineInstance,
    DrainEngineCluster,
    DrainEngineInstance,
    FleetOrder,
    Health,
    MoveTenant,
    Order,
    PauseRollout,
    PinTenant,
    RebalanceFleet,
    RebalanceInstances,
    RemoveEnginePool,
    ResumeRollout,
    RetireEngineCluster,
    RetireEngineInstance,
    SetEnginePool,
    StartRollout,
    UndrainEngineCluster,
    UndrainEngineInstance,
    UnpinTenant,
)
from services.planner.domain.events import ClusterTopic, Event, FleetDue, RemediesDue, ScalingDue
from services.planner.domain.fleet.moves.move_orders import ordered_move
from services.planner.domain.fleet.pools.pool_rows import EnginePool, Overload, Patience
from services.planner.domain.fleet.remediation.remediation_rows import Remediation
from services.planner.domain.policy import Policy
from services.planner.pipeline import fleet_planning
from services.planner.pipeline.fleet_planning import plan_fleet
from tests.unit.planner.fleet.fleet_rows import FleetRows
from tests.unit.planner.fleet.rolled import NEW, OLD, START, Rolled
from tests.unit.planner.given import at

OLD_ONE, NEW_ONE, OTHER = "canary-old-0", "canary-new-0", "general-old-0"
RING = {OLD_ONE, NEW_ONE}
POOL = EnginePool("north", "general", 0, 9, 0, 10, NEW, "", at(1))
ILL = Remediation(OTHER, "acting", 1, "Cordon", '["Cordon"]', is_cordoned=True, message="", since=at(1), due_at=None)
BEFORE_EVACUATION = '["Cordon","RestartController"]'
EVACUATED = '["Cordon","RestartController","Evacuate","FlushCache"]'
BETWEEN = timedelta(seconds=1)


@pytest.fixture
def database() -> FleetRows:
    """All of ring canary moves to a new version, and the next look at that is not due; ring general is not yet."""
    rolled = Rolled.of({"canary": (1, 1), "general": (1, 0)})
    rolled.live(START)
    rolled.until("moving", 100)
    rolled.live()
    assert rolled.rollout is not None
    rolled.rollout = replace(rolled.rollout, due_at=rolled.now + BETWEEN)
    return FleetRows(rolled)


def test_rollout_when_aborted_between_two_looks_then_the_tenants_of_its_ring_go_back(database: FleetRows) -> None:
    changes = database.order(AbortRollout())
    assert [each.step for each in changes.rollouts] == ["reverting"]
    back = [move for move in changes.moves_ordered if move.target == OLD_ONE or move.is_cancelled]
    assert back
    assert changes.rollouts[0].moved > 0


def test_rollout_when_resumed_between_two_looks_then_its_stage_goes_on_with_the_tenants_of_its_ring(
    database: FleetRows,
) -> None:
    (paused,) = database.order(PauseRollout()).rollouts
    database.rolled.rollout = paused
    (resumed,) = database.order(ResumeRollout()).rollouts
    assert (resumed.step, resumed.stage, resumed.tenants) == ("moving", 100, 20)


def test_look_when_the_rollout_is_due_then_its_ring_alone_is_read(database: FleetRows) -> None:
    database.rolled.now += BETWEEN
    database.plan(FleetDue(is_of_states=False))
    assert (database.counted, database.tenants_of) == (RING, RING)


def test_look_when_moves_may_begin_and_no_rollout_is_due_then_nothing_is_counted(database: FleetRows) -> None:
    database.plan(FleetDue(is_of_states=False))
    assert (database.counted, database.tenants_of) == (set(), set())


def test_look_when_it_is_at_states_then_all_instances_are_counted_and_no_tenant_is_read(database: FleetRows) -> None:
    database.plan(FleetDue())
    assert (database.counted, database.tenants_of) == ({*RING, OTHER}, set())


def test_order_when_it_is_about_all_tenants_then_all_are_read(database: FleetRows) -> None:
    database.order(RebalanceFleet())
    assert (database.counted, database.tenants_of) == ({*RING, OTHER}, {*RING, OTHER})


@pytest.mark.parametrize(
    ("shrinks_at", "read"), [(None, set()), (at(1), {OTHER})], ids=["nobody moves", "an instance is given up"]
)
def test_pools_when_they_are_looked_at_then_their_instances_alone_are_read_and_only_if_one_is_given_up(
    database: FleetRows, shrinks_at: datetime | None, read: set[str]
) -> None:
    database.rolled.rollout = None
    database.rolled.pools = {POOL.key: replace(POOL, shrinks_at=shrinks_at)}
    database.plan(ScalingDue())
    assert (database.counted, database.tenants_of) == (read, read)


@pytest.mark.parametrize("is_rolled_out", [True, False])
def test_overloaded_instance_when_in_no_pool_then_those_like_it_are_read_unless_a_rollout_is_under_way(
    database: FleetRows, is_rolled_out: bool
) -> None:
    database.load, database.overloads = {OTHER: 30_000}, {OTHER: Overload(OTHER, at(1))}
    if not is_rolled_out:
        database.rolled.rollout = None
    (changes,) = database.plan(ScalingDue())
    read = set() if is_rolled_out else {OTHER}
    assert (database.counted, database.tenants_of) == (read, read)
    assert (changes.fleet_orders, changes.engine_overloads_gone) == ((), ())


@pytest.mark.parametrize(
    ("ill", "health", "read"),
    [
        (ILL, Health.DOWN, set()),
        (replace(ILL, tried=BEFORE_EVACUATION), Health.DEGRADED, set()),
        (replace(ILL, tried=BEFORE_EVACUATION), Health.DOWN, {*RING, OTHER}),
        (replace(ILL, tried=EVACUATED), Health.DOWN, {*RING, OTHER}),
    ],
    ids=["a remedy is next", "it does some of its work", "evacuation is next", "it is evacuated"],
)
def test_remedies_when_they_are_looked_at_then_tenants_are_read_only_if_some_may_have_to_leave(
    database: FleetRows, ill: Remediation, health: Health, read: set[str]
) -> None:
    database.remediations = {OTHER: ill}
    database.rolled.hear(OTHER, health)
    database.plan(RemediesDue())
    assert (database.counted, database.tenants_of) == (read, read)


def test_look_when_moves_wait_then_those_alone_are_locked_that_begin_and_no_retired_instance_is_read(
    database: FleetRows,
) -> None:
    (changes,) = database.plan(FleetDue(is_of_states=False))
    assert (changes.moves_ordered, database.locked, database.are_retired_loaded) == ((), set(), False)
    assert any(move.step == "ordered" for move in database.rolled.moves.values())
    first = database.begun
    database.rolled.moves[first.tenant_id] = replace(first, step="done")
    (changes,) = database.plan(FleetDue(is_of_states=False))
    begun = {move.id for move in changes.moves_ordered}
    assert (len(begun), database.locked, database.are_retired_loaded) == (1, begun, False)


def test_order_when_it_cancels_a_move_that_its_planner_takes_further_meanwhile_then_it_is_decided_on_what_is(
    database: FleetRows,
) -> None:
    move = database.begun
    database.steps_meanwhile = [replace(move, step="releasing")]
    changes = database.order(CancelMove(move.workspace, move.namespace))
    ((outcome, message),) = [(record.outcome, record.message) for record in changes.fleet_orders]
    assert (outcome, changes.moves_ordered) == ("refused", ())
    assert "from here on: releasing; " in message


def test_remedies_when_an_instance_is_evacuated_then_no_planner_takes_a_step_of_any_move_while_tenants_are_read(
    database: FleetRows,
) -> None:
    database.remediations = {OTHER: replace(ILL, tried=EVACUATED)}
    database.rolled.hear(OTHER, Health.DOWN)
    database.plan(RemediesDue())
    assert database.locked.issuperset(move.id for move in database.rolled.moves.values() if not move.is_over)


def test_order_when_the_topics_of_the_engine_cluster_that_it_adds_are_missing_then_it_is_refused(
    database: FleetRows,
) -> None:
    order = FleetOrder(UUID(int=7), "ada", database.rolled.now, AddEngineCluster("west", "eu"))
    event = Event(order, 0, "", cluster_topics=(ClusterTopic("gitops.engine.west", 0, 6),))
    (changes,) = plan_fleet([event], database, Policy(), database.rolled.now)
    assert [record.outcome for record in changes.fleet_orders] == ["refused"]
    assert "has no topic gitops.engine.west" in changes.fleet_orders[0].message


ADDED = AddEngineInstance("late", "north", "late", "argocd", "shared", "", "general", 100)
ORDERS: dict[str, tuple[Order, str]] = {
    "to add a cluster": (AddEngineCluster("west", "eu"), "accepted"),
    "to drain a cluster": (DrainEngineCluster("north"), "accepted"),
    "to undrain a cluster": (UndrainEngineCluster("north"), "unchanged"),
    "to retire a cluster": (RetireEngineCluster("north"), "refused"),
    "to add an instance": (ADDED, "accepted"),
    "to drain an instance": (DrainEngineInstance(OTHER), "accepted"),
    "to undrain an instance": (UndrainEngineInstance(OTHER), "unchanged"),
    "to retire an instance": (RetireEngineInstance(OTHER), "refused"),
    "to give an instance up that is lost": (RetireEngineInstance(OTHER, is_lost=True), "refused"),
    "to dedicate an instance": (DedicateEngineInstance(OTHER, "local"), "accepted"),
    "to assign a workspace": (AssignWorkspace("local", "", "general"), "accepted"),
    "to move a tenant": (MoveTenant("local", "team-21", OLD_ONE), "refused"),
    "to move a tenant that there is not": (MoveTenant("local", "nobody", OTHER), "refused"),
    "to cancel a move": (CancelMove("local", "team-21"), "unchanged"),
    "to pin a tenant": (PinTenant("local", "team-21", ""), "accepted"),
    "to unpin a tenant": (UnpinTenant("local", "team-21"), "unchanged"),
    "to rebalance": (RebalanceFleet(), "unchanged"),
    "to rebalance an instance": (RebalanceInstances((OTHER,)), "unchanged"),
    "to set a pool": (SetEnginePool("north", "general", 0, 9, 0, 100, "3.2.11", ""), "accepted"),
    "to remove a pool": (RemoveEnginePool("north", "general"), "unchanged"),
    "to roll a version out": (StartRollout("3.2.11", "", (), 60, is_security=False), "refused"),
    "to pause the rollout": (PauseRollout(), "accepted"),
    "to resume the rollout": (ResumeRollout(), "unchanged"),
    "to abort the rollout": (AbortRollout(), "accepted"),
}


@pytest.mark.parametrize(("order", "outcome"), ORDERS.values(), ids=ORDERS)
def test_order_when_it_is_decided_then_all_that_its_rules_read_was_loaded(
    database: FleetRows, order: Order, outcome: str
) -> None:
    (record,) = database.order(order).fleet_orders
    assert record.outcome == outcome


def test_orders_when_they_are_listed_here_then_none_is_left_out() -> None:
    assert {type(order) for order, _ in ORDERS.values()} == {*get_args(Order)}


def test_rollout_when_resumed_before_its_instances_were_added_then_they_are() -> None:
    rolled = Rolled.of({"general": (1, 0)}, 20)
    rolled.pools = {POOL.key: replace(POOL, minimum=1, version=OLD)}
    rolled.live(START)
    assert rolled.rollout is not None
    rolled.rollout = replace(rolled.rollout, is_paused=True, due_at=None)
    resumed, *added = FleetRows(rolled).order(ResumeRollout()).fleet_orders
    assert (resumed.kind, resumed.outcome) == ("ResumeRollout", "accepted")
    assert {(each.kind, each.outcome) for each in added} == {("AddEngineInstance", "accepted")}


def test_instance_when_dedicated_while_its_pool_gives_it_up_then_the_pool_gives_up_none() -> None:
    rolled = Rolled.of({"general": (3, 0)}, 2)
    row = replace(rolled.instances[OTHER], state="draining", wanted_version=OLD, ordered_at=at(2))
    rolled.instances[OTHER] = replace(row, engine_class="dedicated", dedicated_to="local")
    rolled.pools = {POOL.key: replace(POOL, minimum=1, leaving=OTHER)}
    (changes,) = FleetRows(rolled).plan(ScalingDue())
    assert [each.leaving for each in changes.engine_pools] == [None]


@pytest.mark.parametrize(
    "message", [FleetDue(), RemediesDue(), ScalingDue(), FleetOrder(UUID(int=7), "ada", at(1), PauseRollout())]
)
def test_fleet_when_a_rule_fails_on_it_then_what_asked_is_poison_and_the_reason_says_where_and_no_value(
    database: FleetRows, monkeypatch: pytest.MonkeyPatch, message: FleetDue | RemediesDue | ScalingDue | FleetOrder
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise LookupError("team-secret")

    for rule in ("reconcile_fleet", "decide_remedies", "scale"):
        monkeypatch.setattr(fleet_planning, rule, fails)
    with pytest.raises(Poison, match=r"a rule of the fleet failed: LookupError at .*test_fleet_planning.py") as failed:
        database.plan(message)
    assert "team-secret" not in str(failed.value)


@pytest.mark.parametrize(("capacity", "outcome"), [(42, "accepted"), (41, "refused")])
def test_rollout_when_ordered_while_a_tenant_moves_then_it_counts_on_both_instances_as_tenants_are_not_loaded(
    capacity: int, outcome: str
) -> None:
    rolled, new = Rolled.of({"general": (1, 1)}), "general-new-0"
    rolled.instances[new] = replace(rolled.instances[new], capacity=capacity)
    name, tenant = next(iter(rolled.tenants.items()))
    rolled.moves[tenant.id] = ordered_move(UUID(int=8), name, tenant, new, "ada", rolled.now)
    (record,) = FleetRows(rolled).order(START).fleet_orders
    assert record.outcome == outcome


def test_overload_when_it_is_new_and_nobody_is_patient_then_tenants_leave_at_the_next_look(
    database: FleetRows,
) -> None:
    database.rolled.rollout, database.load = None, {OTHER: 30_000}
    policy = replace(Policy(), scaling=Patience(overload=timedelta(0)))
    (changes,) = plan_fleet([Event(ScalingDue(), 0, "")], database, policy, database.rolled.now)
    assert [each.engine_instance_id for each in changes.engine_overloads] == [OTHER]
    assert database.tenants_of == set()
