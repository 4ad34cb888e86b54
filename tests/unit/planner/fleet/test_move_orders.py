"""Orders to move tenants: what each rule accepts, refuses and leaves as it is; which moves begin, and which go back."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from services.common.messages import CancelMove, MoveTenant, Order, RetireEngineInstance
from services.planner.domain.fleet.fleet import Fleet, Holding
from services.planner.domain.fleet.loaded_parts import TenantHere
from services.planner.domain.fleet.moves.move_orders import begin_moves
from services.planner.domain.fleet.orders import decide_orders
from services.planner.domain.fleet.reports.report_rows import InstanceHealth
from services.planner.domain.fleet.rows import CANCELLABLE, EngineInstanceRow, Move, MovePath, MoveStep
from services.planner.domain.policy import Policy
from tests.unit.planner.fleet.loaded_fleet import loaded_fleet, with_tenants
from tests.unit.planner.fleet.test_fleet_orders import CLUSTER, INSTANCE, NOW, decided, outcome
from tests.unit.planner.given import NAMESPACE, WORKSPACE, at

TWO = replace(INSTANCE, id="two", namespace="argocd-2")
NORTH = replace(TWO, engine_cluster="north-2")
HERE = TenantHere(UUID(int=1), 3, "one", 4)
TO_TWO = MoveTenant(WORKSPACE, NAMESPACE, "two")
CANCEL = CancelMove(WORKSPACE, NAMESPACE)
MOVE = Move(
    id=UUID(int=10), tenant_id=HERE.id, workspace=WORKSPACE, namespace=NAMESPACE, partition=3, source="one",
    target="two", step="preparing", is_cancelled=False, reported="{}", message="", actor="ada", ordered_at=at(10),
    step_since=at(11), due_at=None,
)  # fmt: skip


def fleet(target: EngineInstanceRow = TWO, held: Holding | None = None, moves: Sequence[Move] = ()) -> Fleet:
    return loaded_fleet(
        {CLUSTER.id: CLUSTER},
        {each.id: each for each in (INSTANCE, target)},
        {target.id: held} if held else {},
        {(WORKSPACE, NAMESPACE): HERE},
        {each.tenant_id: each for each in moves},
    )


def with_tenant(before: Fleet, tenant: TenantHere) -> Fleet:
    return with_tenants(before, {(WORKSPACE, NAMESPACE): tenant})


def with_health(before: Fleet, health: str, reason: str = "ControllerNotReady") -> Fleet:
    told = InstanceHealth("two", 3, health, reason, "no pod is ready", "", None, at(1), at(1), None)
    return replace(before, health={told.engine_instance_id: told})


def at_step(step: MoveStep, **changes: Any) -> Move:
    return replace(MOVE, step=step, **changes)


DECISIONS: dict[str, tuple[Fleet, Order, str, str]] = {
    "to another instance": (fleet(), TO_TWO, "accepted", ""),
    "to where it is": (fleet(), replace(TO_TWO, target="one"), "unchanged", "it is there"),
    "again": (fleet(moves=[MOVE]), TO_TWO, "unchanged", "it is being moved there: preparing"),
    "elsewhere meanwhile": (
        fleet(moves=[MOVE]),
        replace(TO_TWO, target="one"),
        "refused",
        "is being moved to two: preparing; wait for its end, or 'gitopsctl engines cancel-move' it first",
    ),
    "elsewhere too late": (
        fleet(moves=[at_step("adopting")]),
        replace(TO_TWO, target="one"),
        "refused",
        "is being moved to two: adopting; wait for its end",
    ),
    "to one that nobody added": (
        fleet(),
        replace(TO_TWO, target="six"),
        "refused",
        "there is no engine instance 'six'; 'gitopsctl engines list' shows them",
    ),
    "of nobody": (fleet(), replace(TO_TWO, namespace="x"), "refused", f"there is no tenant '{WORKSPACE}/x'"),
    "to one that drains": (
        fleet(replace(TWO, state="draining")),
        TO_TWO,
        "refused",
        "two is draining: 'gitopsctl engines undrain two' has it take tenants again",
    ),
    "to one that is not ready yet": (
        fleet(replace(TWO, state="provisioning")),
        TO_TWO,
        "refused",
        "two is provisioning: 'gitopsctl engines show two' shows how far that is",
    ),
    "to one that is retired": (
        fleet(replace(TWO, state="retired")),
        TO_TWO,
        "refused",
        "two is retired: 'gitopsctl engines list' shows others",
    ),
    "to one that is full": (
        fleet(replace(TWO, state="full")),
        TO_TWO,
        "refused",
        "two is full: 'gitopsctl engines list' shows others",
    ),
    "to one that is down": (with_health(fleet(), "Down"), TO_TWO, "refused", "two is down: no pod is ready"),
    "to one without an agent": (with_health(fleet(), "Unknown", "AgentSilent"), TO_TWO, "refused", "two is down: no"),
    "to one that is degraded": (with_health(fleet(), "Degraded"), TO_TWO, "accepted", ""),
    "without room": (
        fleet(held=Holding(deployments=2497)),
        TO_TWO,
        "refused",
        "two has room for 3 Applications, and the tenant has 4; 'gitopsctl engines list' shows where there is more",
    ),
    "to another region": (fleet(replace(TWO, region="us")), TO_TWO, "refused", "region of engine instance two is 'us'"),
    "to another engine": (fleet(replace(TWO, engine="flux")), TO_TWO, "refused", "engine of engine instance two"),
    "to another's": (fleet(replace(TWO, dedicated_to="x")), TO_TWO, "refused", "is dedicated to workspace x"),
    "to another cluster": (fleet(NORTH), TO_TWO, "accepted", ""),
    "to another cluster than it deploys to": (
        with_tenant(fleet(NORTH), replace(HERE, of_engine_cluster=2)),
        TO_TWO,
        "refused",
        "2 Applications of the tenant are deployed to that of its own",
    ),
    "within the cluster that it deploys to": (
        with_tenant(fleet(), replace(HERE, of_engine_cluster=2)),
        TO_TWO,
        "accepted",
        "",
    ),
    "to its own": (fleet(replace(TWO, dedicated_to=WORKSPACE)), TO_TWO, "accepted", ""),
    "cancelled": (fleet(moves=[MOVE]), CANCEL, "accepted", ""),
    "cancelled again": (fleet(moves=[replace(MOVE, is_cancelled=True)]), CANCEL, "unchanged", "it goes back"),
    "cancelled though it goes back": (fleet(moves=[at_step("cancelling")]), CANCEL, "unchanged", "it goes back"),
    "cancelled though it is not moved": (fleet(), CANCEL, "unchanged", "it is not being moved"),
    "cancelled too late": (
        fleet(moves=[at_step("releasing")]),
        CANCEL,
        "refused",
        "is two's from here on: releasing; wait until it is there, and 'gitopsctl engines move' it back",
    ),
}


THREE = replace(TWO, id="three", namespace="argocd-3")
PART = f"{NAMESPACE}@two"


def split(*instances: EngineInstanceRow, moves: Sequence[Move] = ()) -> Fleet:
    """The tenant has a part on the second instance."""
    before = fleet(moves=moves)
    part = replace(HERE, engine_instance_id="two", deployments=2, is_split=True)
    return with_tenants(
        replace(before, instances={**before.instances, **{each.id: each for each in instances}}),
        {(WORKSPACE, NAMESPACE): replace(HERE, is_split=True), (WORKSPACE, PART): part},
    )


def of_part(target: str) -> MoveTenant:
    return MoveTenant(WORKSPACE, PART, target)


def of_part_on_its_way() -> Move:
    return replace(MOVE, source="two", target="three")


DECISIONS |= {
    "of a part": (split(THREE), of_part("three"), "accepted", ""),
    "of a part, back": (split(), of_part("one"), "accepted", ""),
    "of a part to where it is": (split(), of_part("two"), "unchanged", "it is there"),
    "of a part that there is not": (split(), replace(of_part("one"), namespace=f"{NAMESPACE}@six"), "refused", "@six'"),
    "of a part to another cluster": (
        split(replace(THREE, engine_cluster="north-2")),
        of_part("three"),
        "refused",
        "the tenant has parts on several instances of",
    ),
    "of the rest to where a part is": (split(), TO_TWO, "refused", f"two has a part of tenant {WORKSPACE}/{NAMESPACE}"),
    "of the rest": (split(THREE), replace(TO_TWO, target="three"), "accepted", ""),
    "of a part, cancelled": (split(THREE, moves=[of_part_on_its_way()]), CancelMove(WORKSPACE, PART), "accepted", ""),
    "of a part, cancelled by the name of the rest": (
        split(THREE, moves=[of_part_on_its_way()]),
        CANCEL,
        "unchanged",
        "it is not being moved; what the tenant has on two is, to three",
    ),
    "of the rest, cancelled by the name of a part": (
        split(THREE, moves=[replace(MOVE, target="three")]),
        CancelMove(WORKSPACE, PART),
        "unchanged",
        "it is not being moved; what the tenant has on one is, to three",
    ),
    "of a part while the rest moves": (
        split(THREE, moves=[replace(MOVE, target="three")]),
        of_part("three"),
        "refused",
        "is being moved to three: preparing",
    ),
}


def test_move_when_it_is_of_a_part_then_the_row_is_of_the_tenant_and_the_instance_of_the_part() -> None:
    (move,) = decided(split(THREE), of_part("three")).moves_ordered
    assert (move.tenant_id, move.namespace, move.source, move.target) == (HERE.id, NAMESPACE, "two", "three")


@pytest.mark.parametrize(("before", "order", "expected", "words"), DECISIONS.values(), ids=DECISIONS)
def test_order_when_it_is_about_a_move_then_its_outcome_names_the_rule(
    before: Fleet, order: Order, expected: str, words: str
) -> None:
    result, message = outcome(decided(before, order))
    assert result == expected
    assert words in message


def test_move_when_accepted_then_it_begins_at_once_if_both_instances_have_a_place_for_it() -> None:
    changes = decided(fleet(), TO_TWO)
    expected = replace(MOVE, step="reserved", step_since=NOW, due_at=NOW)
    assert changes.moves_ordered == (expected,)
    assert [(each.kind, each.message) for each in changes.audit_records] == [("Move", "reserved: from one to two")]


def test_moves_when_more_are_ordered_than_may_go_on_at_once_then_the_oldest_begin() -> None:
    moves = [
        at_step("ordered", id=UUID(int=n), tenant_id=UUID(int=n), ordered_at=at(n), source=f"from-{n}")
        for n in range(1, 8)
    ]
    before = fleet(moves=[at_step("releasing", tenant_id=UUID(int=99), source="from-99"), *moves])
    begun = decide_orders([], before, NOW, Policy(moves_at_once=5)).moves_ordered
    assert [(each.tenant_id.int, each.step) for each in begun] == [(n, "reserved") for n in range(1, 5)]


def test_moves_when_others_only_wait_until_their_source_can_be_reached_then_these_take_no_place() -> None:
    fenced = [
        at_step("withdrawing", id=UUID(int=n), tenant_id=UUID(int=n), path="fenced", message="lost") for n in (1, 2)
    ]
    before = fleet(moves=[*fenced, at_step("ordered", id=UUID(int=3), tenant_id=UUID(int=3))])
    (begun,) = decide_orders([], before, NOW, Policy(moves_at_once=1)).moves_ordered
    assert (begun.tenant_id.int, begun.step) == (3, "reserved")


LEAVING: dict[str, tuple[MoveStep, str, str, bool]] = {
    "it cannot be reached": ("withdrawing", "Down", "ApiFailing", True),
    "nobody says anything of it": ("withdrawing", "Unknown", "AgentSilent", True),
    "it is down, and its agent withdraws": ("withdrawing", "Down", "ControllerNotReady", False),
    "it works": ("withdrawing", "Healthy", "", False),
    "it cannot be reached, and has the tenant still": ("releasing", "Down", "ApiFailing", False),
    "it cannot be reached, and the target has work to do": ("adopting", "Down", "ApiFailing", False),
}


@pytest.mark.parametrize(("step", "health", "reason", "is_free"), LEAVING.values(), ids=LEAVING)
@pytest.mark.parametrize("path", ["whole", "forced"])
def test_moves_when_others_withdraw_from_an_instance_that_was_lost_meanwhile_then_these_take_no_place(
    path: MovePath, step: MoveStep, health: str, reason: str, *, is_free: bool
) -> None:
    leaving = at_step(step, tenant_id=UUID(int=1), path=path, source="three")
    before = fleet(moves=[leaving, at_step("ordered", id=UUID(int=3), tenant_id=UUID(int=3))])
    told = InstanceHealth("three", 3, health, reason, "", "", None, at(1), at(1), None)
    before = replace(before, instances={**before.instances, "three": THREE}, health={"three": told})
    after = begin_moves(before, NOW, at_once=1)
    assert after.moves[UUID(int=3)].step == ("reserved" if is_free else "ordered")


@pytest.mark.parametrize(
    ("path", "begun"),
    [("whole", {"reserved": 2, "ordered": 6}), ("forced", {"reserved": 6, "ordered": 2})],
)
def test_moves_when_their_source_is_down_then_as_many_begin_as_their_targets_have_places_for(
    path: MovePath, begun: dict[str, int]
) -> None:
    targets = ("two", "three", "four")
    moves = [
        at_step("ordered", id=UUID(int=n), tenant_id=UUID(int=n), path=path, target=targets[n % 3]) for n in range(8)
    ]
    before = fleet(moves=moves)
    rows = {each: replace(TWO, id=each, namespace=f"argocd-{each}") for each in targets}
    before = replace(before, instances={**before.instances, **rows})
    after = begin_moves(before, NOW, at_once=2)
    assert Counter(move.step for move in after.moves.values()) == begun
    assert begin_moves(after, NOW, at_once=2) == after, "those under way count likewise"


def test_moves_when_one_batch_orders_more_than_there_is_room_for_then_the_rest_is_refused() -> None:
    other = TenantHere(UUID(int=2), 3, "one", 4)
    before = with_tenants(fleet(replace(TWO, capacity=7)), {(WORKSPACE, NAMESPACE): HERE, (WORKSPACE, "other"): other})
    changes = decided(before, TO_TWO, replace(TO_TWO, namespace="other"))
    assert [each.outcome for each in changes.fleet_orders] == ["accepted", "refused"]


@pytest.mark.parametrize("step", CANCELLABLE)
def test_move_when_its_target_drains_before_the_source_is_released_then_it_goes_back(step: MoveStep) -> None:
    before = fleet(replace(TWO, state="draining"), Holding(tenants=1), [at_step(step)])
    (move,) = decided(before).moves_ordered
    assert (move.is_cancelled, move.message) == (True, "engine instance two is draining")
    assert move.step == ("cancelled" if step == "ordered" else step)


def test_move_when_its_target_drains_after_the_source_was_released_then_it_goes_on() -> None:
    before = fleet(replace(TWO, state="draining"), Holding(tenants=1), [at_step("releasing")])
    assert decided(before).moves_ordered == ()


@pytest.mark.parametrize("step", [each for each in CANCELLABLE if each != "ordered"])
def test_move_when_its_target_goes_down_before_the_source_is_released_then_it_goes_back(step: MoveStep) -> None:
    before = with_health(fleet(held=Holding(tenants=1), moves=[at_step(step)]), "Down")
    (move,) = decided(before).moves_ordered
    assert (move.is_cancelled, move.message) == (True, "engine instance two is down: no pod is ready")


@pytest.mark.parametrize("step", ["ordered", "releasing", "adopting"])
def test_move_when_its_target_goes_down_before_it_has_begun_or_too_late_then_it_stays_as_it_is(step: MoveStep) -> None:
    before = fleet(held=Holding(tenants=1), moves=[at_step(step)])
    assert decided(with_health(before, "Down")).moves_ordered == ()


def test_move_when_its_tenant_is_gone_then_it_is_over() -> None:
    (move,) = decided(replace(fleet(moves=[MOVE]), gone=frozenset({HERE.id}))).moves_ordered
    assert (move.step, move.message) == ("cancelled", "the tenant is gone")


def test_instance_when_a_tenant_is_on_its_way_there_then_it_is_not_retired_and_the_move_is_named() -> None:
    before = fleet(held=Holding(tenants=1), moves=[MOVE])
    assert outcome(decided(before, RetireEngineInstance("two"))) == (
        "refused",
        f"engine instance two takes part in moves: 1, such as that of tenant {WORKSPACE}/{NAMESPACE} from one to two: "
        "preparing",
    )


def test_instance_when_it_has_still_to_give_up_a_tenant_then_it_is_not_retired_and_that_is_told() -> None:
    fenced = at_step("withdrawing", source="two", target="one", path="fenced")
    before = fleet(held=Holding(tenants=1, objects=True), moves=[fenced])
    assert outcome(decided(before, RetireEngineInstance("two"))) == (
        "refused",
        f"engine instance two takes part in moves: 1, such as that of tenant {WORKSPACE}/{NAMESPACE} from two to one: "
        "withdrawing; it has left, and 1 of them wait until the instance can be reached",
    )


def test_instance_when_tenants_are_on_it_besides_those_that_move_then_it_is_told_how_they_leave() -> None:
    before = fleet(held=Holding(tenants=2), moves=[MOVE])
    assert (
        "still has tenants: 2; 'gitopsctl engines drain two'"
        in outcome(decided(before, RetireEngineInstance("two")))[1]
    )


def test_order_when_it_is_of_a_move_then_the_audit_has_the_tenant_and_the_target() -> None:
    (record,) = decided(fleet(), TO_TWO).fleet_orders
    assert (record.kind, record.subject) == ("MoveTenant", f"{WORKSPACE}/{NAMESPACE}")
    assert json.loads(record.arguments) == {"workspace": WORKSPACE, "namespace": NAMESPACE, "target": "two"}
