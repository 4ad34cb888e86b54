"""Operators' orders about the fleet: what each rule accepts, refuses and leaves as it is."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from services.common.messages import (
    AddEngineCluster,
    AddEngineInstance,
    DrainEngineInstance,
    FleetOrder,
    InstallationPhase,
    Order,
    RetireEngineInstance,
    UndrainEngineInstance,
)
from services.planner.domain.changes import Changes
from services.planner.domain.fleet.fleet import Fleet, Holding, TenantHere
from services.planner.domain.fleet.orders import decide_orders, tenants_of
from services.planner.domain.fleet.reports.report_rows import Installation
from services.planner.domain.fleet.rows import EngineClusterRow, EngineInstanceRow
from services.planner.domain.policy import Policy
from services.planner.engines.available import ENGINES
from tests.unit.planner.fleet.loaded_fleet import loaded_fleet
from tests.unit.planner.given import at

NOW = at(1000)
CLUSTER = EngineClusterRow("north", "eu", at(0), "active", at(0))
INSTANCE = EngineInstanceRow(
    "one", "argocd-1", "argocd", "north", "eu", "shared", "", "general", 2500, "accepting", at(1), at(1)
)
OTHER = replace(INSTANCE, id="other", namespace="argocd-other")
ADDED = AddEngineInstance("two", "north", "argocd-2", "argocd", "shared", "", "general", 2500)


def fleet(instance: EngineInstanceRow = INSTANCE, held: Holding | None = None) -> Fleet:
    return loaded_fleet(
        {CLUSTER.id: CLUSTER},
        {instance.id: instance},
        {instance.id: held} if held else {},
        knows_version=knows_version,
        is_tested=lambda engine, version: ENGINES[engine].is_tested(version),
    )


def knows_version(engine: str, version: str) -> bool:
    return ENGINES[engine].knows_version(version)


def in_state(state: Any, **held: Any) -> Fleet:
    return fleet(replace(INSTANCE, state=state), Holding(**held) if held else None)


def ordered(order: Order, second: int = 10) -> FleetOrder:
    return FleetOrder(UUID(int=second), "ada", at(second), order)


def decided(fleet_before: Fleet, *orders: Order, first: int = 10) -> Changes:
    return decide_orders([ordered(each, first + n) for n, each in enumerate(orders)], fleet_before, NOW, Policy())


def outcome(changes: Changes) -> tuple[str, str]:
    (record,) = changes.fleet_orders
    return record.outcome, record.message


NOT_THERE = "there is no engine instance 'three'; 'gitopsctl engines list' shows them"
REFUSALS = {
    "a cluster that nobody added": (
        replace(ADDED, engine_cluster="south"),
        "there is no engine cluster 'south'; 'gitopsctl engine-clusters list' shows them, and "
        "'gitopsctl engine-clusters add' adds one",
    ),
    "a namespace that another instance has": (
        replace(ADDED, namespace="argocd-1"),
        "namespace argocd-1 of engine cluster north is engine instance one's: give another --namespace",
    ),
    "an id that is another instance's": (
        replace(ADDED, id="one"),
        "--namespace of engine instance one is 'argocd-1', not 'argocd-2', for good: add another one, and 'gitopsctl "
        "engines drain one' if that takes its place",
    ),
    "another capacity": (
        replace(ADDED, id="one", namespace="argocd-1", capacity=9),
        "--capacity of engine instance one is '2500', not '9', for good: add another one, and 'gitopsctl engines drain "
        "one' if that takes its place",
    ),
    "another class": (
        replace(ADDED, id="one", namespace="argocd-1", engine_class="dedicated", dedicated_to="team"),
        "--class of engine instance one is 'shared', not 'dedicated': 'gitopsctl engines dedicate one' changes",
    ),
    "of a known one a class that is none": (
        replace(ADDED, id="one", engine_class="weird"),
        "there is no class 'weird'",
    ),
    "of a known one a ring that is none": (replace(ADDED, id="one", ring="purple"), "there is no ring 'purple', only"),
    "of a known one a namespace that is no label": (
        replace(ADDED, id="one", namespace="Bad NS"),
        "a namespace is a DNS label",
    ),
    "of a known one a profile of what is not installed": (replace(ADDED, id="one", profile="hello"), "add '--version'"),
    "no capacity": (replace(ADDED, capacity=0), "a capacity is between 1 and 1000000"),
    "a capacity beyond all measure": (replace(ADDED, capacity=2**40), "a capacity is between 1 and 1000000"),
    "a dedicated one for nobody": (replace(ADDED, engine_class="dedicated"), "give it as --dedicated-to"),
    "a shared one for somebody": (
        replace(ADDED, dedicated_to="team"),
        "dedicated to no workspace: give '--class dedicated' with '--dedicated-to team', or neither",
    ),
    "a class that is none": (replace(ADDED, engine_class="own"), "there is no class 'own', only dedicated, shared"),
    "a ring that is none": (replace(ADDED, ring="late"), "there is no ring 'late', only canary, early, general"),
    "an engine that is not known": (replace(ADDED, engine="flux"), "there is no engine 'flux', only argocd"),
    "an id that is no label": (replace(ADDED, id="Two!"), "an engine instance's id is a DNS label"),
    "an id that is too long": (
        replace(ADDED, id="x" * 64),
        f"an engine instance's id is a DNS label: at most 63 of a-z, 0-9 and '-', not '{'x' * 63}…'",
    ),
    **{
        f"the platform's namespace {name}": (
            replace(ADDED, namespace=name),
            f"namespace {name} of engine cluster north is the platform's: give another --namespace",
        )
        for name in ("kube-system", "gitops-service")
    },
    "a namespace that is no label": (replace(ADDED, namespace="a.b"), "a namespace is a DNS label"),
    "a profile of what is not installed": (replace(ADDED, profile="fast"), "add '--version'"),
    "a version that is none": (
        replace(ADDED, wanted_version="latest"),
        "'latest' is no version of argocd that agents of this build work with, such as 3.2.11",
    ),
    "a version that is too old": (replace(ADDED, wanted_version="3.0.0"), "'3.0.0' is no version of argocd that"),
    "a profile that is no label": (replace(ADDED, wanted_version="3.2.11", profile="F"), "a profile is a DNS label"),
    "a cluster in another region": (AddEngineCluster("north", "us"), "in region 'eu', not 'us', for good: add another"),
    "a cluster that is no label": (AddEngineCluster("", ""), "an engine cluster's id is a DNS label"),
    "a region that is no label": (AddEngineCluster("south", "E U"), "a region is a DNS label"),
    "draining what is not there": (DrainEngineInstance("three"), NOT_THERE),
    "undraining what is not there": (UndrainEngineInstance("three"), NOT_THERE),
    "retiring what is not there": (RetireEngineInstance("three"), NOT_THERE),
}


@pytest.mark.parametrize(("order", "rule"), REFUSALS.values(), ids=REFUSALS)
def test_order_when_it_breaks_a_rule_then_it_is_refused_and_the_rule_is_named(order: Order, rule: str) -> None:
    changes = decided(fleet(), order)
    result, message = outcome(changes)
    assert (result, changes.engine_instances, changes.engine_clusters) == ("refused", (), ())
    assert rule in message


STATES = {
    "drain": (in_state("accepting", tenants=1), DrainEngineInstance("one"), "accepted", "draining"),
    "drain what is full": (in_state("full", tenants=1), DrainEngineInstance("one"), "accepted", "draining"),
    "drain what is empty": (in_state("accepting"), DrainEngineInstance("one"), "accepted", "drained"),
    "undrain what has no room": (
        in_state("draining", tenants=1, deployments=2500),
        UndrainEngineInstance("one"),
        "accepted",
        "full",
    ),
    "drain again": (in_state("draining", tenants=1), DrainEngineInstance("one"), "unchanged", None),
    "drain what is drained": (in_state("drained"), DrainEngineInstance("one"), "unchanged", None),
    "undrain": (in_state("draining", tenants=1), UndrainEngineInstance("one"), "accepted", "accepting"),
    "undrain what is drained": (in_state("drained"), UndrainEngineInstance("one"), "accepted", "accepting"),
    "undrain what accepts": (in_state("accepting"), UndrainEngineInstance("one"), "unchanged", None),
    "undrain what is retired": (in_state("retired"), UndrainEngineInstance("one"), "refused", None),
    "drain what is retired": (in_state("retired"), DrainEngineInstance("one"), "refused", None),
    "retire": (in_state("drained").with_instance(OTHER), RetireEngineInstance("one"), "accepted", "retired"),
    "retire what was never used": (
        in_state("accepting").with_instance(OTHER),
        RetireEngineInstance("one"),
        "accepted",
        "retired",
    ),
    "retire the last one before there are tenants": (
        in_state("drained"),
        RetireEngineInstance("one"),
        "accepted",
        "retired",
    ),
    "retire again": (in_state("retired"), RetireEngineInstance("one"), "unchanged", None),
    "drain what has failed": (in_state("failed"), DrainEngineInstance("one"), "refused", None),
    "undrain what has failed": (in_state("failed"), UndrainEngineInstance("one"), "refused", None),
    "retire what has failed": (in_state("failed"), RetireEngineInstance("one"), "accepted", "retired"),
    "retire with tenants": (in_state("draining", tenants=2), RetireEngineInstance("one"), "refused", None),
    "retire what is full": (
        in_state("full", tenants=9, deployments=2500),
        RetireEngineInstance("one"),
        "refused",
        None,
    ),
    "retire with objects": (in_state("drained", objects=True), RetireEngineInstance("one"), "refused", None),
}


@pytest.mark.parametrize(("before", "order", "expected", "state"), STATES.values(), ids=STATES)
def test_instance_when_a_state_is_ordered_then_it_has_that_unless_a_rule_is_against_it(
    before: Fleet, order: Order, expected: str, state: str | None
) -> None:
    changes = decided(before, order)
    assert outcome(changes)[0] == expected
    assert [row.state for row in changes.engine_instances] == ([state] if state else [])


OCCUPIED = {
    "full": (
        in_state("full", tenants=9, deployments=2500),
        "engine instance one still has tenants: 9; 'gitopsctl engines drain one' and then",
    ),
    "left by its tenants, not by their objects": (
        in_state("drained", objects=True),
        "still has objects of tenants that have left it: its agent removes them",
    ),
    "not known yet": (
        replace(in_state("drained").with_instance(OTHER), is_rebuilt=True),
        "what engine instance one holds besides its rows is known when 'gitopsctl rebuild sweep' has ended that",
    ),
}


@pytest.mark.parametrize(("before", "told"), OCCUPIED.values(), ids=OCCUPIED)
def test_instance_when_retired_while_something_is_on_it_then_what_that_is_and_how_it_goes_is_told(
    before: Fleet, told: str
) -> None:
    assert told in outcome(decided(before, RetireEngineInstance("one")))[1]


LOCAL = {"local": frozenset({"north"}), "elsewhere": frozenset({"default"})}
TENANT = TenantHere(UUID(int=1), 0, "one", 5)
OTHERS = {
    "of a workspace that is not in the cluster": ("elsewhere", "argocd-2"),
    "of one that is in none": ("remote", "argocd-2"),
    "of another namespace": ("local", "team-a"),
}


def test_namespace_when_a_tenant_has_it_then_no_instance_is_added_there() -> None:
    before = replace(fleet(), tenants={("local", "argocd-2"): TENANT}, local_workspaces=LOCAL)
    changes = decided(before, ADDED)
    rule = "namespace argocd-2 of engine cluster north is tenant local/argocd-2's: give another --namespace"
    assert (outcome(changes), changes.engine_instances) == (("refused", rule), ())


@pytest.mark.parametrize("name", OTHERS.values(), ids=OTHERS)
def test_namespace_when_no_tenant_has_it_in_the_cluster_then_an_instance_is_added_there(name: tuple[str, str]) -> None:
    before = replace(fleet(), tenants={name: TENANT}, local_workspaces=LOCAL)
    assert outcome(decided(before, ADDED))[0] == "accepted"


def test_instance_when_added_then_only_tenants_are_asked_for_that_could_have_its_namespace() -> None:
    policy = Policy(local_workspaces={**LOCAL, "both": frozenset({"default", "north"})})
    assert tenants_of(ADDED, policy) == [("both", "argocd-2"), ("local", "argocd-2")]
    assert tenants_of(replace(ADDED, engine_cluster="south"), policy) == []
    assert tenants_of(DrainEngineInstance("one"), policy) == ()


@pytest.mark.parametrize(
    "order", [ADDED, replace(ADDED, engine="flux", ring="new")], ids=["as it is", "of a newer build"]
)
def test_instance_when_added_as_it_is_known_then_no_other_rule_is_asked(order: AddEngineInstance) -> None:
    known = replace(INSTANCE, id="two", namespace="argocd-2", engine=order.engine, ring=order.ring)
    before = replace(fleet(known), tenants={("local", "argocd-2"): TENANT}, local_workspaces=LOCAL)
    assert outcome(decided(before, order)) == ("unchanged", "it is known")


@pytest.mark.parametrize(("version", "told"), [("3.2.11", ""), ("3.2.999", "; 3.2.999 was not tested with this build")])
def test_instance_when_added_with_a_version_then_it_is_told_if_that_was_not_tested(version: str, told: str) -> None:
    result, message = outcome(decided(fleet(), replace(ADDED, wanted_version=version)))
    assert result == "accepted"
    assert message == f"it is installed first: 'gitopsctl engines show two' shows how far that is{told}"


NO_OTHER = "no shared instance of ring general accepts tenants now"
LAST = {
    "the only one": ((), NO_OTHER),
    "another accepts": ((OTHER,), ""),
    "another drains": ((replace(OTHER, state="draining"),), NO_OTHER),
    "another is not ready": ((replace(OTHER, state="provisioning"),), NO_OTHER),
    "another is of another ring": ((replace(OTHER, ring="canary"),), NO_OTHER),
    "another is a workspace's": ((replace(OTHER, engine_class="dedicated", dedicated_to="team"),), NO_OTHER),
}


@pytest.mark.parametrize(("others", "told"), LAST.values(), ids=LAST)
def test_instance_when_the_last_of_its_ring_that_accepts_tenants_is_drained_then_that_is_told(
    others: tuple[EngineInstanceRow, ...], told: str
) -> None:
    before = fleet()
    for each in others:
        before = before.with_instance(each)
    result, message = outcome(decided(before, DrainEngineInstance("one")))
    assert (result, message.partition("; ")[2]) == ("accepted", told)


def test_instance_when_the_last_of_a_workspace_is_drained_then_that_is_told() -> None:
    before = fleet(replace(INSTANCE, engine_class="dedicated", dedicated_to="team")).with_instance(OTHER)
    told = "no instance of workspace team of ring general accepts tenants now"
    assert outcome(decided(before, DrainEngineInstance("one")))[1].endswith(f"; {told}")


NEXT = {
    "with tenants": (
        in_state("accepting", tenants=2),
        "its tenants stay on it (2) until 'gitopsctl engines rebalance' moves them",
    ),
    "empty": (in_state("accepting"), "no tenant is on it: 'gitopsctl engines retire one' gives it up"),
}


@pytest.mark.parametrize(("before", "told"), NEXT.values(), ids=NEXT)
def test_instance_when_drained_then_what_to_order_next_is_told(before: Fleet, told: str) -> None:
    assert outcome(decided(before.with_instance(OTHER), DrainEngineInstance("one"))) == ("accepted", told)


def test_instance_when_added_then_it_is_in_its_clusters_region_and_not_ready_before_its_agent_tells_that_it_works() -> (
    None
):
    changes = decided(fleet(), ADDED)
    row = EngineInstanceRow(
        "two", "argocd-2", "argocd", "north", "eu", "shared", "", "general", 2500, "provisioning", at(10), at(10),
        due_at=NOW + timedelta(minutes=15),
    )  # fmt: skip
    told = "it takes tenants once its agent tells that it works: 'gitopsctl engines show two' shows how far that is"
    assert (outcome(changes), changes.engine_instances) == (("accepted", told), (row,))


@pytest.mark.parametrize("state", ["accepting", "provisioning", "failed"])
def test_instance_when_added_again_as_it_is_then_nothing_changes(state: Any) -> None:
    before = fleet(replace(INSTANCE, id="two", namespace="argocd-2", state=state, due_at=at(5000)))
    changes = decided(before, ADDED)
    assert (outcome(changes), changes.engine_instances) == (("unchanged", "it is known"), ())


@pytest.mark.parametrize("order", [DrainEngineInstance("one"), UndrainEngineInstance("one")])
def test_instance_when_it_was_retired_then_how_to_add_another_is_told(order: Order) -> None:
    rule = "engine instance one is retired, for good: 'gitopsctl engines add' adds another"
    assert outcome(decided(in_state("retired"), order)) == ("refused", rule)


def test_instance_when_it_was_retired_then_its_id_is_not_given_out_again_but_its_namespace_is() -> None:
    retired = in_state("retired")
    rule = "engine instance one is retired, and its id is not given out again: give another"
    assert outcome(decided(retired, replace(ADDED, id="one", namespace="argocd-1"))) == ("refused", rule)
    assert outcome(decided(retired, replace(ADDED, namespace="argocd-1")))[0] == "accepted"


INSTALLED = replace(INSTANCE, wanted_version="3.2.11")
REMOVED = InstallationPhase.REMOVED
STILL_TO_BE_DELETED = (
    "refused",
    "namespace argocd-1 of engine cluster north was engine instance one's, which is retired, and its provisioner is "
    "still to delete the namespace: wait until 'gitopsctl engines show one' shows that its installation is Removed, or "
    "give another --namespace",
)


def with_installation(before: Fleet, *phases: InstallationPhase) -> Fleet:
    """What a provisioner has told of instance "one" last, if it has told anything."""
    told = [Installation("one", 0, each, "", "", at(5)) for each in phases]
    return replace(before, installations={each.engine_instance_id: each for each in told})


@pytest.mark.parametrize("version", ["", "3.2.11"], ids=["installed by hand", "installed by a provisioner"])
@pytest.mark.parametrize("phases", [(), *((each,) for each in InstallationPhase if each is not REMOVED)])
def test_namespace_when_a_provisioner_is_still_to_delete_it_then_no_instance_is_added_there(
    phases: tuple[InstallationPhase, ...], version: str
) -> None:
    before = with_installation(fleet(replace(INSTALLED, state="retired")), *phases)
    changes = decided(before, replace(ADDED, namespace="argocd-1", wanted_version=version))
    assert (outcome(changes), changes.engine_instances) == (STILL_TO_BE_DELETED, ())


@pytest.mark.parametrize("version", ["", "3.2.11"], ids=["installed by hand", "installed by a provisioner"])
def test_namespace_when_a_provisioner_has_removed_what_was_there_then_another_instance_is_added_there(
    version: str,
) -> None:
    before = with_installation(fleet(replace(INSTALLED, state="retired")), REMOVED)
    assert outcome(decided(before, replace(ADDED, namespace="argocd-1", wanted_version=version)))[0] == "accepted"


def test_namespace_when_a_provisioner_deletes_one_of_that_name_elsewhere_then_an_instance_is_added_there() -> None:
    south = replace(CLUSTER, id="south")
    before = fleet(replace(INSTALLED, state="retired")).with_cluster(south)
    assert outcome(decided(before, replace(ADDED, engine_cluster="south", namespace="argocd-1")))[0] == "accepted"


def test_orders_when_one_retires_what_a_provisioner_has_installed_then_the_next_is_not_given_its_namespace() -> None:
    before = with_installation(fleet(INSTALLED).with_instance(OTHER), InstallationPhase.APPLIED)
    changes = decided(before, RetireEngineInstance("one"), replace(ADDED, namespace="argocd-1"))
    assert [(each.outcome, each.message) for each in changes.fleet_orders] == [("accepted", ""), STILL_TO_BE_DELETED]


def test_orders_when_one_frees_what_the_next_takes_then_rows_are_written_in_that_order() -> None:
    before = fleet().with_instance(OTHER)
    changes = decided(before, RetireEngineInstance("one"), replace(ADDED, namespace="argocd-1"))
    assert [(row.id, row.state) for row in changes.engine_instances] == [("one", "retired"), ("two", "provisioning")]


def test_orders_when_given_together_then_each_is_decided_on_what_those_before_it_left() -> None:
    cluster, instance = AddEngineCluster("south", ""), replace(ADDED, engine_cluster="south")
    assert [each.outcome for each in decided(fleet(), cluster, instance).fleet_orders] == ["accepted", "accepted"]
    assert [each.outcome for each in decided(fleet(), instance, cluster).fleet_orders] == ["refused", "accepted"]


@pytest.mark.parametrize("second", [1, 0])
def test_order_when_no_newer_than_what_changed_its_instance_then_it_changes_nothing(second: int) -> None:
    changes = decided(fleet(), DrainEngineInstance("one"), first=second)
    result, message = outcome(changes)
    assert (result, changes.engine_instances) == ("unchanged", ())
    assert "a newer order" in message


def test_order_when_it_was_decided_before_then_it_leaves_nothing() -> None:
    before = replace(fleet(), decided=frozenset({UUID(int=10)}))
    assert decided(before, DrainEngineInstance("one")) == Changes()


def test_order_when_it_comes_twice_in_a_batch_then_it_is_decided_once() -> None:
    twice = [ordered(DrainEngineInstance("one"))] * 2
    assert len(decide_orders(twice, fleet(), NOW, Policy()).fleet_orders) == 1


def test_order_when_decided_then_the_audit_has_who_ordered_what_and_what_became_of_it() -> None:
    (record,) = decided(fleet(), AddEngineCluster("south", "us")).fleet_orders
    assert (record.kind, record.subject, record.actor) == ("AddEngineCluster", "south", "ada")
    assert json.loads(record.arguments) == {"id": "south", "region": "us"}
    assert (record.outcome, record.ordered_at, record.decided_at) == ("accepted", at(10), NOW)


@pytest.mark.parametrize(("state", "tenants", "after"), [("draining", 0, "drained"), ("drained", 1, "draining")])
def test_instance_when_tenants_leave_or_come_while_it_drains_then_its_state_says_so(
    state: str, tenants: int, after: str
) -> None:
    before = in_state(state, tenants=tenants)
    changes = decided(before)
    (row,) = changes.engine_instances
    assert (row.state, row.ordered_at) == (after, INSTANCE.ordered_at)
    (audited,) = changes.audit_records
    assert (audited.kind, audited.name, audited.actor) == ("EngineInstance", "one", "planner")
    assert (audited.message, audited.created_at) == (f"{state} to {after}", NOW)


def test_instance_when_its_state_is_ordered_then_the_order_is_its_audit_row() -> None:
    changes = decided(in_state("accepting", tenants=1), DrainEngineInstance("one"))
    assert [row.state for row in changes.engine_instances] == ["draining"]
    assert changes.audit_records == ()


@pytest.mark.parametrize(
    ("state", "deployments", "after"),
    [("accepting", 2499, []), ("accepting", 2500, ["full"]), ("full", 2250, []), ("full", 2249, ["accepting"])],
)
def test_instance_when_it_has_as_many_deployments_as_it_may_then_it_is_full_until_there_is_some_room_again(
    state: Any, deployments: int, after: list[str]
) -> None:
    before = in_state(state, tenants=1, deployments=deployments)
    assert [row.state for row in decided(before).engine_instances] == after


@pytest.mark.parametrize("state", ["draining", "drained", "full", "accepting"])
def test_instance_when_nothing_was_counted_on_it_then_it_stays_in_its_state(state: str) -> None:
    before = replace(in_state(state), uncounted=frozenset({"one"}))
    assert decided(before).engine_instances == ()


def test_holding_when_it_was_not_counted_then_nothing_can_be_decided_on_it() -> None:
    before = replace(in_state("drained"), uncounted=frozenset({"one"}))
    with pytest.raises(LookupError, match="what is on engine instance one was not read"):
        decided(before, RetireEngineInstance("one"))
    counted = before.with_holdings({"one": Holding(tenants=1)})
    assert outcome(decided(counted, RetireEngineInstance("one")))[0] == "refused"
