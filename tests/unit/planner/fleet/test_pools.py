"""Orders about pools: what each rule accepts, refuses and leaves as it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from services.common.messages import DrainEngineInstance, RemoveEnginePool, SetEnginePool
from services.planner.domain.fleet.pools.pool_rows import EnginePool, namespace_of
from services.planner.domain.fleet.rows import ClusterState
from tests.unit.planner.fleet.test_fleet_orders import ADDED, CLUSTER, OTHER, decided, fleet, in_state, outcome
from tests.unit.planner.given import at

WANTED = SetEnginePool("north", "general", 1, 9, 1, 2500, "3.2.11", "fast")
POOL = EnginePool("north", "general", 1, 9, 1, 2500, "3.2.11", "fast", at(5), at(900), "one", "why")
REFUSALS = {
    "a cluster that nobody added": (
        replace(WANTED, engine_cluster="south"),
        "there is no engine cluster 'south'; 'gitopsctl engine-clusters list' shows them, and "
        "'gitopsctl engine-clusters add' adds one",
    ),
    "a ring that is none": (replace(WANTED, ring="late"), "no ring 'late', only canary, early, general"),
    "more at least than at most": (replace(WANTED, minimum=3, maximum=2), "at least --min and at most --max instances"),
    "less than none": (replace(WANTED, minimum=-1), "at least --min and at most --max instances"),
    "too many": (replace(WANTED, maximum=1001), "between 0 and 1000"),
    "less than none to spare": (replace(WANTED, spare=-1), "spare instances are between 0 and 1000, not -1"),
    "no capacity": (replace(WANTED, capacity=0), "a capacity is between 1 and 1000000 Applications, not 0"),
    "a version that is none": (
        replace(WANTED, version=""),
        "'' is no version of argocd that agents of this build work with, such as 3.2.11",
    ),
    "a version that is too old": (replace(WANTED, version="3.0.0"), "'3.0.0' is no version of argocd that agents"),
    "a profile that is no label": (replace(WANTED, profile="A b"), "a profile is a DNS label"),
}


@pytest.mark.parametrize(("order", "rule"), REFUSALS.values(), ids=REFUSALS)
def test_pool_when_it_breaks_a_rule_then_it_is_refused_and_the_rule_is_named(order: SetEnginePool, rule: str) -> None:
    changes = decided(fleet(), order)
    result, message = outcome(changes)
    assert (result, changes.engine_pools) == ("refused", ())
    assert rule in message


@pytest.mark.parametrize(
    ("state", "rule"),
    [
        ("draining", "'gitopsctl engine-clusters undrain north' has it take instances and tenants again"),
        ("retired", "'gitopsctl engine-clusters list' shows others"),
    ],
)
def test_pool_when_its_cluster_takes_no_instances_then_it_is_refused(state: ClusterState, rule: str) -> None:
    before = fleet().with_cluster(replace(CLUSTER, state=state))
    result, message = outcome(decided(before, WANTED))
    assert (result, rule in message) == ("refused", True)


@pytest.mark.parametrize(("ring", "length"), [("canary", 29), ("early", 30), ("general", 28)])
def test_pool_when_instances_could_not_be_called_after_its_cluster_then_it_is_refused_and_they_may_be_added(
    ring: str, length: int
) -> None:
    clusters = {each: replace(CLUSTER, id=each) for each in (length * "n", (length + 2) * "n")}
    before = replace(fleet(), clusters=clusters)
    fitting, long = clusters
    assert outcome(decided(before, replace(WANTED, engine_cluster=fitting, ring=ring)))[0] == "accepted"
    result, message = outcome(decided(before, replace(WANTED, engine_cluster=long, ring=ring)))
    assert (result, message) == (
        "refused",
        f"the id of engine cluster {long} is 2 characters too long for a pool of ring {ring}: 'gitopsctl engines add' "
        "adds instances there, with a shorter --namespace",
    )
    assert outcome(decided(before, replace(ADDED, engine_cluster=long, ring=ring)))[0] == "accepted"
    assert len(namespace_of(before.next_name(fitting, ring))) == 60, "and three digits more"


def test_pool_when_ordered_then_it_is_so_and_again_nothing_changes() -> None:
    changes = decided(fleet(), WANTED)
    (row,) = changes.engine_pools
    assert row == replace(POOL, ordered_at=at(10), shrinks_at=None, leaving=None, message="")
    assert outcome(changes) == ("accepted", "")
    again = decided(fleet().with_pool(row), WANTED, first=11)
    assert (outcome(again), again.engine_pools) == (("unchanged", "it is so"), ())


def test_pool_when_its_version_was_not_tested_then_that_is_told_each_time() -> None:
    changes = decided(fleet(), replace(WANTED, version="3.2.999"))
    assert outcome(changes) == ("accepted", "3.2.999 was not tested with this build")
    again = decided(fleet().with_pool(changes.engine_pools[0]), replace(WANTED, version="3.2.999"), first=11)
    assert outcome(again) == ("unchanged", "it is so; 3.2.999 was not tested with this build")


def test_pool_when_changed_then_the_instance_that_it_gives_up_is_not_forgotten() -> None:
    (row,) = decided(fleet().with_pool(POOL), replace(WANTED, maximum=4)).engine_pools
    assert (row.maximum, row.leaving, row.shrinks_at, row.message) == (4, "one", None, "")


def test_pool_when_an_order_is_older_than_the_newest_then_nothing_changes() -> None:
    result, message = outcome(decided(fleet().with_pool(POOL), replace(WANTED, maximum=4), first=4))
    assert result == "unchanged"
    assert message.startswith("a newer order")


def test_pool_when_removed_then_its_row_goes_and_its_instances_stay() -> None:
    changes = decided(fleet().with_pool(POOL), RemoveEnginePool("north", "general"))
    assert (changes.engine_pools_gone, changes.engine_instances) == ((POOL,), ())
    assert outcome(decided(fleet(), RemoveEnginePool("north", "general"))) == ("unchanged", "there is none")


def test_pool_when_removed_while_it_gives_an_instance_up_then_that_is_named() -> None:
    changes = decided(in_state("draining", tenants=2).with_pool(POOL), RemoveEnginePool("north", "general"))
    message = (
        "its instances stay; engine instance one, which it was giving up, is draining: "
        "'gitopsctl engines undrain one' has it take tenants again"
    )
    assert (outcome(changes), changes.engine_instances) == (("accepted", message), ())


def test_instance_when_an_operator_drains_what_its_pool_gives_up_then_it_is_the_operators() -> None:
    before = in_state("draining", tenants=2).with_instance(OTHER).with_pool(POOL)
    changes = decided(before, DrainEngineInstance("one"))
    assert outcome(changes) == (
        "accepted",
        "its tenants stay on it (2) until 'gitopsctl engines rebalance' moves them",
    )
    (pool,) = changes.engine_pools
    assert (pool, changes.engine_instances) == (replace(POOL, leaving=None), ())


def test_instance_when_an_operator_drains_it_and_its_pool_gives_another_up_then_nothing_changes() -> None:
    before = in_state("draining", tenants=2).with_pool(replace(POOL, leaving="other"))
    changes = decided(before, DrainEngineInstance("one"))
    assert (outcome(changes), changes.engine_pools) == (("unchanged", "it is draining"), ())
