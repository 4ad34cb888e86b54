"""Which instances an agent works for, and where it passes rows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from services.agent.instances.instance_controller import InstanceController
from services.agent.observe.pending_acks import Acknowledge
from services.agent.stream.desired_state import DesiredState
from services.agent.stream.owned_instances import OwnedInstances, partition_of_instance
from services.common.kafka import TopicPartition
from services.common.messages import REMEDY, EngineResource, Failed, FleetInstance
from tests.unit.agent.fakes import MemoryReports
from tests.unit.agent.instances_of_fleet import ELSEWHERE, fleet_of, instance_row
from tests.unit.agent.rows import application_row
from tests.unit.fake_clock import settle

PARTITIONS = 12
NAMES = ("argocd", "argocd-1", "argocd-2")
ALL = set(range(PARTITIONS))


@dataclass
class FakeOrders:
    told: list[str]

    def load_orders(self, orders: Iterable[EngineResource]) -> None:
        self.told.extend(f"load {order.name}" for order in orders)

    def submit_order(self, order: EngineResource) -> None:
        self.told.append(f"order {order.name}")

    def withdraw_order(self, order: EngineResource) -> None:
        self.told.append(f"withdraw {order.name}")


@dataclass
class FakeInstance:
    name: str
    namespace: str
    listed: bool = True
    is_inaccessible: bool = False
    told: list[str] = field(default_factory=list)
    rows: list[EngineResource] = field(default_factory=list)
    complete: bool | None = None
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    """Until it has ended."""

    def __post_init__(self) -> None:
        self.ending.set()
        self.orders = FakeOrders(self.told)

    def start(self) -> None:
        self.told.append("start")

    def start_work(self, rows: Any, unacknowledged: Any = (), *, complete: bool = True) -> None:
        self.told.append("work")
        self.rows, self.complete = list(rows), complete

    async def suspend(self) -> None:
        self.told.append("suspend")

    async def stop(self) -> None:
        self.told.append("stop")
        await self.ending.wait()

    def submit_row(self, row: EngineResource, acknowledge: Acknowledge) -> None:
        self.told.append(f"submit {row.name}")

    def forget_row(self, row: EngineResource, acknowledge: Acknowledge) -> None:
        self.told.append(f"forget {row.name}")


class Rig:
    """A fleet of fakes."""

    def __init__(self) -> None:
        self.made: dict[str, FakeInstance] = {}
        self.reports = MemoryReports()
        self.acknowledged = 0
        self.desired = DesiredState(lambda *_: application_row())
        self.known, self.defects = fleet_of(*NAMES), list[BaseException]()
        self.fleet = OwnedInstances(self.known, PARTITIONS, self.reports, self._new, self.defects.append)

    def _new(self, name: str, namespace: str) -> InstanceController:
        self.made[name] = FakeInstance(name, namespace)
        return cast("InstanceController", self.made[name])

    def learn(self, *rows: FleetInstance) -> None:
        """What gitops.fleet says now."""
        if self.known.store_rows(rows):
            self.fleet.follow_fleet()

    def acknowledge(self) -> None:
        self.acknowledged += 1


@pytest.fixture
def rig() -> Rig:
    return Rig()


def row_of(instance: str, **changes: Any) -> EngineResource:
    return replace(application_row(), engine_instance_id=instance, **changes)


async def test_assignment_when_it_holds_some_partitions_then_only_their_instances_are_watched(rig: Rig) -> None:
    await rig.fleet.assign_partitions({partition_of_instance("argocd-1", PARTITIONS)}, rig.desired)
    assert list(rig.made) == ["argocd-1"]
    assert rig.made["argocd-1"].told == ["start", "work"]


async def test_assignment_when_rows_speak_of_an_instance_then_it_is_ours_whatever_its_partition(rig: Rig) -> None:
    rig.desired.store_row(TopicPartition("gitops.engine", 0), row_of("argocd-2"))
    await rig.fleet.assign_partitions(set(), rig.desired)
    assert list(rig.made) == ["argocd-2"]


async def test_assignment_when_an_instance_leaves_then_it_is_stopped_and_the_others_keep_their_watches(
    rig: Rig,
) -> None:
    await rig.fleet.assign_partitions(ALL, rig.desired)
    await rig.fleet.suspend()
    await rig.fleet.assign_partitions({partition_of_instance("argocd", PARTITIONS)}, rig.desired)
    assert rig.made["argocd"].told == ["start", "work", "suspend", "work"]
    assert rig.made["argocd-2"].told == ["start", "work", "suspend", "stop"]


async def test_work_when_the_desired_state_has_a_gap_then_the_instances_are_told(rig: Rig) -> None:
    rig.desired.store_row(TopicPartition("gitops.engine", 0), row_of("argocd"))
    rig.desired.complete = False
    await rig.fleet.assign_partitions(ALL, rig.desired)
    assert (rig.made["argocd"].rows, rig.made["argocd"].complete) == ([row_of("argocd")], False)


async def test_readiness_when_something_is_missing_then_it_is_named(rig: Rig) -> None:
    assert "no partitions" in rig.fleet.not_ready()
    await rig.fleet.assign_partitions(ALL, rig.desired)
    rig.made["argocd"].listed = False
    assert rig.fleet.not_ready() == "watches not listed yet: argocd"
    rig.made["argocd"].is_inaccessible = True
    assert rig.fleet.not_ready() == "", "the other instances are served"
    rig.made["argocd"].is_inaccessible = False
    rig.made["argocd"].listed = True
    assert rig.fleet.not_ready() == ""
    await rig.fleet.suspend()
    assert rig.fleet.not_ready() != ""


async def test_row_when_it_comes_then_its_instance_has_it(rig: Rig) -> None:
    await rig.fleet.assign_partitions(ALL, rig.desired)
    rig.fleet.submit_row(row_of("argocd"), rig.acknowledge)
    rig.fleet.submit_row(row_of("argocd", deleted=True), rig.acknowledge)
    assert rig.made["argocd"].told == ["start", "work", "submit app", "forget app"]


async def test_order_when_it_is_about_an_instance_then_it_is_no_object_of_it_and_is_acknowledged_at_once(
    rig: Rig,
) -> None:
    order = row_of("argocd", kind=REMEDY, name="remedy-1")
    rig.desired.store_row(TopicPartition("gitops.engine", 0), order)
    await rig.fleet.assign_partitions({partition_of_instance("argocd", PARTITIONS)}, rig.desired)
    rig.fleet.submit_row(order, rig.acknowledge)
    rig.fleet.submit_row(replace(order, deleted=True), rig.acknowledge)
    assert rig.made["argocd"].told == ["start", "load remedy-1", "work", "order remedy-1", "withdraw remedy-1"]
    assert (rig.made["argocd"].rows, rig.acknowledged) == ([], 2)


async def test_row_when_it_comes_by_an_unexpected_partition_then_its_instance_is_taken_on(rig: Rig) -> None:
    await rig.fleet.assign_partitions(set(), rig.desired)
    rig.fleet.submit_row(row_of("argocd"), rig.acknowledge)
    assert rig.made["argocd"].told == ["start", "work", "submit app"]


async def test_row_when_nobody_knows_its_instance_then_that_is_reported_until_it_arrives(rig: Rig) -> None:
    await rig.fleet.assign_partitions(ALL, rig.desired)
    rig.reports.behind = True
    rig.fleet.submit_row(row_of("unheard-of"), rig.acknowledge)
    rig.reports.catch_up(arrived=False)
    await settle()
    assert [type(event) for event in rig.reports.of("app")] == [Failed, Failed]
    assert rig.acknowledged == 1


async def test_deleted_row_when_nobody_knows_its_instance_then_it_is_only_acknowledged(rig: Rig) -> None:
    await rig.fleet.assign_partitions(ALL, rig.desired)
    rig.fleet.submit_row(row_of("unheard-of", deleted=True), rig.acknowledge)
    assert rig.reports.sent == []
    assert rig.acknowledged == 1


async def test_stop_when_it_is_called_then_every_instance_ends(rig: Rig) -> None:
    await rig.fleet.assign_partitions(ALL, rig.desired)
    await rig.fleet.stop()
    assert [made.told[-1] for made in rig.made.values()] == ["stop"] * 3


async def test_row_when_its_instance_is_of_another_cluster_then_it_is_passed_over(rig: Rig) -> None:
    rig.learn(instance_row("theirs", engine_cluster=ELSEWHERE))
    await rig.fleet.assign_partitions(ALL, rig.desired)
    rig.fleet.submit_row(row_of("theirs"), rig.acknowledge)
    assert (rig.reports.sent, rig.acknowledged, "theirs" in rig.made) == ([], 1, False)


async def test_row_when_its_instance_is_retired_then_it_is_refused(rig: Rig) -> None:
    await rig.fleet.assign_partitions(ALL, rig.desired)
    rig.learn(instance_row("argocd", state="retired"))
    rig.fleet.submit_row(row_of("argocd"), rig.acknowledge)
    assert [type(event) for event in rig.reports.of("app")] == [Failed]


async def test_row_when_partitions_are_being_revoked_then_the_next_owner_is_sent_it_again(rig: Rig) -> None:
    await rig.fleet.assign_partitions(ALL, rig.desired)
    await rig.fleet.suspend()
    rig.learn(instance_row("new"))
    rig.fleet.submit_row(row_of("new"), rig.acknowledge)
    assert (rig.acknowledged, "new" in rig.made) == (0, False)


async def test_instance_when_it_is_added_then_it_is_worked_for_and_the_others_do_not_notice(rig: Rig) -> None:
    await rig.fleet.assign_partitions(ALL, rig.desired)
    rig.desired.store_row(TopicPartition("gitops.engine", 0), row_of("new"))
    rig.learn(instance_row("new", namespace="its-own"))
    assert (rig.made["new"].told, rig.made["new"].namespace) == (["start", "work"], "its-own")
    assert rig.made["new"].rows == [row_of("new")]
    assert rig.made["argocd"].told == ["start", "work"]


async def test_instance_when_it_is_added_to_anothers_partition_then_it_is_not_watched(rig: Rig) -> None:
    await rig.fleet.assign_partitions(ALL - {partition_of_instance("new", PARTITIONS)}, rig.desired)
    rig.learn(instance_row("new"))
    assert "new" not in rig.made


async def test_instance_when_it_is_added_while_nothing_is_assigned_then_the_next_assignment_takes_it_on(
    rig: Rig,
) -> None:
    rig.learn(instance_row("new"))
    assert rig.made == {}
    await rig.fleet.assign_partitions(ALL, rig.desired)
    assert rig.made["new"].told == ["start", "work"]


@pytest.mark.parametrize("change", [{"state": "retired"}, {"engine_cluster": ELSEWHERE}, {"deleted": True}])
async def test_instance_when_it_is_not_ours_any_more_then_it_ends_and_the_others_do_not_notice(
    rig: Rig, change: dict[str, Any]
) -> None:
    await rig.fleet.assign_partitions(ALL, rig.desired)
    rig.learn(instance_row("argocd", **change))
    await settle()
    assert rig.made["argocd"].told == ["start", "work", "stop"]
    assert rig.made["argocd-1"].told == ["start", "work"]


async def test_instance_when_its_namespace_is_another_then_it_is_watched_there(rig: Rig) -> None:
    await rig.fleet.assign_partitions(ALL, rig.desired)
    former = rig.made["argocd"]
    rig.learn(instance_row("argocd", namespace="restored"))
    await settle()
    assert former.told == ["start", "work", "stop"]
    assert (rig.made["argocd"].namespace, rig.made["argocd"].told) == ("restored", ["start", "work"])


@pytest.mark.parametrize("state", ["full", "draining", "drained"])
async def test_instance_when_it_takes_no_more_tenants_then_it_is_served_like_any_other(rig: Rig, state: str) -> None:
    rig.learn(instance_row("argocd", state=state))
    await rig.fleet.assign_partitions(ALL, rig.desired)
    assert rig.made["argocd"].told == ["start", "work"]


async def test_revocation_when_a_retired_instance_is_still_ending_then_it_waits_for_that(rig: Rig) -> None:
    await rig.fleet.assign_partitions(ALL, rig.desired)
    ending = rig.made["argocd"].ending
    ending.clear()
    rig.learn(instance_row("argocd", state="retired"))
    revoking = asyncio.create_task(rig.fleet.suspend())
    await settle()
    assert not revoking.done(), "another agent may act on it once this is done"
    ending.set()
    await revoking
    assert rig.defects == []


async def test_readiness_when_there_is_no_instance_yet_then_it_is_ready() -> None:
    rig = Rig()
    rig.learn(*(instance_row(name, deleted=True) for name in NAMES))
    await rig.fleet.assign_partitions(ALL, rig.desired)
    assert rig.fleet.not_ready() == ""
