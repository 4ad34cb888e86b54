"""What a fleet's benchmarks count, and which bounds they tell of."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from bench.arrivals import Arrivals, by_path, with_path
from bench.fleet import batches, drain, placement
from bench.fleet.engine_clusters import Watches, engine_clusters, watches_in
from bench.measure import Result, Timing
from services.common.errors import Retry
from services.common.kubernetes import KubeClient
from services.planner.domain.fleet.moves.rebalance import PlacedTenant
from services.planner.domain.fleet.placement.assignments import Affinity
from services.planner.domain.ids import tenant_id
from services.planner.rows.tenants import Tenant

EVEN = placement.Spread(
    100, 250, 1.05, (placement.Change("grown", 0.09, 0.1, 1.0), placement.Change("shrunk", 0.1, 0.1, 1.1))
)
METRICS = """
# TYPE apiserver_longrunning_requests gauge
apiserver_longrunning_requests{component="apiserver",group="",resource="pods",scope="cluster",verb="WATCH"} 7
apiserver_longrunning_requests{component="apiserver",group="",resource="pods",scope="resource",verb="CONNECT"} 5
apiserver_longrunning_requests{component="apiserver",group="argoproj.io",resource="x",scope="namespace",verb="WATCH"} 35
"""


def result(milliseconds: float, missing: int = 0) -> Result:
    timings = [Timing(str(number), 0.0, milliseconds / 1000) for number in range(10)]
    return Result(timings, 1.0, [f"lost-{number}" for number in range(missing)])


WATCHES = Watches(of_own=100, of_all=180, added=4)
DRAINED = drain.Drain(
    before=result(100),
    during=result(150),
    emptied=drain.Emptied(9, 9, 0, True, 30.0),
    busy={"planner": drain.Busy(0.1, 0.3), "etcd": drain.Busy(0.25, 0.5)},
    memory={"agent-1": 80.0},
    watches={"north": WATCHES},
)


def test_sizes_when_drawn_then_every_tenant_has_one_application_and_all_together_as_many_as_asked_for() -> None:
    sizes = placement.sizes(100, 250)
    assert (len(sizes), sum(sizes), min(sizes)) == (100, 250, 1)
    assert sizes == placement.sizes(100, 250)
    assert max(sizes) > 5


def test_spread_when_an_instance_has_nothing_then_it_counts_in_the_average() -> None:
    fleet = placement.instances(2)
    assert placement.spread_of({fleet[0].id: 10}, fleet) == 2.0


def test_change_when_an_instance_leaves_then_its_tenants_move_and_no_others() -> None:
    stays, leaves = placement.instances(2)
    placed = [
        PlacedTenant(
            Tenant(tenant_id(name, "web"), name, "web", 0, (stays if number else leaves).id), 10, Affinity(name)
        )
        for number, name in enumerate("abcd")
    ]
    found = placement.changed("one leaves", placed, [stays, replace(leaves, accepting=False, leaving=True)], 0.25)
    assert (found.moved, found.spread) == (0.25, 1.0)


def test_fleet_when_it_has_ten_instances_and_gains_or_loses_one_then_no_bound_is_exceeded() -> None:
    assert list(placement.find_exceeded(placement.measure(4_000, 10_000, 10))) == []


@pytest.mark.parametrize(
    ("found", "told"),
    [
        pytest.param(EVEN, [], id="even"),
        pytest.param(
            replace(EVEN, spread=1.3), ["filled: an instance carries 1.30 times the average, more than 1.25"], id="full"
        ),
        pytest.param(
            replace(EVEN, changes=(placement.Change("grown", 0.16, 0.15, 1.0),)),
            ["grown: 16.0% of the tenants move, more than 15%"],
            id="many",
        ),
        pytest.param(
            replace(EVEN, changes=(placement.Change("grown", 0.1, 0.05, 1.0),)),
            ["grown: 10.0% of the tenants move, and only 5.0% have to"],
            id="more than have to",
        ),
    ],
)
def test_placement_when_a_bound_is_exceeded_then_it_is_told(found: placement.Spread, told: list[str]) -> None:
    assert list(placement.find_exceeded(found)) == told


def test_batch_when_it_costs_more_in_a_larger_fleet_then_it_is_told_unless_it_is_about_the_whole_fleet() -> None:
    costs = {
        "deployment changed": {1: 2.0, 300: 5.9},
        "health report": {1: 2.0, 300: 6.1},
        batches.REMEDIES: {1: 2.0, 300: 20.0},
        batches.LOOK: {1: 2.0, 300: 22.0},
        batches.POOLS: {1: 2.0, 300: 17.0},
        batches.GROWS_WITH_FLEET: {1: 10.0, 300: 90.0},
        batches.GROWS_WITH_OBJECTS: {1: 10.0, 300: 90.0},
    }
    assert list(batches.find_growing(costs)) == [
        "health report: 2.0 ms with 1 instances, 6.1 ms with 300",
        "a look at a rollout: 2.0 ms with 1 instances, 22.0 ms with 300",
    ]


def test_batches_when_many_moves_wait_then_those_are_told_that_cost_more_than_to_read_each() -> None:
    costs = {
        "health report": {0: 2.0, 8000: 2.1},
        batches.MOVES: {0: 3.0, 8000: 200.0},
        batches.LOOK: {0: 3.0, 8000: 900.0},
    }
    assert list(batches.find_growing(costs, "moves waiting")) == [
        "a look at a rollout: 3.0 ms with 0 moves waiting, 900.0 ms with 8000"
    ]
    assert [column.header for column in batches.table_of(costs, "moves waiting").columns][1:] == [
        "0 moves waiting", "8000 moves waiting",
    ]  # fmt: skip


def test_application_when_its_path_changes_then_that_is_an_arrival_of_its_own() -> None:
    application = {"metadata": {"name": "app"}, "spec": {"source": {"path": "environments/new"}}}
    assert by_path(application) == with_path("app", "environments/new") != with_path("app", "environments/old")


def test_watches_when_an_api_server_tells_its_metrics_then_other_long_requests_do_not_count() -> None:
    assert watches_in(METRICS) == 42


def test_watches_when_instances_came_then_what_each_costs_is_told_and_how_many_there_may_be() -> None:
    rows = dict(drain._rows(DRAINED))
    assert rows["watches of cluster north"] == "180, 20.0 for each instance added: 480,000 with 23,995 of them"
    none_added = replace(DRAINED, watches={"north": Watches(of_own=100, of_all=100, added=0)})
    assert dict(drain._rows(none_added))["watches of cluster north"] == "100 of 480,000"


@pytest.mark.parametrize(
    ("clusters", "instances", "counts"), [(1, 2, [2]), (1, 10, [10]), (2, 4, [2, 2]), (2, 9, [5, 4]), (2, 10, [5, 5])]
)
def test_instances_when_they_are_in_several_clusters_then_evenly_and_each_has_a_name_of_its_own(
    clusters: int, instances: int, counts: list[int]
) -> None:
    found = engine_clusters(clusters, instances)
    assert [len(each.instances) for each in found] == counts
    assert len({name for each in found for name in each.instances}) == instances


def test_instances_when_a_cluster_would_have_one_then_nobody_could_leave_it_and_that_is_told() -> None:
    with pytest.raises(RuntimeError, match="3 instances in 2 clusters: each needs at least 2"):
        engine_clusters(2, 3)


@pytest.mark.parametrize(
    ("found", "told"),
    [
        pytest.param(DRAINED, [], id="well"),
        pytest.param(
            replace(DRAINED, during=result(201)),
            ["p99 of others' changes: 201 ms during the drain, 100 ms before"],
            id="slow",
        ),
        pytest.param(
            replace(DRAINED, during=result(150, missing=2)),
            ["during the drain 2 changes had no effect: lost-0 …"],
            id="lost",
        ),
        pytest.param(
            replace(DRAINED, before=Result([], 1.0, [])), ["before the drain no change was made"], id="nothing offered"
        ),
        pytest.param(
            replace(DRAINED, emptied=drain.Emptied(9, 4, 5, False, 105.0)),
            ["5 of 9 tenants have not left; 4 moves are done"],
            id="not drained",
        ),
        pytest.param(
            replace(DRAINED, missing=["app-1", "app-2"]),
            ["2 Applications did not appear while the fleet was filled: app-1 …"],
            id="not filled",
        ),
        pytest.param(
            replace(DRAINED, watches={"north": replace(WATCHES, of_all=480_001)}),
            ["the API server of north serves 480001 watches, more than 480000"],
            id="watches",
        ),
    ],
)
def test_drain_when_something_is_not_done_or_a_bound_is_exceeded_then_it_is_told(
    found: drain.Drain, told: list[str]
) -> None:
    assert list(drain.find_failures(found)) == told


def test_moves_when_counted_then_they_are_of_a_minute_and_tell_how_long_a_large_instance_takes() -> None:
    rows = dict(drain._rows(DRAINED))
    assert (rows["moves a minute"], rows["an instance of 2,500 tenants drained"]) == ("18", "139 min")


def test_processors_when_told_then_the_busiest_process_is_first_and_each_change_has_its_share() -> None:
    table = drain.busy_table(DRAINED, rate=10.0)
    assert [list(column.cells) for column in table.columns] == [
        ["etcd", "planner", "all"],
        ["0.25", "0.10", "0.35"],
        ["0.50", "0.30", "0.80"],
        ["25.0", "10.0", "35.0"],
    ]


class Engine:
    """An API server of which the Applications change at once, or not at all."""

    def __init__(self, arrivals: Arrivals, *, refuses: int = 0) -> None:
        """``refuses``: so many changes at first."""
        self.arrivals, self.refuses = arrivals, refuses
        self.changed: list[str] = []

    async def patch_object(self, _: Any, __: str, name: str, patch: Any, **___: str) -> None:
        if self.refuses:
            self.refuses -= 1
            raise Retry("the API server is away")
        self.changed.append(name)
        await self.arrivals.note(with_path(f"application-of-{name}", patch["spec"]["source"]["path"]))


def after(count: int) -> Callable[[], bool]:
    """When it was asked so often."""
    asked = itertools.count()
    return lambda: next(asked) >= count


async def offered(engine: Engine, changes: int) -> Result:
    deployed = [drain.Deployed("tenant", name, f"application-of-{name}") for name in ("web", "api")]
    kube = cast("KubeClient", engine)
    return await drain.offer(kube, engine.arrivals, deployed, 1_000.0, "before", after(changes))


async def test_changes_when_offered_then_each_is_of_the_next_deployment_and_waited_for() -> None:
    engine = Engine(Arrivals())
    found = await offered(engine, 3)
    assert engine.changed == ["web", "api", "web"]
    assert (len(found.timings), found.missing) == (3, [])


async def test_change_when_the_api_server_takes_it_the_second_time_then_it_has_taken_since_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(drain, "AGAIN_SECONDS", 0.05)
    engine = Engine(Arrivals(), refuses=1)
    (found,) = (await offered(engine, 1)).timings
    assert engine.changed == ["web"]
    assert found.seen - found.sent >= 0.05


async def test_change_when_the_api_server_never_takes_it_then_nothing_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(drain, "ARRIVAL_SECONDS", 0.0)
    with pytest.raises(RuntimeError, match="a change was not taken: the API server is away"):
        await offered(Engine(Arrivals(), refuses=9), 1)
