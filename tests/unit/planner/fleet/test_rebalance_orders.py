"""Orders to even the fleet out: who moves, who cannot and why, and when there is nothing to do."""

from __future__ import annotations

from _collections_abc import dict_values
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

import pytest

from services.common.messages import DrainEngineInstance, MoveTenant, PinTenant, RebalanceFleet, RebalanceInstances
from services.planner.domain.fleet.fleet import Fleet, Holding
from services.planner.domain.fleet.loaded_parts import TenantHere
from services.planner.domain.fleet.moves.move_orders import ordered_move
from services.planner.domain.fleet.moves.rebalance_orders import load_staying
from services.planner.domain.fleet.orders import decide_orders
from services.planner.domain.fleet.rows import EngineInstanceRow, Move, MoveStep
from services.planner.domain.policy import Policy
from services.planner.rows.tenants import TenantName
from tests.unit.planner.fleet.loaded_fleet import loaded_fleet, with_tenants
from tests.unit.planner.fleet.test_fleet_orders import CLUSTER, INSTANCE, NOW, decided, ordered, outcome
from tests.unit.planner.fleet.test_move_orders import MOVE
from tests.unit.planner.fleet.test_overload import ROLLOUT

REBALANCE = RebalanceFleet()
ONE, TWO, THREE = (replace(INSTANCE, id=each, namespace=f"argocd-{each}") for each in ("one", "two", "three"))
DRAINING = replace(ONE, state="draining")
SOUTH = replace(TWO, engine_cluster="south")
FOUR_DRAINING = replace(DRAINING, id="four", namespace="argocd-four")
SOUTH_FOUR = replace(SOUTH, id="four", namespace="argocd-4")
EVEN = {"one": 10, "two": 10}


def fleet(on: Mapping[str, int], *instances: EngineInstanceRow, at_engines_cluster: int = 0) -> Fleet:
    """With so many tenants on each instance, by its id; each has two Applications, and a project."""
    names = [name for name, count in on.items() for _ in range(count)]
    tenants = {
        ("local", f"team-{n}"): TenantHere(UUID(int=n + 1), n % 3, name, 2, at_engines_cluster, load=3)
        for n, name in enumerate(names)
    }
    held = {name: Holding(count, 2 * count, objects=True) for name, count in on.items()}
    return loaded_fleet({CLUSTER.id: CLUSTER}, {each.id: each for each in instances}, held, tenants)


def ways(before: Fleet, order: RebalanceFleet | RebalanceInstances = REBALANCE) -> Counter[tuple[str, str]]:
    """How many tenants the order has go from which instance to which."""
    return Counter((each.source, each.target) for each in decided(before, order).moves_ordered)


def test_instance_when_added_then_it_gets_its_share_and_no_tenant_goes_elsewhere() -> None:
    before = fleet({"one": 10, "two": 10}, ONE, TWO, THREE)
    assert set(ways(before)) == {("one", "three"), ("two", "three")}
    assert outcome(decided(before, REBALANCE)) == ("accepted", "tenants that move: 6 of 20")


def test_instance_when_draining_then_all_its_tenants_go_to_those_that_accept() -> None:
    before = fleet({"one": 6, "two": 3, "three": 3}, DRAINING, TWO, THREE)
    assert ways(before) == {("one", "two"): 3, ("one", "three"): 3}


CLOSED = frozenset({"three"})


def test_instance_when_no_gate_has_let_its_release_in_then_the_others_alone_share_what_they_carry() -> None:
    """What an aborted rollout has left in a ring, or what waits in one until a rollout comes to it."""
    before = replace(fleet({"one": 16, "two": 8}, ONE, TWO, THREE), closed=CLOSED)
    assert ways(before) == {("one", "two"): 4}
    assert ways(replace(fleet(EVEN, ONE, TWO, THREE), closed=CLOSED)) == {}


def test_instance_when_no_gate_has_let_its_release_in_then_its_tenants_stay_unless_it_drains() -> None:
    before = replace(fleet({"one": 5, "two": 5, "three": 2}, ONE, TWO, THREE), closed=CLOSED)
    assert ways(before) == {}
    assert ways(before.with_instance(replace(THREE, state="draining"))) == {("three", "one"): 1, ("three", "two"): 1}


def test_instance_when_no_gate_has_let_its_release_in_then_an_operator_moves_a_tenant_there_all_the_same() -> None:
    before = replace(fleet(EVEN, ONE, TWO, THREE), closed=CLOSED)
    assert outcome(decided(before, MoveTenant("local", "team-0", "three"))) == ("accepted", "")


def test_part_when_its_instance_drains_then_it_goes_to_where_the_tenant_is_not_on_yet_within_the_cluster() -> None:
    before = fleet({"one": 1, "two": 1}, DRAINING, TWO, THREE, SOUTH_FOUR)
    whole = before.tenants["local", "team-1"]
    part = replace(whole, engine_instance_id="one", is_split=True)
    tenants = {("local", "team-1"): replace(whole, is_split=True), ("local", "team-1@one"): part}
    assert ways(with_tenants(before, tenants)) == {("one", "three"): 1}


class CountedTenants(dict[TenantName, TenantHere]):
    """Tells how often somebody has looked at all of them."""

    looks = 0

    def values(self) -> dict_values[TenantName, TenantHere]:
        self.looks += 1
        return super().values()


@pytest.mark.parametrize("count", [10, 100])
def test_order_when_many_tenants_move_then_it_looks_at_all_of_them_as_often_as_for_few(count: int) -> None:
    before = fleet({"one": count, "two": 0}, DRAINING, TWO)
    tenants = CountedTenants(before.tenants)
    assert len(decided(with_tenants(before, tenants), REBALANCE).moves_ordered) == count
    assert tenants.looks == 0


def test_load_when_a_part_moves_then_the_rest_counts_where_it_is() -> None:
    before = fleet({"one": 1}, ONE, TWO, THREE)
    (whole,) = before.tenants.values()
    tenants = {("local", "team-0"): whole, ("local", "team-0@two"): replace(whole, engine_instance_id="two")}
    move = ordered_move(UUID(int=9), ("local", "team-0@two"), tenants["local", "team-0@two"], "three", "ada", NOW)
    moving = with_tenants(before, tenants).with_move(move)
    assert load_staying(moving) == {"one": 3, "three": 3}


def test_moves_when_more_than_may_go_on_at_once_then_the_rest_waits() -> None:
    before = fleet({"one": 9, "two": 0}, DRAINING, TWO)
    moves = decide_orders([ordered(REBALANCE)], before, NOW, Policy(moves_at_once=4)).moves_ordered
    assert Counter(move.step for move in moves) == {"reserved": 4, "ordered": 5}
    assert len({move.id for move in moves}) == 9
    assert moves == decide_orders([ordered(REBALANCE)], before, NOW, Policy(moves_at_once=4)).moves_ordered


LEFT_ALONE: dict[str, tuple[Fleet, str, str]] = {
    "even": (fleet(EVEN, ONE, TWO), "unchanged", "each instance carries what it should"),
    "without tenants": (fleet({}, ONE, TWO), "unchanged", "each instance carries what it should"),
    "of one instance": (fleet({"one": 9}, ONE), "unchanged", "each instance carries what it should"),
    "in another region": (fleet({"one": 9}, ONE, replace(TWO, region="us")), "unchanged", "carries what it should"),
    "of another engine": (fleet({"one": 9}, ONE, replace(TWO, engine="flux")), "unchanged", "carries what it should"),
    "nowhere to go": (
        fleet({"one": 9}, DRAINING),
        "refused",
        "no tenant moves, and 9 cannot: no other instance takes tenants of engine instance one",
    ),
    "draining all at once": (fleet(EVEN, DRAINING, replace(TWO, state="draining")), "refused", "and 20 cannot"),
    "beside a full one alone": (
        fleet({"one": 1}, DRAINING, replace(TWO, state="full")),
        "refused",
        "no tenant moves, and 1 cannot: engine instance two is full",
    ),
    "draining, of a workspace that has no other to itself": (
        fleet({"one": 1}, replace(DRAINING, dedicated_to="local"), TWO),
        "refused",
        "1 cannot: no other instance that workspace local has to itself takes tenants of engine instance one",
    ),
    "draining, of a workspace whose own is not ready": (
        fleet({"one": 1}, DRAINING, replace(TWO, dedicated_to="local", state="provisioning"), THREE),
        "refused",
        "1 cannot: no other instance that workspace local has to itself takes tenants of engine instance one",
    ),
    "draining, of a workspace whose own is of another region": (
        fleet({"one": 1}, DRAINING, replace(TWO, dedicated_to="local", region="us")),
        "refused",
        "1 cannot: no other instance takes tenants of engine instance one",
    ),
    "bound to the cluster that is given up": (
        fleet({"one": 1}, DRAINING, SOUTH, at_engines_cluster=1),
        "refused",
        "no tenant moves, and 1 cannot: no other instance takes tenants of engine instance one",
    ),
}


@pytest.mark.parametrize(("before", "result", "words"), LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_fleet_when_nobody_can_or_need_move_then_nothing_changes_and_the_rule_is_named(
    before: Fleet, result: str, words: str
) -> None:
    changes = decided(before, REBALANCE)
    assert outcome(changes)[0] == result
    assert words in outcome(changes)[1]
    assert changes.moves_ordered == ()


def test_instance_when_others_have_no_room_for_all_of_its_tenants_then_those_that_fit_go_and_the_rest_is_counted() -> (
    None
):
    before = fleet({"one": 5, "two": 0}, DRAINING, replace(TWO, capacity=7))
    changes = decided(before, REBALANCE)
    assert len(changes.moves_ordered) == 3
    rule = "engine instance two has room for 1 Applications, and the tenant has 2; 'gitopsctl engines list' shows where"
    assert outcome(changes) == ("accepted", f"tenants that move: 3 of 5; 2 cannot: {rule} there is more")


def test_tenants_when_they_name_environments_then_they_leave_their_engine_cluster() -> None:
    assert ways(fleet({"one": 4}, DRAINING, SOUTH)) == {("one", "two"): 4}


def test_orders_when_an_instance_is_drained_before_them_in_one_batch_then_it_is_emptied() -> None:
    before = fleet(EVEN, ONE, TWO)
    changes = decided(before, DrainEngineInstance("one"), REBALANCE)
    assert Counter(move.source for move in changes.moves_ordered) == {"one": 10}


def test_order_when_it_comes_twice_in_one_batch_then_the_second_finds_all_on_their_way() -> None:
    before = fleet({"one": 9, "two": 0}, ONE, TWO)
    first, second = decided(before, REBALANCE, REBALANCE).fleet_orders
    assert (first.outcome, first.message) == ("accepted", "tenants that move: 4 of 9")
    assert (second.outcome, second.message[:63]) == (
        "unchanged",
        "each instance will carry what it should: 4 are being moved, as ",
    )


def test_order_when_a_tenant_was_moved_before_it_then_it_counts_where_it_will_be() -> None:
    before = fleet({"one": 9, "two": 0}, ONE, TWO)
    changes = decided(before, MoveTenant("local", "team-0", "two"), REBALANCE)
    assert [each.outcome for each in changes.fleet_orders] == ["accepted", "accepted"]
    assert Counter(move.target for move in changes.moves_ordered) == {"two": 4}


@pytest.mark.parametrize("step", ["cancelling", "reserved"])
def test_order_when_a_tenant_goes_back_then_it_counts_where_it_was_and_others_go(step: MoveStep) -> None:
    before = fleet({"one": 9, "two": 0}, ONE, TWO)
    first = next(iter(before.tenants.values()))
    back = replace(MOVE, tenant_id=first.id, source="one", target="two", step=step, is_cancelled=True)
    moves = decided(replace(before, moves={first.id: back}), REBALANCE).moves_ordered
    assert len([move for move in moves if move.tenant_id != first.id]) == 4


def test_move_when_a_rebalance_ordered_it_then_it_is_the_tenants_and_names_who_did() -> None:
    moves = decided(fleet({"one": 1}, DRAINING, TWO), REBALANCE).moves_ordered
    (move,) = moves
    wanted = Move(
        id=move.id, tenant_id=UUID(int=1), workspace="local", namespace="team-0", partition=0, source="one",
        target="two", step="reserved", is_cancelled=False, reported="{}", message="", actor="ada",
        ordered_at=ordered(REBALANCE).ordered_at, step_since=NOW, due_at=NOW,
    )  # fmt: skip
    assert move == wanted
    assert move.id != ordered(REBALANCE).id


def test_instances_when_named_then_their_tenants_alone_move_and_all_others_stay() -> None:
    """Of those that are not named one carries too much, too, and one drains."""
    before = fleet({"one": 12, "two": 12, "three": 0, "four": 3}, ONE, TWO, THREE, FOUR_DRAINING)
    assert set(ways(before)) > {("one", "three"), ("two", "three")}
    assert ways(before, RebalanceInstances(("one",))) == {("one", "three"): 4}
    assert ways(before, RebalanceInstances(("four",))) == {("four", "three"): 3}
    both = decided(before, RebalanceInstances(("one", "four")))
    assert {move.source for move in both.moves_ordered} == {"one", "four"}
    assert outcome(both) == ("accepted", f"tenants that move: {len(both.moves_ordered)} of 15")


def test_instances_when_all_are_named_then_the_order_decides_as_one_of_the_whole_fleet() -> None:
    before = fleet({"one": 12, "two": 7, "three": 0, "four": 3}, ONE, TWO, THREE, FOUR_DRAINING)
    named, whole = decided(before, RebalanceInstances(tuple(before.instances))), decided(before, REBALANCE)
    assert named.moves_ordered == whole.moves_ordered
    assert outcome(named) == outcome(whole)


def test_instance_when_named_and_it_carries_what_it_should_then_nobody_moves_though_others_carry_too_much() -> None:
    before = fleet({"one": 6, "two": 12, "three": 2}, ONE, TWO, THREE)
    assert {source for source, _ in ways(before)} == {"two"}
    changes = decided(before, RebalanceInstances(("one",)))
    assert (outcome(changes), changes.moves_ordered) == (
        ("unchanged", "each instance that is named carries what it should"),
        (),
    )


def test_instance_when_named_again_then_those_that_are_leaving_it_are_counted() -> None:
    before = fleet({"one": 9, "two": 0}, ONE, TWO)
    order = RebalanceInstances(("one",))
    changes = decided(before, MoveTenant("local", "team-8", "two"), order, order)
    assert [(each.outcome, each.message[:79]) for each in changes.fleet_orders[1:]] == [
        ("accepted", "tenants that move: 3 of 9"),
        ("unchanged", "each instance that is named will carry what it should: 4 are being moved, as 'g"),
    ]


def test_instance_when_named_and_its_tenants_cannot_leave_then_those_of_others_are_not_counted() -> None:
    before = fleet({"one": 2, "two": 5}, DRAINING, replace(TWO, state="draining"))
    assert outcome(decided(before, RebalanceInstances(("one",)))) == (
        "refused",
        "no tenant moves, and 2 cannot: no other instance takes tenants of engine instance one",
    )


def test_tenant_when_pinned_to_an_instance_that_is_named_then_it_stays() -> None:
    orders = PinTenant("local", "team-0", ""), DrainEngineInstance("one"), RebalanceInstances(("one",))
    changes = decided(fleet({"one": 3, "two": 0}, ONE, TWO), *orders)
    assert {move.namespace for move in changes.moves_ordered} == {"team-1", "team-2"}


UNKNOWN = "there is no engine instance 'nine'; 'gitopsctl engines list' shows them"
UNNAMEABLE: dict[str, tuple[Fleet, str]] = {
    "not there": (fleet({"one": 9}, ONE, TWO), UNKNOWN),
    "retired": (
        fleet({"one": 9}, ONE, TWO, replace(THREE, id="nine", state="retired")),
        "engine instance nine is retired: 'gitopsctl engines list' shows others",
    ),
    "rolled out": (
        replace(fleet({"one": 9}, ONE, TWO, replace(THREE, id="nine", ring="canary")), rollout=ROLLOUT),
        "ring canary is being rolled out, which moves its tenants: 'gitopsctl engines rollout status'",
    ),
}


@pytest.mark.parametrize(("before", "rule"), UNNAMEABLE.values(), ids=UNNAMEABLE)
def test_order_when_it_names_an_instance_whose_tenants_it_cannot_move_then_it_is_refused_as_a_whole(
    before: Fleet, rule: str
) -> None:
    changes = decided(before, RebalanceInstances(("one", "nine")))
    assert (outcome(changes), changes.moves_ordered) == (("refused", rule), ())
