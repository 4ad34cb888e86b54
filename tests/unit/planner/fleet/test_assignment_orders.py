"""Orders that say where tenants are placed: what each rule accepts, refuses and leaves as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from services.common.messages import (
    AddEngineInstance,
    AssignWorkspace,
    DedicateEngineInstance,
    DrainEngineInstance,
    MoveTenant,
    Order,
    PinTenant,
    RebalanceFleet,
    RetireEngineInstance,
    UnpinTenant,
)
from services.planner.domain.fleet.fleet import Fleet, Holding
from services.planner.domain.fleet.loaded_parts import TenantHere
from services.planner.domain.fleet.placement.assignments import PlacementRules, TenantPin, WorkspaceAssignment
from services.planner.domain.fleet.rows import EngineInstanceRow, Move
from tests.unit.planner.fleet.loaded_fleet import loaded_fleet, with_tenants
from tests.unit.planner.fleet.test_fleet_orders import CLUSTER, INSTANCE, decided, outcome
from tests.unit.planner.fleet.test_move_orders import MOVE
from tests.unit.planner.given import at

SOUTH = replace(CLUSTER, id="south", region="us")
ONE = INSTANCE
TWO = replace(INSTANCE, id="two", namespace="argocd-2", ring="canary")
THREE = replace(INSTANCE, id="three", namespace="argocd-3", engine_cluster="south", region="us")
DEDICATED = replace(TWO, engine_class="dedicated", dedicated_to="team")
PROVISIONING: dict[str, Any] = {"state": "provisioning", "due_at": at(2000)}
HERE = TenantHere(UUID(int=1), 3, "one", 4)
ASSIGNED = WorkspaceAssignment("team", "eu", "general", at(5))
PIN = TenantPin("team", "web", "one", at(5))
EU_GENERAL = AssignWorkspace("team", "eu", "general")
PINNED = "tenant team/web is pinned to engine instance one: 'gitopsctl engines unpin' it first"
NO_NINE = "there is no engine instance 'nine'; 'gitopsctl engines list' shows them"


def fleet(
    *instances: EngineInstanceRow,
    assigned: Sequence[WorkspaceAssignment] = (),
    pins: Sequence[TenantPin] = (),
    on_one: Sequence[str] = (),
    moves: Sequence[Move] = (),
) -> Fleet:
    """With a tenant ``web`` of each of these workspaces on instance one."""
    tenants = {(each, "web"): replace(HERE, id=UUID(int=n + 1)) for n, each in enumerate(on_one)}
    known = instances or (ONE, TWO, THREE)
    return loaded_fleet(
        {each.id: each for each in (CLUSTER, SOUTH)},
        {each.id: each for each in known},
        {"one": Holding(len(tenants), len(tenants), objects=True)} if tenants else {},
        tenants,
        {each.tenant_id: each for each in moves},
        rules=PlacementRules({each.workspace: each for each in assigned}, {each.tenant: each for each in pins}),
    )


DECISIONS: dict[str, tuple[Fleet, Order, str, str]] = {
    "a workspace to region and ring": (fleet(), EU_GENERAL, "accepted", "with 'gitopsctl engines rebalance'"),
    "a workspace to a ring alone": (fleet(), AssignWorkspace("team", "", "canary"), "accepted", ""),
    "as it is": (fleet(assigned=[ASSIGNED]), EU_GENERAL, "unchanged", "it is assigned so"),
    "otherwise than it is": (fleet(assigned=[ASSIGNED]), AssignWorkspace("team", "us", ""), "accepted", ""),
    "to nothing": (fleet(assigned=[ASSIGNED]), AssignWorkspace("team", "", ""), "accepted", ""),
    "to nothing again": (fleet(), AssignWorkspace("team", "", ""), "unchanged", "it is assigned to nothing"),
    "by an order that is older": (
        fleet(assigned=[replace(ASSIGNED, assigned_at=at(99))]),
        AssignWorkspace("team", "us", ""),
        "unchanged",
        "a newer order",
    ),
    "to a region that is none": (
        fleet(),
        AssignWorkspace("team", "mars", ""),
        "refused",
        "there is no region 'mars', only eu, us",
    ),
    "to a region though no cluster has one": (
        replace(fleet(), clusters={"north": replace(CLUSTER, region="")}),
        AssignWorkspace("team", "eu", ""),
        "refused",
        "there is no region 'eu': none is known",
    ),
    "to a ring that is none": (
        fleet(),
        AssignWorkspace("team", "eu", "late"),
        "refused",
        "there is no ring 'late', only canary, early, general",
    ),
    "to where no instance is": (
        fleet(),
        AssignWorkspace("team", "us", "canary"),
        "refused",
        "there is no engine instance in region 'us' and ring 'canary' that workspace team may be placed on; add one "
        "with 'gitopsctl engines add'",
    ),
    "to where all are another's": (
        fleet(ONE, replace(THREE, dedicated_to="other")),
        AssignWorkspace("team", "us", ""),
        "refused",
        "there is no engine instance in region 'us'",
    ),
    "to where all are retired": (
        fleet(ONE, replace(THREE, state="retired")),
        AssignWorkspace("team", "us", ""),
        "refused",
        "there is no engine instance in region 'us'",
    ),
    "to where none is ready yet": (
        fleet(ONE, replace(THREE, **PROVISIONING)),
        AssignWorkspace("team", "us", ""),
        "refused",
        "no engine instance in region 'us' is ready yet that workspace team may be placed on: 'gitopsctl engines show",
    ),
    "to where the only one has failed": (
        fleet(ONE, replace(THREE, state="failed")),
        AssignWorkspace("team", "us", ""),
        "refused",
        "'gitopsctl engines show three' shows how far that is",
    ),
    "to where none takes tenants but one is ready": (
        fleet(ONE, replace(THREE, state="draining")),
        AssignWorkspace("team", "us", ""),
        "accepted",
        "",
    ),
    "away from its own instance": (
        fleet(ONE, DEDICATED),
        EU_GENERAL,
        "refused",
        "ring of engine instance two is 'canary', not 'general': 'gitopsctl engines dedicate two --shared' first",
    ),
    "away from a pin": (
        fleet(pins=[PIN]),
        AssignWorkspace("team", "us", ""),
        "refused",
        "is pinned, and region of engine instance one is 'eu', not 'us': 'gitopsctl engines unpin' it first",
    ),
    "a name that is none": (fleet(), AssignWorkspace("a/b", "eu", ""), "refused", "a workspace's name is"),
    "an empty instance": (fleet(), DedicateEngineInstance("two", "team"), "accepted", "that are elsewhere go there"),
    "one that has its tenants": (fleet(on_one=["team"]), DedicateEngineInstance("one", "team"), "accepted", ""),
    "one that it has": (
        fleet(ONE, DEDICATED),
        DedicateEngineInstance("two", "team"),
        "unchanged",
        "it is dedicated to workspace team",
    ),
    "one that is shared to nobody": (fleet(), DedicateEngineInstance("two", ""), "unchanged", "it is shared"),
    "one back to all": (fleet(ONE, DEDICATED), DedicateEngineInstance("two", ""), "accepted", ""),
    "one that is not there": (fleet(), DedicateEngineInstance("nine", "team"), "refused", NO_NINE),
    "one that is retired": (
        fleet(ONE, replace(TWO, state="retired")),
        DedicateEngineInstance("two", "team"),
        "refused",
        "engine instance two is retired, for good: 'gitopsctl engines add' adds another",
    ),
    "one with tenants of others": (
        fleet(on_one=["team", "other"]),
        DedicateEngineInstance("one", "team"),
        "refused",
        "engine instance one has tenants of other workspaces: other; once none is pinned, 'gitopsctl engines drain "
        "one' and 'gitopsctl engines rebalance' move them",
    ),
    "one that a tenant of others is coming to": (
        fleet(moves=[replace(MOVE, workspace="other", source="one", target="two")]),
        DedicateEngineInstance("two", "team"),
        "refused",
        "engine instance two has tenants of other workspaces: other",
    ),
    "one that a tenant of others is pinned to": (
        fleet(pins=[replace(PIN, workspace="other")]),
        DedicateEngineInstance("one", "team"),
        "refused",
        "engine instance one has tenants of other workspaces: other",
    ),
    "one that former tenants are still on": (
        replace(fleet(), holdings={"two": Holding(1, 0, objects=True)}),
        DedicateEngineInstance("two", "team"),
        "refused",
        "engine instance two still has objects of tenants that have left it: its agent removes them",
    ),
    "one outside its assignment": (
        fleet(assigned=[ASSIGNED]),
        DedicateEngineInstance("two", "team"),
        "refused",
        "workspace team is assigned to region 'eu' and ring 'general', and ring of engine instance two is 'canary'",
    ),
    "the last one of another's assignment": (
        fleet(assigned=[replace(ASSIGNED, workspace="other", ring="canary")]),
        DedicateEngineInstance("two", "team"),
        "refused",
        "workspace other is assigned to region 'eu' and ring 'canary': no engine instance would be left for it",
    ),
    "the last shared one": (
        fleet(ONE),
        DedicateEngineInstance("one", "team"),
        "refused",
        "no shared engine instance would be left",
    ),
    "the last shared one that is ready": (
        fleet(ONE, replace(TWO, state="failed"), replace(THREE, **PROVISIONING)),
        DedicateEngineInstance("one", "team"),
        "refused",
        "no shared engine instance would be left for tenants of other workspaces that is ready",
    ),
    "retire the last shared one that is ready": (
        fleet(ONE, DEDICATED, replace(THREE, **PROVISIONING)).with_holdings({"two": Holding(tenants=1)}),
        RetireEngineInstance("one"),
        "refused",
        "no shared engine instance would be left for tenants of other workspaces that is ready; add one first",
    ),
    "retire a workspace's own": (fleet(ONE, DEDICATED), RetireEngineInstance("two"), "accepted", ""),
    "retire the last ready one that an assigned workspace has to itself": (
        fleet(ONE, DEDICATED, replace(DEDICATED, id="four", **PROVISIONING), assigned=[replace(ASSIGNED, ring="")]),
        RetireEngineInstance("two"),
        "refused",
        "workspace team is assigned to region 'eu': no engine instance would be left for it that is ready",
    ),
    "retire the last ready one that a workspace has to itself": (
        fleet(ONE, DEDICATED, replace(DEDICATED, id="four", state="failed"), on_one=["other"]),
        RetireEngineInstance("two"),
        "refused",
        "workspace team has an engine instance to itself: no engine instance would be left for it that is ready; add "
        "one first, or retire what is not",
    ),
    "retire the last ready one that a workspace has to itself before there is any tenant": (
        fleet(ONE, DEDICATED, replace(DEDICATED, id="four", state="failed")),
        RetireEngineInstance("two"),
        "accepted",
        "",
    ),
    "the last ready one that a workspace has to itself back to all": (
        fleet(ONE, DEDICATED, replace(DEDICATED, id="four", **PROVISIONING)),
        DedicateEngineInstance("two", ""),
        "refused",
        "workspace team has an engine instance to itself: no engine instance would be left for it that is ready",
    ),
    "the last ready one that a workspace has to itself to another": (
        fleet(ONE, DEDICATED, replace(DEDICATED, id="four", **PROVISIONING)),
        DedicateEngineInstance("two", "other"),
        "refused",
        "workspace team has an engine instance to itself: no engine instance would be left for it that is ready",
    ),
    "one that is not ready yet to a workspace that shares a ready one": (
        fleet(ONE, replace(TWO, **PROVISIONING)),
        DedicateEngineInstance("two", "team"),
        "refused",
        "workspace team has an engine instance to itself: no engine instance would be left for it that is ready",
    ),
    "retire the last ready one of an assignment": (
        fleet(ONE, replace(TWO, ring="general", **PROVISIONING), THREE, assigned=[ASSIGNED]),
        RetireEngineInstance("one"),
        "refused",
        "workspace team is assigned to region 'eu' and ring 'general': no engine instance would be left for it",
    ),
    "retire what an assignment without any ready one does not need": (
        fleet(ONE, TWO, replace(THREE, **PROVISIONING), assigned=[replace(ASSIGNED, region="us")]),
        RetireEngineInstance("two"),
        "accepted",
        "",
    ),
    "retire the last one of an assignment": (
        fleet(assigned=[ASSIGNED]),
        RetireEngineInstance("one"),
        "refused",
        "workspace team is assigned to region 'eu' and ring 'general': no engine instance would be left for it",
    ),
    "add one that is dedicated outside its assignment": (
        fleet(assigned=[ASSIGNED]),
        AddEngineInstance("four", "south", "argocd-4", "argocd", "dedicated", "team", "general", 1),
        "refused",
        "region of engine instance four is 'us', not 'eu'",
    ),
    "pin": (fleet(on_one=["team"]), PinTenant("team", "web", ""), "accepted", ""),
    "pin where it is": (fleet(on_one=["team"]), PinTenant("team", "web", "one"), "accepted", ""),
    "pin one that is to come": (fleet(), PinTenant("team", "web", "two"), "accepted", ""),
    "pin again": (fleet(pins=[PIN]), PinTenant("team", "web", "one"), "unchanged", "pinned to engine instance one"),
    "pin elsewhere": (
        fleet(pins=[PIN]),
        PinTenant("team", "web", "two"),
        "refused",
        PINNED,
    ),
    "pin where it is not": (
        fleet(on_one=["team"]),
        PinTenant("team", "web", "two"),
        "refused",
        "tenant team/web is on engine instance one: 'gitopsctl engines move' it first",
    ),
    "pin one that nobody knows": (fleet(), PinTenant("team", "web", ""), "refused", "there is no tenant 'team/web'"),
    "pin to what is not there": (fleet(), PinTenant("team", "web", "nine"), "refused", NO_NINE),
    "pin to what is retired": (
        fleet(ONE, replace(TWO, state="retired")),
        PinTenant("team", "web", "two"),
        "refused",
        "engine instance two is retired: 'gitopsctl engines list' shows others",
    ),
    "pin to what is not ready yet": (
        fleet(ONE, replace(TWO, **PROVISIONING)),
        PinTenant("team", "web", "two"),
        "refused",
        "engine instance two is provisioning: 'gitopsctl engines show two' shows how far that is",
    ),
    "pin to what never was ready": (
        fleet(ONE, replace(TWO, state="failed")),
        PinTenant("team", "web", "two"),
        "refused",
        "engine instance two is failed: 'gitopsctl engines show two' shows how far that is",
    ),
    "pin to what drains": (
        fleet(ONE, replace(TWO, state="drained")),
        PinTenant("team", "web", "two"),
        "refused",
        "engine instance two is drained: 'gitopsctl engines undrain two' has it take tenants again",
    ),
    "pin to what is another's": (
        fleet(ONE, replace(DEDICATED, dedicated_to="other")),
        PinTenant("team", "web", "two"),
        "refused",
        "engine instance two is dedicated to workspace other",
    ),
    "pin outside the assignment": (
        fleet(assigned=[ASSIGNED]),
        PinTenant("team", "web", "three"),
        "refused",
        "region of engine instance three is 'us', not 'eu'",
    ),
    "pin one that is moved": (
        fleet(on_one=["team"], moves=[replace(MOVE, workspace="team", namespace="web")]),
        PinTenant("team", "web", ""),
        "refused",
        "tenant team/web is being moved to two: preparing; wait for its end, or 'gitopsctl engines cancel-move' it",
    ),
    "pin a namespace that is none": (fleet(), PinTenant("team", "A", "one"), "refused", "a namespace is a DNS label"),
    "unpin": (fleet(pins=[PIN]), UnpinTenant("team", "web"), "accepted", ""),
    "unpin what is not": (fleet(on_one=["team"]), UnpinTenant("team", "web"), "unchanged", "it is not pinned"),
    "unpin one that nobody knows": (fleet(), UnpinTenant("team", "web"), "refused", "there is no tenant 'team/web'"),
    "retire what a tenant to come is pinned to": (
        fleet(pins=[PIN]),
        RetireEngineInstance("one"),
        "refused",
        "tenants are pinned to engine instance one: team/web; 'gitopsctl engines unpin' them first",
    ),
    "move a pinned one": (
        fleet(on_one=["team"], pins=[PIN]),
        MoveTenant("team", "web", "two"),
        "refused",
        PINNED,
    ),
    "move out of the region": (
        fleet(on_one=["team"]),
        MoveTenant("team", "web", "three"),
        "refused",
        "region of engine instance three is 'us', not 'eu'",
    ),
    "move to the region that it is assigned to": (
        fleet(on_one=["team"], assigned=[replace(ASSIGNED, region="us")]),
        MoveTenant("team", "web", "three"),
        "accepted",
        "",
    ),
    "move out of the ring": (
        fleet(on_one=["team"], assigned=[ASSIGNED]),
        MoveTenant("team", "web", "two"),
        "refused",
        "ring of engine instance two is 'canary', not 'general'",
    ),
}


@pytest.mark.parametrize(("before", "order", "expected", "words"), DECISIONS.values(), ids=DECISIONS)
def test_order_when_it_is_about_placement_then_its_outcome_names_the_rule(
    before: Fleet, order: Order, expected: str, words: str
) -> None:
    changes = decided(before, order)
    result, message = outcome(changes)
    assert result == expected, message
    assert words in message
    if expected != "accepted":
        assert (changes.affects_placement, changes.moves_ordered) == (False, ())


def test_workspace_when_assigned_and_taken_back_then_its_row_comes_and_goes() -> None:
    assigned = decided(fleet(), EU_GENERAL)
    assert assigned.assignments == (WorkspaceAssignment("team", "eu", "general", at(10)),)
    taken_back = decided(fleet(assigned=[ASSIGNED]), AssignWorkspace("team", "", ""))
    assert (taken_back.assignments, taken_back.assignments_gone) == ((), ("team",))


def test_tenant_when_pinned_and_unpinned_then_its_row_says_since_when_and_goes() -> None:
    assert decided(fleet(on_one=["team"]), PinTenant("team", "web", "")).pins == (replace(PIN, pinned_at=at(10)),)
    unpinned = decided(fleet(pins=[PIN]), UnpinTenant("team", "web"))
    assert (unpinned.pins, unpinned.pins_gone) == ((), (("team", "web"),))


def test_instance_when_dedicated_and_shared_again_then_its_class_says_so() -> None:
    (own,) = decided(fleet(), DedicateEngineInstance("two", "team")).engine_instances
    assert (own.engine_class, own.dedicated_to, own.ordered_at) == ("dedicated", "team", at(10))
    (shared,) = decided(fleet(ONE, DEDICATED), DedicateEngineInstance("two", "")).engine_instances
    assert (shared.engine_class, shared.dedicated_to) == ("shared", "")


def test_instance_when_drained_and_rebalanced_then_a_pinned_tenant_stays_and_the_rule_is_told() -> None:
    before = fleet(on_one=["team", "other"], pins=[PIN])
    changes = decided(before, DrainEngineInstance("one"), RebalanceFleet())
    assert [move.workspace for move in changes.moves_ordered] == ["other"]
    assert changes.fleet_orders[-1].message == f"tenants that move: 1 of 2; 1 cannot: {PINNED}"


@pytest.mark.parametrize(("region", "ring", "target"), [("us", "", "three"), ("", "canary", "two")])
def test_fleet_when_rebalanced_then_tenants_go_where_their_workspace_is_assigned_and_no_other_leaves_its_region(
    region: str, ring: str, target: str
) -> None:
    changes = decided(fleet(on_one=["team", "other"]), AssignWorkspace("team", region, ring), RebalanceFleet())
    went = {(move.workspace, move.target) for move in changes.moves_ordered}
    assert ("team", target) in went
    assert ("other", "three") not in went


def test_tenant_when_its_deployments_are_in_its_engines_cluster_then_it_stays_and_its_assignment_is_told() -> None:
    before = fleet(on_one=["team"], assigned=[replace(ASSIGNED, region="us")])
    bound = replace(HERE, of_engine_cluster=1)
    changes = decided(with_tenants(before, {("team", "web"): bound}), RebalanceFleet())
    assert outcome(changes) == (
        "refused",
        "no tenant moves, and 1 cannot: no instance that may have it takes tenant team/web, and "
        "region of engine instance one is 'eu', not 'us'",
    )


RULES = PlacementRules({"team": ASSIGNED}, {PIN.tenant: PIN})


@pytest.mark.parametrize(
    ("read", "is_same"),
    [
        (RULES, True),
        (PlacementRules({"team": replace(ASSIGNED, ring="canary")}, RULES.pins), False),
        (PlacementRules({}, RULES.pins), False),
        (PlacementRules(RULES.assignments, {PIN.tenant: replace(PIN, engine_instance_id="two")}), False),
        (PlacementRules(RULES.assignments), False),
    ],
    ids=["as they were", "assigned otherwise", "assigned no more", "pinned elsewhere", "pinned no more"],
)
def test_rules_when_read_again_for_some_tenants_then_all_others_are_copied_only_if_those_have_changed(
    read: PlacementRules, is_same: bool
) -> None:
    other = replace(ASSIGNED, workspace="other")
    before = RULES.with_assignment(other)
    after = before.with_read([PIN.tenant], read)
    assert (after is before) == is_same
    assert after == read.with_assignment(other)
