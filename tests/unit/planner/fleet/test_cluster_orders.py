"""Orders about engine clusters: what becomes of a cluster, and of its instances."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from services.common.messages import (
    AddEngineCluster,
    DrainEngineCluster,
    DrainEngineInstance,
    FleetOrder,
    Order,
    RetireEngineCluster,
    RetireEngineInstance,
    UndrainEngineCluster,
    UndrainEngineInstance,
)
from services.planner.domain.events import ClusterTopic
from services.planner.domain.fleet.fleet import Fleet, Holding
from services.planner.domain.fleet.orders import decide_order
from services.planner.domain.fleet.reports.report_rows import InstanceHealth
from services.planner.domain.fleet.rows import ClusterState, EngineInstanceRow, InstanceState
from tests.unit.planner.fleet.loaded_fleet import loaded_fleet
from tests.unit.planner.fleet.simulated_fleet import POOL
from tests.unit.planner.fleet.test_fleet_orders import ADDED, CLUSTER, INSTANCE, decided, outcome
from tests.unit.planner.given import at

TWO = replace(INSTANCE, id="two", namespace="argocd-2")
SOUTH = replace(TWO, id="south", engine_cluster="south")
READY = InstanceHealth("two", 0, "Healthy", "", "", "3.2.11", at(5), at(5), at(5), at(99))
DRAIN, UNDRAIN, RETIRE = DrainEngineCluster("north"), UndrainEngineCluster("north"), RetireEngineCluster("north")


def fleet(state: ClusterState, *instances: EngineInstanceRow) -> Fleet:
    """Of cluster north, and of another one; each instance has tenants."""
    clusters = {"north": replace(CLUSTER, state=state), "south": replace(CLUSTER, id="south")}
    held = {each.id: Holding(1, 1, objects=True) for each in instances if each.state != "retired"}
    return loaded_fleet(clusters, {each.id: each for each in instances}, held)


RETIRED = "engine cluster north is retired, for good: 'gitopsctl engine-clusters list' shows others"
DRAINING = (
    "engine cluster north is draining: 'gitopsctl engine-clusters undrain north' has it take instances and tenants "
    "again"
)
DECISIONS: dict[str, tuple[Fleet, Order, str, str]] = {
    "drain": (fleet("active", INSTANCE, TWO), DRAIN, "accepted", "engine instances that drain: one, two"),
    "drain one without instances": (fleet("active"), DRAIN, "accepted", "engine instances that drain: none"),
    "drain again": (fleet("draining"), DRAIN, "unchanged", "it is draining"),
    "drain what is retired": (fleet("retired"), DRAIN, "refused", RETIRED),
    "undrain": (fleet("draining", INSTANCE), UNDRAIN, "accepted", ""),
    "undrain what is active": (fleet("active", INSTANCE), UNDRAIN, "unchanged", "it is active"),
    "undrain what is retired": (fleet("retired"), UNDRAIN, "refused", RETIRED),
    "retire": (fleet("draining", replace(INSTANCE, state="retired")), RETIRE, "accepted", ""),
    "retire again": (fleet("retired"), RETIRE, "unchanged", "it is retired"),
    "retire with instances": (
        fleet("draining", INSTANCE, replace(TWO, state="retired")),
        RETIRE,
        "refused",
        "engine cluster north still has engine instances: one; 'gitopsctl engine-clusters drain north' and "
        "'gitopsctl engines rebalance' empty them, and 'gitopsctl engines retire' gives each up",
    ),
    "retire with a pool": (
        fleet("draining").with_pool(POOL),
        RETIRE,
        "refused",
        "engine cluster north still has pools, of rings: general; 'gitopsctl engines pool remove' them first",
    ),
    "what is not there": (
        fleet("active"),
        DrainEngineCluster("west"),
        "refused",
        "there is no engine cluster 'west'; 'gitopsctl engine-clusters list' shows them",
    ),
    "add a retired one": (
        fleet("retired"),
        AddEngineCluster("north", "eu"),
        "refused",
        "its id is not given out again: give another",
    ),
    "add an instance to a draining one": (fleet("draining"), ADDED, "refused", DRAINING),
    "add an instance to a retired one": (fleet("retired"), ADDED, "refused", RETIRED),
    "undrain an instance of a draining one": (
        fleet("draining", replace(INSTANCE, state="draining")),
        UndrainEngineInstance("one"),
        "refused",
        DRAINING,
    ),
}


@pytest.mark.parametrize(("before", "order", "expected", "words"), DECISIONS.values(), ids=DECISIONS)
def test_cluster_when_ordered_then_the_outcome_names_the_rule(
    before: Fleet, order: Order, expected: str, words: str
) -> None:
    changes = decided(before, order)
    assert outcome(changes)[0] == expected
    assert words in outcome(changes)[1]
    if expected != "accepted":
        assert (changes.engine_clusters, changes.engine_instances) == ((), ())


TOPICS: dict[str, tuple[int | None, str, str]] = {
    "not there": (
        0,
        "refused",
        "engine cluster west has no topic gitops.engine.west: 'gitopsctl engine-clusters add west' makes it",
    ),
    "too small": (
        5,
        "refused",
        "topic gitops.engine.west of engine cluster west has 5 partitions and needs 6: delete it if it is empty, then "
        "'gitopsctl engine-clusters add west' makes it",
    ),
    "not to be asked for": (
        None,
        "refused",
        "planners may not ask whether engine cluster west has its topic gitops.engine.west: 'gitopsctl topics acls' "
        "gives them the right, then order it again",
    ),
    "as declared": (6, "accepted", ""),
    "too large": (
        7,
        "refused",
        "topic gitops.engine.west of engine cluster west has 7 partitions and needs 6: delete it if it is empty, then "
        "'gitopsctl engine-clusters add west' makes it",
    ),
}


@pytest.mark.parametrize(("partitions", "expected", "words"), TOPICS.values(), ids=TOPICS)
def test_cluster_when_added_then_it_is_refused_if_its_rows_cannot_be_written_to_its_topic(
    partitions: int | None, expected: str, words: str
) -> None:
    topics = ClusterTopic("gitops.observations.west", 12, 12), ClusterTopic("gitops.engine.west", partitions, 6)
    order = FleetOrder(UUID(int=9), "ada", at(10), AddEngineCluster("west", "eu"))
    decision = decide_order(order, fleet("active"), topics)
    assert (decision.outcome, decision.message) == (expected, words)
    assert ("west" in decision.fleet.clusters) == (expected == "accepted")


def test_cluster_when_it_is_known_and_its_topic_is_gone_then_an_order_to_add_it_changes_nothing() -> None:
    order = FleetOrder(UUID(int=9), "ada", at(10), AddEngineCluster("north", "eu"))
    decision = decide_order(order, fleet("active"), [ClusterTopic("gitops.engine.north", 0, 6)])
    assert (decision.outcome, decision.message) == ("unchanged", "it is known")


def test_cluster_when_drained_then_its_instances_drain_and_no_others() -> None:
    changes = decided(fleet("active", INSTANCE, TWO, SOUTH), DRAIN)
    assert [(row.id, row.state) for row in changes.engine_clusters] == [("north", "draining")]
    assert [(row.id, row.state) for row in changes.engine_instances] == [("one", "draining"), ("two", "draining")]


@pytest.mark.parametrize("state", ["provisioning", "failed"])
def test_cluster_when_drained_then_an_instance_that_was_never_ready_drains_once_it_is_and_takes_tenants_after_undrain(
    state: InstanceState,
) -> None:
    unready = replace(TWO, state=state, due_at=at(2000), wanted_version="3.2.11")
    drained = decided(fleet("active", INSTANCE, unready), DRAIN)
    assert outcome(drained) == ("accepted", "engine instances that drain: one")
    assert [(row.id, row.state) for row in drained.engine_instances] == [("one", "draining")]
    undrained = decided(fleet("active", INSTANCE, unready), DRAIN, UNDRAIN)
    assert "two" not in {row.id for row in undrained.engine_instances}

    (cluster,) = drained.engine_clusters
    ready = replace(fleet("draining", unready), clusters={"north": cluster}, holdings={}, health={"two": READY})
    (settled,) = decided(ready).engine_instances
    assert (settled.state, settled.due_at) == ("drained", None)
    (taking,) = decided(replace(ready, instances={"two": settled}), UNDRAIN, first=20).engine_instances
    assert taking.state == "accepting"


def test_instance_when_ready_in_a_cluster_that_was_drained_before_its_newest_order_then_that_is_still_the_newest() -> (
    None
):
    unready = replace(TWO, state="provisioning", ordered_at=at(15))
    cluster = replace(CLUSTER, state="draining", ordered_at=at(10))
    ready = replace(fleet("draining", unready), clusters={"north": cluster}, holdings={}, health={"two": READY})
    (settled,) = decided(ready).engine_instances
    assert (settled.state, settled.ordered_at) == ("drained", at(15))


def test_cluster_when_undrained_then_instances_that_were_drained_before_it_stay_so() -> None:
    changes = decided(fleet("active", INSTANCE, TWO), DrainEngineInstance("two"), DRAIN, UNDRAIN)
    assert [row.state for row in changes.engine_clusters] == ["active"]
    assert {row.id: row.state for row in changes.engine_instances} == {"two": "draining", "one": "accepting"}


def test_cluster_when_undrained_then_an_instance_that_was_drained_by_an_order_of_its_own_meanwhile_stays_so() -> None:
    changes = decided(fleet("active", INSTANCE, TWO), DRAIN, DrainEngineInstance("two"), UNDRAIN)
    assert [each.outcome for each in changes.fleet_orders] == ["accepted"] * 3
    assert {row.id: row.state for row in changes.engine_instances} == {"two": "draining", "one": "accepting"}


def test_cluster_when_emptied_step_by_step_then_it_is_retired_last() -> None:
    before = replace(fleet("active", INSTANCE, SOUTH), holdings={})
    orders = (DRAIN, RetireEngineInstance("one"), RETIRE)
    changes = decided(before, *orders)
    assert [each.outcome for each in changes.fleet_orders] == ["accepted"] * 3
    assert [(row.state, row.ordered_at) for row in changes.engine_clusters] == [("retired", at(12))]


def test_order_when_older_than_what_changed_the_cluster_then_it_changes_nothing() -> None:
    changed = replace(CLUSTER, ordered_at=at(99))
    result, message = outcome(decided(replace(fleet("active"), clusters={"north": changed}), DRAIN))
    assert (result, "a newer order" in message) == ("unchanged", True)
