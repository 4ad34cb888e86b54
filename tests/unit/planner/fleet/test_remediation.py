"""What is done for instances that are ill: which rung, when, for how many at once, and when it is over."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.common.messages import BY_HAND, REMEDY, Applied, Failed, Observation
from services.planner.domain.changes import Changes
from services.planner.domain.events import Event
from services.planner.domain.fleet.fleet import Fleet, Holding
from services.planner.domain.fleet.loaded_parts import UNLOADED_TENANTS, UnloadedRows
from services.planner.domain.fleet.moves.move_orders import begin_moves
from services.planner.domain.fleet.moves.moves import Seen, next_step
from services.planner.domain.fleet.placement.assignments import PlacementRules, TenantPin
from services.planner.domain.fleet.remediation.evacuation import evacuate
from services.planner.domain.fleet.remediation.ladder import HELPS
from services.planner.domain.fleet.remediation.remediation_rows import Remediation
from services.planner.domain.fleet.remediation.remedy_orders import (
    apply_remedy_reports,
    decide_remedies,
    may_evacuate,
)
from services.planner.domain.fleet.reports.report_rows import SILENT, TENANT_INDUCED, InstanceHealth
from services.planner.domain.fleet.rows import ON_SOURCE, EngineInstanceRow, InstanceState, Move, MovePath, MoveStep
from services.planner.domain.policy import RemedyPolicy
from services.planner.rows.compiled import EngineKey, EngineRow
from services.planner.rows.tenants import PART
from tests.unit.examples import in_proportion
from tests.unit.planner.fleet.loaded_fleet import loaded_fleet, with_tenants
from tests.unit.planner.fleet.simulated_fleet import POOL
from tests.unit.planner.fleet.test_fleet_orders import CLUSTER, INSTANCE, knows_version
from tests.unit.planner.fleet.test_move_orders import MOVE
from tests.unit.planner.fleet.test_rebalance_orders import fleet as fleet_with_tenants
from tests.unit.planner.given import at

POLICY = RemedyPolicy(
    after=timedelta(seconds=60),
    cool_down=timedelta(seconds=100),
    replace_after=timedelta(0),
    recovered_after=timedelta(seconds=300),
)
UNHELPED = 10_000
"""Seconds after which all was tried."""


def not_none(found: int | None) -> int:
    assert found is not None
    return found


def instances(count: int, ring: str = "general") -> list[EngineInstanceRow]:
    return [replace(INSTANCE, id=f"i{n}", namespace=f"argocd-{n}", ring=ring) for n in range(count)]


def told(instance: str, health: str, reason: str, since: int) -> InstanceHealth:
    return InstanceHealth(instance, 3, health, reason, "", "", None, at(since), at(since), None)


@dataclass
class Ladder:
    """A fleet whose planner looks at it; what is written is kept."""

    fleet: Fleet
    policy: RemedyPolicy = POLICY
    rows: dict[str, Remediation] = field(default_factory=dict)
    orders: dict[EngineKey, EngineRow] = field(default_factory=dict)
    audit: list[str] = field(default_factory=list)
    given: list[str] = field(default_factory=list)
    """Orders about the fleet."""
    now: int = 0

    def tell(self, health: str, reason: str = "", instance: str = "i0", since: int | None = None) -> None:
        row = told(instance, health, reason, self.now if since is None else since)
        self.fleet = replace(self.fleet, health={**self.fleet.health, instance: row})

    def look(self, second: int) -> Changes:
        """Until nothing is due any more; returns what the last look has changed."""
        changes = self.look_once(second)
        while changes != Changes() and (due := self.due()) is not None and due <= second:
            changes = self.look_once(second)
        return changes

    @property
    def loaded(self) -> Fleet:
        """The fleet as such a look loads it: tenants only if one of them may have to leave."""
        fleet = replace(self.fleet, load=UnloadedRows("loads"))
        if may_evacuate(self.rows.values(), fleet):
            return fleet
        unloaded = UnloadedRows("tenants")
        return replace(fleet, tenants=UNLOADED_TENANTS, returned=unloaded, evacuations=unloaded)

    def look_once(self, second: int) -> Changes:
        self.now = second
        changes = decide_remedies(self.loaded, self.rows, at(second), self.policy)
        self.rows |= {row.engine_instance_id: row for row in changes.remediations}
        for key in changes.engine_gone:
            self.orders.pop(key, None)
        self.orders |= {EngineKey(r.engine_instance_id, r.kind, r.namespace, r.name, r.lane): r for r in changes.engine}
        self.audit += [each.message.split(":")[0] for each in changes.audit_records if each.kind == "Remediation"]
        moves = {move.tenant_id: move for move in changes.moves_ordered}
        cordoned = {name: row.message for name, row in self.rows.items() if row.is_cordoned}
        rows = {row.id: row for row in changes.engine_instances}
        self.given += [f"{each.kind} {each.subject}" for each in changes.fleet_orders]
        self.fleet = replace(
            self.fleet,
            moves={**self.fleet.moves, **moves},
            cordoned=cordoned,
            instances={**self.fleet.instances, **rows},
        )
        return changes

    def begin_moves(self, at_once: int = 1) -> list[Move]:
        """Those that the next look at moves lets begin; those that are over are forgotten."""
        suspended = frozenset(name for name, row in self.rows.items() if row.state == "held")
        before, after = self.fleet.moves, begin_moves(replace(self.fleet, suspended=suspended), at(self.now), at_once)
        left = {tenant: move for tenant, move in after.moves.items() if not move.is_over}
        self.fleet = replace(after, moves=left)
        return [move for tenant, move in left.items() if move.step == "reserved" and before[tenant].step == "ordered"]

    def end_moves(self) -> None:
        """Tenants whose moves have begun are on their targets, or stay if these go back."""
        on = {each.tenant_id: each.destination for each in self.fleet.moves.values() if each.step == "reserved"}
        tenants = {
            name: replace(each, engine_instance_id=on.get(each.id, each.engine_instance_id))
            for name, each in self.fleet.tenants.items()
        }
        left = {tenant: move for tenant, move in self.fleet.moves.items() if tenant not in on}
        self.fleet = replace(with_tenants(self.fleet, tenants), moves=left)

    def rungs(self, until: int = UNHELPED, instance: str = "i0") -> list[str]:
        """All that is tried while nothing helps, by looks at each time that is due."""
        self.look(self.now)
        while (due := self.due()) is not None and due <= until and self.rows[instance].state != "exhausted":
            self.look(due)
        return [*self.rows[instance].remedies]

    def pass_time(self, until: int) -> None:
        """With a look at each time that is due before."""
        self.look(0)
        while (due := self.due()) is not None and due < until:
            self.look(due)
        self.now = until

    def due(self) -> int | None:
        times = [row.due_at for row in self.rows.values() if row.due_at is not None]
        return math.ceil((min(times) - at(0)).total_seconds()) if times else None

    def answer(self, outcome: Applied | Failed, instance: str = "i0") -> None:
        """Its agent tells what has become of the newest remedy."""
        name = str(self.rows[instance].number)
        event = Event(Observation("", "", instance, REMEDY, name, at(self.now), outcome), 0, "")
        for row in apply_remedy_reports([event]).remedy_reports:
            known = self.rows[row.engine_instance_id]
            if known.number == row.number:
                self.rows[row.engine_instance_id] = replace(
                    known, told_number=row.number, told_outcome=row.outcome, told_message=row.message
                )


def ladder(count: int = 4, ring: str = "general", policy: RemedyPolicy = POLICY) -> Ladder:
    rows = {each.id: each for each in instances(count, ring)}
    return Ladder(loaded_fleet({CLUSTER.id: CLUSTER}, rows, {}), policy)


ORDERED_OF_AGENTS = ["Refresh", "RestartController", "RestartRepoServer", "FlushCache"]
EVERYTHING = [*ORDERED_OF_AGENTS, "ReapplyConfiguration"]
RESTARTS = [each for each in EVERYTHING if each not in ("Refresh", "RestartController")]
"""All that is done while the tenants of an instance that is down leave it."""
REPLACED = ["Cordon", "Evacuate", "Replace"]
RUNGS = {
    ("Down", "HeartbeatLost"): ["Cordon", "RestartController", "Evacuate", *RESTARTS, "Replace"],
    ("Degraded", "HeartbeatLate"): [*EVERYTHING, "Cordon"],
    ("Degraded", "HeartbeatFailing"): [
        "Refresh", "RestartRepoServer", "FlushCache", "ReapplyConfiguration", "Cordon",
    ],
    ("Down", "ReconciliationLate"): ["Cordon", "RestartController", "Evacuate", *RESTARTS, "Replace"],
    ("Degraded", "RefreshNotTakenUp"): [*EVERYTHING, "Cordon"],
    ("Down", "ControllerNotReady"): ["Cordon", "RestartController", "Evacuate", "ReapplyConfiguration", "Replace"],
    ("Down", "RepoServerNotReady"): ["Cordon", "RestartRepoServer", "Evacuate", "ReapplyConfiguration", "Replace"],
    ("Degraded", "RedisNotReady"): ["FlushCache", "ReapplyConfiguration", "Cordon"],
    ("Degraded", "Restarting"): ["FlushCache", "ReapplyConfiguration", "Cordon"],
    ("Down", "RepoServerFailing"): [
        "Cordon", "RestartRepoServer", "Evacuate", "FlushCache", "ReapplyConfiguration", "Replace",
    ],
    ("Down", "NotAccepted"): ["Cordon", "ReapplyConfiguration", "Evacuate", "Replace"],
    ("Degraded", "OtherVersion"): ["ReapplyConfiguration", "Cordon"],
    ("Down", "Closed"): ["Cordon", "ReapplyConfiguration", "Evacuate", "Replace"],
    ("Down", "ApiFailing"): REPLACED,
    ("Degraded", "ApiSlow"): ["Cordon"],
    ("Unknown", SILENT): REPLACED,
    ("Down", "SomethingNew"): REPLACED,
    ("Degraded", "CertificateExpiring"): [],
    ("Degraded", "CertificateExpired"): [],
    ("Healthy", ""): [],
    ("Unknown", ""): [],
}  # fmt: skip


@pytest.mark.parametrize(("health", "expected"), RUNGS.items(), ids="-".join)
def test_instance_when_nothing_helps_then_all_is_tried_that_may_by_the_reason(
    health: tuple[str, str], expected: list[str]
) -> None:
    tried = ladder()
    tried.tell(*health)
    if not expected:
        assert tried.look(UNHELPED).remediations == ()
        return
    assert tried.rungs() == expected
    assert (tried.rows["i0"].state, tried.rows["i0"].is_cordoned) == ("exhausted", True)


def test_reasons_when_agents_tell_them_then_each_has_its_remedies() -> None:
    assert {reason for _, reason in RUNGS} - {"", "SomethingNew", *BY_HAND} == set(HELPS)


def test_instance_when_a_newer_planner_has_taken_a_rung_then_that_has_its_time_and_the_next_comes() -> None:
    tried = ladder()
    tried.tell("Degraded", "HeartbeatLate")
    tried.look(60)
    tried.rows["i0"] = replace(tried.rows["i0"], rung="Reboot", tried='["Reboot"]')
    assert (tried.look(61).engine, tried.rows["i0"].rung) == ((), "Reboot")
    tried.look(300)
    assert tried.rows["i0"].remedies == ("Reboot", "Refresh")


def test_instance_when_a_certificate_is_all_that_is_wrong_any_more_then_it_recovers() -> None:
    tried = ladder()
    tried.tell("Degraded", "ApiSlow")
    tried.look(60)
    assert tried.rows["i0"].is_cordoned
    tried.now = 70
    tried.tell("Degraded", "CertificateExpiring")
    tried.look(80)
    assert tried.rows["i0"].state == "recovering"
    tried.look(370)
    assert (tried.rows["i0"].state, tried.rows["i0"].is_cordoned) == ("well", False)


def test_instances_when_certificates_of_all_expire_then_another_that_is_ill_is_helped() -> None:
    tried = ladder()
    for number in (1, 2, 3):
        tried.tell("Degraded", "CertificateExpired", f"i{number}")
    tried.tell("Down", "ControllerNotReady")
    tried.look(60)
    assert {name: row.state for name, row in tried.rows.items()} == {"i0": "acting"}


def test_remedy_when_it_is_not_ill_for_long_then_none_is_ordered_until_it_is() -> None:
    tried = ladder()
    tried.tell("Down", "ControllerNotReady")
    assert [tried.look(second).engine for second in (0, 59)] == [(), ()]
    assert (tried.rows["i0"].state, tried.audit) == ("waiting", [])
    (order,) = tried.look(60).engine
    assert (order.engine_instance_id, order.kind, order.desired) == ("i0", REMEDY, "present")
    assert order.manifest == f'{{"number":{order.name},"remedy":"RestartController"}}'


@pytest.mark.parametrize("reason", ["ApiFailing", "Closed"])
def test_remedy_when_its_instance_is_out_of_reach_by_turns_then_the_first_one_comes_as_soon_as_otherwise(
    reason: str,
) -> None:
    """Since when its health is so begins anew each time."""
    tried = ladder()
    for second in range(0, 60, 20):
        tried.now = second
        tried.tell("Down", "ControllerNotReady")
        tried.look(second)
        tried.now = second + 10
        tried.tell("Down", reason)
        tried.look(second + 10)
        assert tried.rows["i0"].remedies == ()
    tried.look(60)
    assert tried.rows["i0"].remedies[0] == "Cordon"


def test_remedy_when_it_may_help_yet_then_the_next_one_waits_and_then_takes_its_place() -> None:
    tried = ladder()
    tried.tell("Degraded", "RepoServerFailing")
    tried.look(60)
    assert tried.look(159).engine == ()
    tried.look(160)
    assert [row.manifest.split('"')[-2] for row in tried.orders.values()] == ["FlushCache"]


def test_remedy_when_its_agent_cannot_carry_it_out_then_the_next_one_comes_at_once() -> None:
    tried = ladder()
    tried.tell("Degraded", "RedisNotReady")
    tried.look(60)
    tried.answer(Failed("", permanent=True, message="no pod of it is to be seen"))
    tried.look_once(61)
    assert (tried.rows["i0"].rung, tried.orders) == ("ReapplyConfiguration", {})


def test_remedy_when_its_agent_tells_that_it_is_done_then_it_has_its_time_to_help() -> None:
    tried = ladder()
    tried.tell("Down", "ControllerNotReady")
    tried.look(60)
    tried.answer(Applied(""))
    assert tried.look(61).remediations == ()


def test_report_when_it_is_of_a_remedy_that_is_not_the_newest_then_it_changes_nothing() -> None:
    tried = ladder()
    tried.tell("Down", "NotAccepted")
    tried.look(60)
    before = tried.rows["i0"]
    late = Observation("", "", "i0", REMEDY, str(before.number - 1), at(61), Failed("", permanent=True, message=""))
    (row,) = apply_remedy_reports([Event(late, 0, "")]).remedy_reports
    assert row.number != before.number


def test_reason_when_it_changes_then_what_was_tried_is_not_tried_again() -> None:
    tried = ladder()
    tried.tell("Degraded", "RepoServerNotReady")
    tried.look(60)
    tried.tell("Degraded", "RepoServerFailing", since=0)
    assert tried.rungs() == ["RestartRepoServer", "FlushCache", "ReapplyConfiguration", "Cordon"]


def test_instance_when_it_is_healthy_again_for_a_while_then_its_cordon_is_lifted_and_the_ladder_begins_anew() -> None:
    tried = ladder()
    tried.tell("Degraded", "ApiSlow")
    tried.look(60)
    tried.now = 100
    tried.tell("Healthy")
    tried.look(100)
    assert (tried.rows["i0"].state, tried.rows["i0"].is_cordoned, tried.due()) == ("recovering", True, 400)
    before = tried.rows["i0"].number
    tried.look(400)
    assert (tried.rows["i0"].state, tried.rows["i0"].is_cordoned, tried.due()) == ("well", False, None)
    tried.tell("Degraded", "ApiSlow")
    assert tried.rungs() == ["Cordon"]
    assert tried.rows["i0"].number > before
    assert tried.audit == ["Cordon (ApiSlow)", "Well", "Cordon (ApiSlow)"]


def test_instance_when_it_is_ill_again_before_it_was_well_then_the_ladder_goes_on() -> None:
    tried = ladder()
    tried.tell("Down", "ControllerNotReady")
    tried.look(60)
    tried.tell("Healthy")
    tried.look(160)
    tried.tell("Down", "ControllerNotReady")
    tried.look(170)
    assert tried.rows["i0"].remedies == ("Cordon", "RestartController", "Evacuate")


REMEDIES_OF = {
    "Down": (("Cordon", "RestartController"), "Evacuate"),
    "Degraded": (("RestartController",), "Cordon"),
}
"""What is done first for what is wrong with the controller, and next."""


@pytest.mark.parametrize("health", REMEDIES_OF)
@pytest.mark.parametrize("was", ["held", "recovering"])
def test_remedy_when_it_was_held_or_its_instance_well_for_a_moment_then_it_has_the_rest_of_its_time(
    was: str, health: str
) -> None:
    tried = ladder()
    first, following = REMEDIES_OF[health]
    tried.tell(health, "ControllerNotReady")
    tried.look(60)
    (number,) = tried.orders
    ends_at = not_none(tried.due()) if health == "Down" else 160
    if was == "held":
        tried.answer(Applied(""))
        tried.tell("Degraded", "ApiSlow", "i1", since=70)
    else:
        tried.tell("Healthy", since=70)
    tried.look(70)
    assert (tried.rows["i0"].state, tried.orders) == (was, {}), "and no agent goes on with it"
    tried.tell("Healthy", instance="i1", since=80)
    tried.tell(health, "ControllerNotReady", since=80)
    tried.look(80)
    assert (tried.rows["i0"].state, tried.rows["i0"].remedies) == ("acting", first)
    assert [*tried.orders] == [number]
    assert not_none(tried.due()) <= ends_at
    tried.look(ends_at - 1)
    assert tried.rows["i0"].remedies == first
    tried.look(ends_at)
    assert tried.rows["i0"].rung == following


def held(tried: Ladder, begins_at: int, ends_at: int) -> None:
    """Another instance is ill meanwhile: too many of four."""
    for second in range(begins_at, ends_at, 20):
        tried.tell("Degraded", "ApiSlow", "i3", since=begins_at)
        tried.look(second)
        assert (tried.rows["i0"].state, tried.orders) == ("held", {}), "no agent may act"
    tried.tell("Healthy", instance="i3", since=ends_at)
    tried.look(ends_at)


@pytest.mark.parametrize("ends_at", [80, 500])
@pytest.mark.parametrize("health", REMEDIES_OF)
def test_remedy_when_it_was_held_and_nobody_knows_that_it_was_carried_out_then_it_is_taken_anew_with_all_of_its_time(
    health: str, ends_at: int
) -> None:
    tried = ladder()
    first, following = REMEDIES_OF[health]
    tried.tell(health, "ControllerNotReady")
    tried.look(60)
    (ordered_first,) = tried.orders
    held(tried, 70, ends_at)
    (ordered_anew,) = tried.orders
    assert (tried.rows["i0"].remedies, ordered_anew == ordered_first) == (first, False)
    has_time_until = ends_at + (66 if health == "Down" else 99)
    tried.look(has_time_until)
    assert ([*tried.orders], tried.rows["i0"].remedies) == ([ordered_anew], first)
    tried.look(has_time_until + 1)
    assert tried.rows["i0"].rung == following


def test_remedy_when_it_is_held_again_and_again_then_it_counts_as_tried_only_after_all_of_its_time() -> None:
    tried = ladder()
    tried.tell("Degraded", "ControllerNotReady")
    tried.look(60)
    for begins_at in (130, 300, 470):
        held(tried, begins_at, begins_at + 100)
        assert tried.rows["i0"].rung == "RestartController"
    tried.look(669)
    assert tried.rows["i0"].rung == "RestartController"
    tried.look(670)
    assert tried.rows["i0"].rung == "Cordon"


@pytest.mark.parametrize("outcome", [Applied(""), Failed("", permanent=True, message="no pod of it is to be seen")])
@pytest.mark.parametrize("told_at", [65, 75])
def test_remedy_when_it_was_held_and_its_agent_has_told_of_it_then_that_it_was_held_for_long_changes_nothing(
    outcome: Applied | Failed, told_at: int
) -> None:
    """What an agent told may arrive when its order is taken back."""
    tried = ladder()
    tried.fleet = fleet_with_tenants({"i0": 2}, *instances(4))
    tried.tell("Down", "ControllerNotReady")
    tried.look(60)
    if told_at < 70:
        tried.answer(outcome)
    tried.tell("Degraded", "ApiSlow", "i3", since=70)
    tried.look(70)
    if told_at > 70:
        tried.answer(outcome)
    held(tried, 80, 500)
    assert tried.rows["i0"].remedies == ("Cordon", "RestartController", "Evacuate")
    assert len(tried.fleet.moves) == 2


def ring_with_two() -> Ladder:
    """The first is remedied from second 60 to 160; the second is down, cordoned, and waits for that."""
    tried = ladder(8)
    tried.tell("Degraded", "RepoServerFailing", "i0")
    tried.tell("Down", "ControllerNotReady", "i1", since=1)
    for second in (60, 61):
        tried.look(second)
    assert {name: (row.state, row.rung) for name, row in tried.rows.items()} == {
        "i0": ("acting", "RestartRepoServer"), "i1": ("waiting", "Cordon"),
    }  # fmt: skip
    return tried


def test_remedy_when_it_had_its_time_before_it_was_held_then_it_is_not_taken_anew() -> None:
    """Such as while the next one waits for another of the ring."""
    tried = ring_with_two()
    tried.look(160)
    assert (tried.rows["i0"].state, tried.rows["i1"].rung) == ("waiting", "RestartController")
    tried.tell("Degraded", "ApiSlow", "i2", since=170)
    tried.look(170)
    assert {name: row.remedies for name, row in tried.rows.items()} == {
        "i0": ("RestartRepoServer",), "i1": ("Cordon",), "i2": (),
    }  # fmt: skip


def test_remedy_when_it_was_held_and_the_reason_is_another_by_then_then_what_helps_with_that_comes_next() -> None:
    tried = ladder()
    tried.tell("Down", "ControllerNotReady")
    tried.look(60)
    tried.tell("Down", "RepoServerNotReady", since=0)
    held(tried, 70, 500)
    assert tried.rows["i0"].remedies == ("Cordon", "RestartRepoServer")


def test_remedy_when_it_was_held_and_another_of_the_ring_has_its_turn_then_it_has_all_of_its_time_after_that() -> None:
    tried = ring_with_two()
    tried.tell("Degraded", "ApiSlow", "i2", since=140)
    tried.look(140)
    assert {row.state for row in tried.rows.values()} == {"held"}
    tried.tell("Healthy", instance="i2", since=200)
    tried.look(200)
    assert {name: row.state for name, row in tried.rows.items() if name != "i2"} == {"i0": "waiting", "i1": "acting"}
    tried.tell("Healthy", instance="i1", since=260)
    tried.look(267)
    assert (tried.rows["i0"].state, tried.rows["i0"].rung) == ("acting", "RestartRepoServer")
    tried.look(366)
    assert tried.rows["i0"].rung == "RestartRepoServer"
    tried.look(367)
    assert tried.rows["i0"].rung == "FlushCache"


def test_remedy_when_another_of_the_ring_has_its_turn_since_it_was_held_then_it_does_not_go_on_beside_that() -> None:
    tried = ladder(8)
    tried.tell("Degraded", "RepoServerFailing", "i0")
    tried.tell("Degraded", "RepoServerFailing", "i1")
    tried.look(60)
    tried.tell("Healthy", instance="i0", since=70)
    tried.look(80)
    tried.tell("Degraded", "RepoServerFailing", "i0", since=90)
    tried.look(100)
    assert {name: row.state for name, row in tried.rows.items()} == {"i0": "waiting", "i1": "acting"}


def test_remedy_when_another_of_the_ring_has_its_turn_and_it_is_down_then_its_tenants_stay_as_long_as_it_has_time() -> (
    None
):
    tried = ladder(8)
    tried.tell("Down", "ControllerNotReady", "i0")
    tried.tell("Down", "ControllerNotReady", "i1")
    tried.look(60)
    tried.tell("Healthy", instance="i0", since=70)
    tried.look(80)
    tried.tell("Down", "ControllerNotReady", "i0", since=90)
    for second in (100, 126):
        tried.look(second)
        assert (tried.rows["i0"].state, tried.rows["i0"].rung) == ("waiting", "RestartController")
    tried.look(127)
    assert tried.rows["i0"].rung == "Evacuate", "after two thirds of its time"


def test_ring_when_two_of_it_are_ill_then_one_is_remedied_and_the_other_when_that_is_over() -> None:
    tried = ladder(8)
    tried.tell("Down", "ControllerNotReady", "i1", since=0)
    tried.tell("Down", "ControllerNotReady", "i0", since=1)
    tried.look(61)
    assert {name: row.state for name, row in tried.rows.items()} == {"i1": "acting", "i0": "waiting"}
    assert tried.rows["i0"].message == "for i1, of the same ring"
    tried.tell("Healthy", instance="i1", since=70)
    tried.look(90)
    assert {name: row.state for name, row in tried.rows.items()} == {"i1": "recovering", "i0": "acting"}


def test_ring_when_one_is_degraded_and_another_is_down_then_that_has_its_turn_next_and_is_cordoned_at_once() -> None:
    tried = ladder(8)
    tried.tell("Degraded", "HeartbeatLate", "i1", since=0)
    tried.look(60)
    assert tried.rows["i1"].rung == "Refresh"
    tried.tell("Down", "HeartbeatLost", "i0", since=0)
    tried.look(61)
    assert [(row.rung, row.state) for row in (tried.rows["i1"], tried.rows["i0"])] == [
        ("Refresh", "acting"),
        ("Cordon", "waiting"),
    ]
    tried.look(60 + 50)
    assert [(row.rung, row.state) for row in (tried.rows["i1"], tried.rows["i0"])] == [
        ("Refresh", "waiting"),
        ("RestartController", "acting"),
    ]


@pytest.mark.parametrize("second", range(0, 1500, 60))
def test_ring_when_one_of_it_is_degraded_then_the_evacuation_of_one_that_is_down_waits_for_no_more_than_one_remedy(
    second: int,
) -> None:
    """Whatever is being tried for the other: to make its configuration anew takes six minutes, all else three."""
    tried = ladder(8, policy=DEFAULT)
    tried.tell("Degraded", "HeartbeatLate", "i1")
    tried.pass_time(second)
    tried.tell("Down", "HeartbeatLost")
    assert evacuation_begins(tried) <= second + 180 + 360


@pytest.mark.parametrize("second", range(0, 1200, 60))
def test_ring_when_tenants_leave_one_of_it_then_another_that_is_down_waits_for_no_more_than_one_remedy_of_that(
    second: int,
) -> None:
    tried = ladder(8, policy=DEFAULT)
    tried.tell("Down", "HeartbeatLost", "i1")
    tried.pass_time(second)
    tried.tell("Down", "HeartbeatLost")
    assert evacuation_begins(tried) <= second + 180 + 120


def test_ring_when_nothing_is_left_to_try_for_one_then_it_does_not_keep_the_others_waiting() -> None:
    tried = ladder(8)
    tried.tell("Degraded", "ApiSlow", "i1", since=0)
    tried.tell("Down", "ControllerNotReady", "i0", since=50)
    tried.rungs(300, "i1")
    assert tried.rows["i1"].state == "exhausted"
    assert tried.rows["i0"].rung == "RestartController"


def test_fleet_when_more_than_three_tenths_are_ill_then_nothing_is_touched_and_it_says_so() -> None:
    tried = ladder(4)
    tried.tell("Down", "ControllerNotReady", "i0")
    tried.look(60)
    tried.answer(Applied(""))
    tried.tell("Degraded", "ApiSlow", "i1")
    for second in range(61, 2000, 100):
        assert tried.look(second).engine == ()
    assert {row.state for row in tried.rows.values()} == {"held"}
    assert tried.rows["i1"].message == "2 of 4 instances are ill at once: the cause is shared"
    tried.tell("Healthy", instance="i1")
    tried.look(2001)
    assert tried.rows["i0"].rung == "Evacuate"


def two_clusters() -> Ladder:
    """Three of ten instances are in another cluster, and two of these have been down for a minute."""
    tried = ladder(10)
    south = replace(CLUSTER, id="south")
    tried.fleet = tried.fleet.with_cluster(south)
    for name in ("i7", "i8", "i9"):
        of_south = replace(tried.fleet.instances[name], engine_cluster=south.id)
        tried.fleet = tried.fleet.with_instance(of_south)
    for name in ("i7", "i8"):
        tried.tell("Down", "HeartbeatLost", name)
    tried.look(60)
    return tried


def test_cluster_when_many_of_it_are_ill_then_none_of_it_is_touched_and_others_are_helped() -> None:
    """Such as a bad release of its agents, whose Argo CDs are well: they would all be left."""
    tried = two_clusters()
    tried.tell("Down", "HeartbeatLost", "i0", since=0)
    tried.look(61)
    assert {name: row.state for name, row in tried.rows.items()} == {"i0": "acting", "i7": "held", "i8": "held"}
    assert tried.rows["i7"].message == (
        "engine cluster south: 2 of 3 instances are ill at once: the cause is shared; "
        "if it is lost, 'gitopsctl engine-clusters drain south' lets its tenants leave"
    )


def test_cluster_when_an_operator_drains_it_then_what_is_ill_of_it_is_evacuated_and_counts_among_no_others() -> None:
    tried = two_clusters()
    tried.tell("Down", "HeartbeatLost", "i9", since=0)
    tried.tell("Down", "HeartbeatLost", "i0", since=0)
    tried.look(61)
    assert {row.state for row in tried.rows.values()} == {"held"}
    assert tried.rows["i0"].message == "4 of 10 instances are ill at once: the cause is shared"
    assert "3 of 3 instances are ill at once" in tried.rows["i7"].message
    tried.fleet = tried.fleet.with_cluster(replace(tried.fleet.clusters["south"], state="draining"))
    tried.look(62)
    assert {name: row.state for name, row in tried.rows.items()} == dict.fromkeys(("i0", "i7", "i8", "i9"), "acting")
    tried.look(200)
    assert [name for name, row in tried.rows.items() if "Evacuate" not in row.remedies] == []


def test_fleet_when_what_is_ill_was_drained_then_it_counts_among_no_others_and_another_that_is_ill_is_helped() -> None:
    """Such as what a rollout that has failed leaves."""
    tried = ladder(4)
    for name in ("i2", "i3"):
        tried.fleet = tried.fleet.with_instance(replace(tried.fleet.instances[name], state="drained", ring="early"))
        tried.tell("Down", "ControllerNotReady", name)
    tried.tell("Down", "ControllerNotReady", "i0")
    tried.look(60)
    assert {name: row.state for name, row in tried.rows.items()} == {"i0": "acting", "i2": "acting", "i3": "waiting"}
    tried.tell("Down", "ControllerNotReady", "i1", since=0)
    tried.look(61)
    assert {row.message for row in tried.rows.values()} == {"2 of 2 instances are ill at once: the cause is shared"}


def test_ring_when_one_of_it_that_was_drained_is_ill_then_it_does_not_keep_the_others_waiting_until_all_was_tried() -> (
    None
):
    tried = ladder(4)
    tried.fleet = tried.fleet.with_instance(replace(tried.fleet.instances["i3"], state="drained"))
    tried.tell("Degraded", "RepoServerFailing", "i3", since=0)
    tried.look(60)
    tried.tell("Degraded", "RedisNotReady", "i0", since=60)
    tried.look(160)
    assert (tried.rows["i0"].rung, tried.rows["i3"].message) == ("FlushCache", "for i0, of the same ring")


def test_fleet_when_instances_that_work_are_drained_then_they_are_none_of_those_that_are_not_ill() -> None:
    tried = ladder(8)
    for name in ("i5", "i6", "i7"):
        tried.fleet = tried.fleet.with_instance(replace(tried.fleet.instances[name], state="drained"))
    for name in ("i0", "i1"):
        tried.tell("Down", "ControllerNotReady", name, since=0)
    tried.look(60)
    assert {row.message for row in tried.rows.values()} == {"2 of 5 instances are ill at once: the cause is shared"}


def test_remediation_when_switched_off_then_nothing_is_done_and_what_was_is_taken_back() -> None:
    tried = ladder()
    tried.tell("Degraded", "RedisNotReady")
    tried.rungs()
    tried.look(UNHELPED)
    tried.policy = replace(POLICY, is_on=False)
    tried.look(UNHELPED + 1)
    assert (tried.rows["i0"].state, tried.rows["i0"].is_cordoned, tried.orders) == ("well", False, {})
    assert tried.look(UNHELPED + 2) == Changes()


def test_instance_when_it_is_retired_then_nothing_is_done_for_it_any_more() -> None:
    tried = ladder()
    tried.tell("Down", "HeartbeatLost")
    tried.look(60)
    retired = replace(tried.fleet.instances["i0"], state="retired")
    tried.fleet = replace(tried.fleet, instances={**tried.fleet.instances, "i0": retired})
    tried.look(61)
    assert (tried.rows["i0"].state, tried.orders) == ("well", {})


@pytest.mark.parametrize("state", ["provisioning", "failed"])
def test_instance_when_it_was_never_ready_then_nothing_is_done_for_it_and_it_counts_among_no_others(
    state: InstanceState,
) -> None:
    tried = provisioned({}, *instances(4)[1:])
    first = replace(tried.fleet.instances["i0"], state=state)
    tried.fleet = replace(tried.fleet, instances={**tried.fleet.instances, "i0": first})
    tried.tell("Down", "ControllerNotReady")
    assert tried.look(60) == Changes()
    tried.tell("Down", "ControllerNotReady", "i1", since=0)
    tried.look(61)
    assert (tried.rows["i1"].rung, set(tried.rows)) == ("RestartController", {"i1"})


# Evacuation

(FIRST,) = instances(1)


def at_evacuation(
    on: Mapping[str, int],
    *others: EngineInstanceRow,
    reason: str = "ApiFailing",
    first: EngineInstanceRow = FIRST,
) -> Ladder:
    """A ladder at whose next look the evacuation of ``i0``, the first one, begins."""
    tried = Ladder(fleet_with_tenants(on, first, *others))
    tried.tell("Down", reason)
    tried.look(60)
    tried.now = 160
    return tried


def test_evacuation_when_it_begins_then_all_tenants_are_ordered_to_leave_to_those_that_accept() -> None:
    _, one, two, three = instances(4)
    tried = at_evacuation({"i0": 6, "i1": 1, "i2": 1}, one, two, replace(three, state="draining"))
    moves = tried.look(160).moves_ordered
    assert Counter((move.source, move.target) for move in moves) == {("i0", "i1"): 3, ("i0", "i2"): 3}
    assert {move.actor for move in moves} == {"remediation"}
    assert (tried.rows["i0"].state, tried.rows["i0"].rung) == ("acting", "Evacuate")


def test_evacuation_when_an_instance_has_no_room_then_its_tenants_go_to_one_that_has() -> None:
    _, one, two, _ = instances(4)
    tried = at_evacuation({"i0": 6}, replace(one, capacity=2), two)
    assert Counter(move.target for move in tried.look(160).moves_ordered)["i2"] >= 5


NOWHERE = {
    "there is none": ((), "no other instance takes it"),
    "it is in another region": (
        (replace(instances(2)[1], region="us"),),
        "engine instance i1 is 'us', not 'eu'",
    ),
}


@pytest.mark.parametrize(("others", "rule"), NOWHERE.values(), ids=NOWHERE)
def test_evacuation_when_there_is_nowhere_to_go_then_tenants_stay_and_the_rule_is_told(
    others: tuple[EngineInstanceRow, ...], rule: str
) -> None:
    tried = at_evacuation({"i0": 2}, *others)
    assert tried.look(160).moves_ordered == ()
    due = tried.due()
    assert due is not None
    tried.look(due)
    assert (tried.rows["i0"].state, tried.rows["i0"].rung) == ("exhausted", "Evacuate")
    assert tried.rows["i0"].message.startswith("tenants that cannot leave: 2; ")
    assert rule in tried.rows["i0"].message


OF_LOCAL = {"engine_class": "dedicated", "dedicated_to": "local"}
SHARED_ALONE = "engine instance i3 is shared, and workspace local has one to itself"
OTHERS_OF_LOCAL: dict[str, tuple[dict[str, Any] | None, str]] = {
    "there is none": (None, SHARED_ALONE),
}


@pytest.mark.parametrize(("other", "rule"), OTHERS_OF_LOCAL.values(), ids=OTHERS_OF_LOCAL)
def test_evacuation_when_its_workspace_has_the_instance_to_itself_then_its_tenants_go_to_no_shared_one(
    other: dict[str, Any] | None, rule: str
) -> None:
    own, second, _, shared = (replace(each, **OF_LOCAL) for each in instances(4))
    others = [] if other is None else [replace(second, **other)]
    tried = at_evacuation({"i0": 2}, *others, replace(shared, engine_class="shared", dedicated_to=""), first=own)
    assert tried.look(160).moves_ordered == ()
    tried.look(180)
    assert tried.rows["i0"].state == "exhausted"
    assert rule in tried.rows["i0"].message


def test_evacuation_when_another_instance_of_the_workspace_is_ready_then_its_tenants_go_there() -> None:
    own, second, _, shared = instances(4)
    second = replace(second, **OF_LOCAL)
    tried = at_evacuation({"i0": 2}, replace(second, state="provisioning"), shared, first=replace(own, **OF_LOCAL))
    assert tried.look(160).moves_ordered == ()
    tried.look(180)
    tried.fleet = tried.fleet.with_instance(second)
    assert {move.target for move in tried.look(200).moves_ordered} == {"i1"}


WITHOUT_ROOM: dict[str, dict[str, Any]] = {"it is full": {"state": "full"}, "it has no room": {"capacity": 3}}


@pytest.mark.parametrize("changes", WITHOUT_ROOM.values(), ids=WITHOUT_ROOM)
def test_evacuation_when_the_other_instance_of_the_workspace_has_no_room_then_its_tenants_go_there_all_the_same(
    changes: dict[str, Any],
) -> None:
    own, second, _, shared = instances(4)
    second = replace(second, **OF_LOCAL, **changes)
    tried = at_evacuation({"i0": 2}, second, shared, first=replace(own, **OF_LOCAL))
    assert [move.target for move in tried.look(160).moves_ordered] == ["i1", "i1"]


@pytest.mark.parametrize("state", ["accepting", "full"])
def test_evacuation_when_no_instance_has_room_then_tenants_go_to_what_carries_the_least_for_its_capacity(
    state: InstanceState,
) -> None:
    _, one, two, _ = instances(4)
    others = replace(one, capacity=10, state=state), replace(two, capacity=40, state=state)
    tried = at_evacuation({"i0": 2, "i1": 5, "i2": 20}, *others)
    moves = tried.look(160).moves_ordered
    assert [(move.target, move.path) for move in moves] == [("i2", "forced")] * 2
    message = "no instance that accepts tenants has room for its 2 Applications: it goes to i2 all the same"
    assert {move.message for move in moves} == {message}
    assert len(tried.begin_moves(at_once=5)) == 2


def test_evacuation_when_a_tenant_is_larger_than_all_room_then_it_goes_last_and_takes_no_room_of_others() -> None:
    tried = at_evacuation({"i0": 4}, replace(instances(2)[1], capacity=20))
    name = ("local", "team-0")
    large = replace(tried.fleet.tenants[name], deployments=22, load=75)
    tried.fleet = with_tenants(tried.fleet, {**tried.fleet.tenants, name: large})
    moves = tried.look(160).moves_ordered
    assert {move.target for move in moves} == {"i1"}
    assert len(moves) == 4
    assert [move.tenant_id for move in moves if move.message] == [large.id]


def test_evacuation_when_there_is_room_then_none_goes_to_an_instance_that_is_full_though_that_carries_less() -> None:
    _, one, two, _ = instances(4)
    tried = at_evacuation({"i0": 2, "i2": 3}, replace(one, state="full"), replace(two, capacity=10))
    assert [(move.target, move.message) for move in tried.look(160).moves_ordered] == [("i2", "")] * 2


def test_evacuation_when_no_gate_has_let_the_release_of_the_emptiest_in_then_tenants_go_there_if_nowhere_else() -> None:
    rows = instances(3)
    before = replace(
        fleet_with_tenants({"i0": 12, "i1": 9, "i2": 0}, *rows),
        closed=frozenset({"i2"}),
        health={"i0": told("i0", "Down", "HeartbeatLost", 0)},
    )

    def targets(fleet: Fleet) -> Counter[str]:
        _, after = evacuate("i0", fleet, at(0))
        return Counter(move.target for move in after.moves.values())

    assert targets(before) == {"i1": 12}
    assert targets(before.with_instance(replace(rows[1], state="full"))) == {"i2": 12}
    assert targets(before.with_instance(replace(rows[1], state="draining"))) == {"i2": 12}
    other = replace(before.with_instance(instances(4)[3]), holdings={"i1": Holding(0, rows[1].capacity)})
    assert targets(other) == {"i3": 12}


def test_evacuation_when_no_instance_has_room_and_a_move_went_back_then_the_tenant_goes_to_another() -> None:
    tried = at_evacuation({"i0": 1, "i1": 1, "i2": 1}, *(replace(each, capacity=3) for each in instances(3)[1:]))
    (move,) = tried.look(160).moves_ordered
    tried.fleet = replace(tried.fleet, moves={}, returned={(move.tenant_id, move.target): 1})
    (again,) = tried.look(180).moves_ordered
    assert {move.target, again.target} == {"i1", "i2"}


def test_evacuation_when_no_instance_has_room_and_one_is_being_installed_then_tenants_wait_for_that() -> None:
    _, one, two, _ = instances(4)
    tried = at_evacuation({"i0": 2, "i1": 5}, replace(one, capacity=10), replace(two, state="provisioning"))
    assert tried.look(160).moves_ordered == ()
    assert tried.look(not_none(tried.due())).moves_ordered == ()
    assert (tried.rows["i0"].state, tried.rows["i0"].message) == (
        "acting", "tenants that cannot leave: 2; no instance has room, and i2 is provisioning",
    )  # fmt: skip
    tried.fleet = tried.fleet.with_instance(replace(tried.fleet.instances["i2"], state="accepting"))
    assert [move.target for move in tried.look(not_none(tried.due())).moves_ordered] == ["i2", "i2"]


NOT_AWAITED: dict[str, Callable[[Fleet], Fleet]] = {
    "it has failed": lambda fleet: with_changes(fleet, state="failed"),
    "it is in another region": lambda fleet: with_changes(fleet, region="us"),
    "it is another workspace's": lambda fleet: with_changes(fleet, dedicated_to="team"),
    "it has no room for them either": lambda fleet: with_changes(fleet, capacity=1),
    "it runs another engine": lambda fleet: with_changes(fleet, engine="flux"),
    "nobody reaches it": lambda fleet: replace(fleet, health={"i2": told("i2", "Down", "ApiFailing", 1)}),
    "its cluster drains": lambda fleet: replace(fleet, clusters={CLUSTER.id: replace(CLUSTER, state="draining")}),
}


def with_changes(fleet: Fleet, **changes: Any) -> Fleet:
    return fleet.with_instance(replace(fleet.instances["i2"], **changes))


@pytest.mark.parametrize("changed", NOT_AWAITED.values(), ids=NOT_AWAITED)
def test_evacuation_when_what_is_being_installed_will_not_have_a_tenant_then_that_is_not_waited_for(
    changed: Callable[[Fleet], Fleet],
) -> None:
    _, one, two, _ = instances(4)
    rows = FIRST, replace(one, capacity=10), replace(two, state="provisioning")
    installed = fleet_with_tenants({"i0": 1, "i1": 5}, *rows)
    assert evacuate("i0", installed, at(160))[1].moves == {}
    (move,) = evacuate("i0", changed(installed), at(160))[1].moves.values()
    assert move.target == "i1"


def test_evacuation_when_another_of_its_workspace_is_being_installed_then_tenants_wait_for_that() -> None:
    own, second, _, shared = instances(4)
    second = replace(second, **OF_LOCAL, state="provisioning")
    tried = at_evacuation({"i0": 2}, second, shared, first=replace(own, **OF_LOCAL))
    assert tried.look(160).moves_ordered == ()
    tried.look(not_none(tried.due()))
    assert tried.rows["i0"].state == "acting"


def test_evacuation_when_its_instance_is_a_workspaces_own_then_no_shared_one_is_waited_for() -> None:
    own, one, two, _ = instances(4)
    rows = replace(own, **OF_LOCAL), replace(one, **OF_LOCAL, capacity=10), replace(two, state="provisioning")
    (move,) = evacuate("i0", fleet_with_tenants({"i0": 1, "i1": 5}, *rows), at(160))[1].moves.values()
    assert move.target == "i1"


def test_evacuation_when_what_is_being_installed_has_room_for_some_then_the_others_do_not_wait_for_it() -> None:
    _, one, two, _ = instances(4)
    rows = FIRST, replace(one, capacity=40), replace(two, state="provisioning", capacity=4)
    message, after = evacuate("i0", fleet_with_tenants({"i0": 4, "i1": 20}, *rows), at(160))
    assert [move.target for move in after.moves.values()] == ["i1", "i1"]
    assert message == "tenants that cannot leave: 2; no instance has room, and i2 is provisioning"


def test_evacuation_when_a_tenant_is_pinned_then_it_waits_for_no_instance_and_its_rule_is_told() -> None:
    _, one, two, _ = instances(4)
    before = fleet_with_tenants(
        {"i0": 1, "i1": 5}, FIRST, replace(one, capacity=10), replace(two, state="provisioning")
    )
    pinned = replace(before, rules=PlacementRules().with_pin(TenantPin("local", "team-0", "i0", at(1))))
    message, after = evacuate("i0", pinned, at(160))
    assert "tenant local/team-0 is pinned to engine instance i0" in message
    assert after is pinned


def test_evacuation_when_a_remedy_is_tried_meanwhile_then_who_waits_for_an_instance_leaves_once_it_is_ready() -> None:
    tried = provisioned({"i0": 2, "i1": 20}, replace(instances(2)[1], capacity=40))
    tried.tell("Down", "ControllerNotReady")
    while not (tried.rows.get("i0") and "Evacuate" in tried.rows["i0"].remedies):
        tried.look(max(tried.now, 60) if not tried.rows else not_none(tried.due()))
    (added,) = [row for row in tried.fleet.instances.values() if row.state == "provisioning"]
    assert tried.fleet.moves == {}
    while tried.rows["i0"].rung == "Evacuate":
        tried.look(not_none(tried.due()))
    ready_at = tried.now
    tried.fleet = tried.fleet.with_instance(replace(added, state="accepting"))
    tried.look(not_none(tried.due()))
    assert {move.target for move in tried.fleet.moves.values()} == {added.id}
    assert tried.now - ready_at <= 40


def test_evacuation_when_an_instance_would_get_half_as_much_again_as_its_capacity_then_the_other_tenants_stay() -> None:
    tried = at_evacuation({"i0": 5, "i1": 5}, replace(instances(2)[1], capacity=10))
    assert len(tried.look(160).moves_ordered) == 2
    message, _ = evacuate("i0", replace(tried.fleet, moves={}), at(160))
    assert "i1 would have more than 1.5 times its capacity: 'gitopsctl engines add' another" in message


def of_second(**changes: Any) -> Callable[[Fleet], Fleet]:
    return lambda fleet: fleet.with_instance(replace(fleet.instances["i1"], **changes))


STAYS: dict[str, Callable[[Fleet], Fleet]] = {
    "the other drains": of_second(state="draining"),
    "the other is installed": of_second(state="provisioning"),
    "the other is in another region": of_second(region="us"),
    "the other runs another engine": of_second(engine="flux"),
    "the other is of another workspace": of_second(dedicated_to="team"),
    "the other is cordoned": lambda fleet: replace(fleet, cordoned={"i1": "late"}),
    "the other is down": lambda fleet: replace(fleet, health={"i1": told("i1", "Down", "ApiFailing", 1)}),
    "it is pinned": lambda fleet: replace(
        fleet, rules=PlacementRules().with_pin(TenantPin("local", "team-0", "i0", at(1)))
    ),
    "it may be the cause": lambda fleet: replace(fleet, evacuations={("local", "team-0"): frozenset({"i8", "i9"})}),
}


@pytest.mark.parametrize("changed", STAYS.values(), ids=STAYS)
def test_evacuation_when_no_instance_has_room_then_all_other_rules_keep_a_tenant_as_ever(
    changed: Callable[[Fleet], Fleet],
) -> None:
    before = fleet_with_tenants({"i0": 1, "i1": 1}, FIRST, replace(instances(2)[1], capacity=3))
    assert len(evacuate("i0", before, at(160))[1].moves) == 1
    message, after = evacuate("i0", changed(before), at(160))
    assert message.startswith("tenants that cannot leave: 1; ")
    assert after.moves == {}


def test_move_when_there_was_no_room_for_it_and_it_takes_too_long_then_it_goes_back_and_says_why() -> None:
    begun = replace(MOVE, step="preparing", step_since=at(0), message="no instance has room for it")
    back = next_step(begun, Seen(unprepared="a login"), at(61), timedelta(seconds=60))
    assert (back.step, back.message) == ("cancelling", "preparing took longer than 0:01:00: a login")


TAKE_NOBODY: dict[str, dict[str, Any]] = {
    "it is full": {"state": "full"},
    "it has no room": {"capacity": 1},
    "it is installed": {"state": "provisioning"},
    "it has failed": {"state": "failed"},
    "it is drained": {"state": "drained"},
}


@pytest.mark.parametrize("changes", TAKE_NOBODY.values(), ids=TAKE_NOBODY)
def test_evacuation_of_a_shared_instance_when_the_workspaces_own_takes_nobody_then_its_tenants_go_to_shared_ones(
    changes: dict[str, Any],
) -> None:
    _, own, *shared = instances(4)
    tried = at_evacuation({"i0": 4}, replace(own, **OF_LOCAL, **changes), *shared)
    targets = Counter(move.target for move in tried.look(160).moves_ordered)
    assert targets.total() == 4
    assert targets.keys() <= {"i2", "i3"}


def test_evacuation_of_a_shared_instance_when_the_workspaces_own_has_room_then_its_tenants_go_there() -> None:
    _, own, *shared = instances(4)
    tried = at_evacuation({"i0": 4}, replace(own, **OF_LOCAL), *shared)
    assert Counter(move.target for move in tried.look(160).moves_ordered) == {"i1": 4}


def test_evacuation_when_a_tenant_was_not_given_up_yet_by_where_it_was_before_then_it_stays_and_that_is_told() -> None:
    tried = at_evacuation({"i0": 1}, *instances(3)[1:])
    (tenant,) = tried.fleet.tenants.values()
    tried.fleet = tried.fleet.with_move(
        replace(MOVE, tenant_id=tenant.id, source="i2", target="i0", step="withdrawing", path="fenced")
    )
    assert tried.look(160).moves_ordered == ()
    tried.look(180)
    assert (tried.rows["i0"].state, tried.rows["i0"].message) == (
        "exhausted",
        "tenants that cannot leave: 1; its move from i2 is not over",
    )


def test_evacuation_when_an_instance_is_added_to_which_tenants_can_go_then_it_goes_on() -> None:
    tried = at_evacuation({"i0": 2})
    tried.look(160)
    tried.look(180)
    tried.fleet = replace(tried.fleet, instances={**tried.fleet.instances, "i1": instances(2)[1]})
    assert {move.target for move in tried.look(200).moves_ordered} == {"i1"}
    assert tried.rows["i0"].state == "acting"


def test_evacuation_when_nobody_is_left_then_the_instance_is_to_be_replaced() -> None:
    tried = at_evacuation({"i0": 2}, instances(2)[1])
    tried.look(160)
    moved = {name: replace(each, engine_instance_id="i1") for name, each in tried.fleet.tenants.items()}
    tried.look(180)
    assert tried.rows["i0"].rung == "Evacuate"
    tried.fleet = with_tenants(tried.fleet, moved)
    tried.look(200)
    assert (tried.rows["i0"].state, tried.rows["i0"].rung) == ("exhausted", "Replace")


def test_evacuation_when_the_instance_is_healthy_again_then_moves_that_have_not_begun_are_cancelled() -> None:
    tried = at_evacuation({"i0": 2}, instances(2)[1])
    tried.look(160)
    first, second = tried.fleet.moves.values()
    tried.fleet = tried.fleet.with_move(replace(first, step="preparing"))
    tried.tell("Healthy")
    tried.look(180)
    assert [tried.fleet.moves[each.tenant_id].is_cancelled for each in (first, second)] == [False, True]


def test_evacuation_when_nobody_knows_any_more_how_the_instance_is_then_moves_that_have_not_begun_are_cancelled() -> (
    None
):
    tried = at_evacuation({"i0": 2}, instances(2)[1])
    tried.look(160)
    tried.tell("Unknown")
    assert [move.message for move in tried.look(180).moves_ordered] == [
        "its evacuation is over: no agent has told how it is"
    ] * 2
    assert tried.begin_moves() == []


def test_evacuation_when_too_many_are_ill_then_none_of_its_moves_begins_and_no_row_is_written_anew() -> None:
    tried = at_evacuation({"i0": 6}, *instances(4)[1:])
    ordered = tried.look(160).moves_ordered
    begun = tried.begin_moves()
    assert 0 < len(begun) < 6
    for second in range(161, 200, 10):
        tried.tell("Degraded", "ApiSlow", "i1")
        assert tried.look(second).moves_ordered == ()
        tried.end_moves()
        assert tried.begin_moves(at_once=6) == []
        tried.tell("Healthy", instance="i1")
        assert tried.look(second + 5).moves_ordered == ()
    left = {move.tenant_id for move in ordered} - {move.tenant_id for move in begun}
    assert {move.tenant_id for move in tried.begin_moves(at_once=6)} == left


def test_move_when_the_evacuation_of_its_source_is_held_before_it_begins_then_it_begins_once_that_goes_on() -> None:
    tried = on_its_way("ordered")
    (forced,) = tried.look(160).moves_ordered
    tried.tell("Degraded", "ApiSlow", "i1")
    tried.look(161)
    assert tried.begin_moves() == []
    tried.tell("Healthy", instance="i1")
    tried.look(not_none(tried.due()))
    (begun,) = tried.begin_moves()
    assert (begun.id, begun.path) == (forced.id, "forced")


def test_tenant_when_an_instance_is_cordoned_then_no_order_moves_it_there() -> None:
    cordoned = replace(fleet_with_tenants({"i0": 1}, *instances(2)), cordoned={"i1": "late"})
    assert not cordoned.candidate(cordoned.instances["i1"]).accepting


def test_ring_when_one_does_no_more_than_wait_for_its_tenants_to_leave_then_the_next_has_its_turn() -> None:
    tried = at_evacuation({"i0": 1, "i1": 1}, *instances(9)[1:])
    tried.look(160)
    tried.now = 170
    tried.tell("Down", "ApiFailing", "i1")
    for second in range(180, 2000, 20):
        tried.look(second)
    assert {name: (row.state, row.rung) for name, row in tried.rows.items()} == {
        "i0": ("acting", "Evacuate"),
        "i1": ("acting", "Evacuate"),
    }
    assert {move.source for move in tried.fleet.moves.values()} == {"i0", "i1"}


def test_tenant_when_its_move_goes_back_while_another_of_the_ring_has_its_turn_then_it_is_moved_again() -> None:
    tried = at_evacuation({"i0": 1}, *instances(9)[1:])
    tried.look(160)
    tried.tell("Down", "ControllerNotReady", "i1", since=0)
    tried.look(180)
    assert (tried.rows["i1"].rung, tried.rows["i0"].rung) == ("RestartController", "Evacuate")
    tried.fleet = replace(tried.fleet, moves={})
    (again,) = tried.look(200).moves_ordered
    assert (again.source, again.path) == ("i0", "forced")


def test_evacuation_when_moves_of_a_tenant_went_back_then_it_goes_where_the_fewest_did() -> None:
    tried = at_evacuation({"i0": 1}, *instances(4)[1:])
    (tenant,) = tried.fleet.tenants.values()
    tried.look(160)
    tried_targets = []
    for second in range(180, 300, 20):
        (move,) = tried.fleet.moves.values()
        tried_targets.append(move.target)
        returned = Counter((tenant.id, target) for target in tried_targets)
        tried.fleet = replace(tried.fleet, moves={}, returned=returned)
        tried.look(second)
    assert set(tried_targets[:3]) == {"i1", "i2", "i3"}
    assert tried_targets[3:] == tried_targets[:3]


@pytest.mark.parametrize("step", ON_SOURCE)
@pytest.mark.parametrize("reason", ["HeartbeatLost", "ApiFailing"])
def test_evacuation_when_a_tenant_is_on_its_way_already_then_its_move_does_not_wait_for_the_instance_any_more(
    step: MoveStep, reason: str
) -> None:
    tried = on_its_way(step, reason=reason)
    (move,) = tried.look(160).moves_ordered
    assert (move.source, move.target, move.actor, move.step) == ("i0", "i2", MOVE.actor, step)
    assert (move.path, move.due_at) == ("forced", at(160))
    tried.look(not_none(tried.due()))
    assert [*tried.fleet.moves.values()] == [move], "the planner of the tenant has it from now on"


@pytest.mark.parametrize("step", ["adopting", "withdrawing", "cancelling"])
def test_evacuation_when_a_move_waits_for_nothing_that_the_instance_does_then_it_stays_as_it_is(step: MoveStep) -> None:
    tried = on_its_way(step)
    assert tried.look(160).moves_ordered == ()


def test_evacuation_when_a_tenant_is_on_its_way_to_the_instance_then_that_move_is_not_forced() -> None:
    tried = on_its_way("releasing", source="i1", target="i0")
    assert tried.look(160).moves_ordered == ()


@pytest.mark.parametrize("path", ["whole", "forced", "fenced"])
def test_evacuation_when_a_tenant_was_not_taken_over_by_the_instance_yet_then_another_move_takes_the_place_of_that_one(
    path: MovePath,
) -> None:
    tried = on_its_way("adopting", source="i1", target="i0", path=path)
    former, move = tried.look(160).moves_ordered
    assert (former.id, former.step, former.due_at) == (MOVE.id, "done", None)
    assert former.message == f"engine instance i0 is down, and its tenant goes on to {move.target}"
    assert (move.source, move.path, move.step, move.due_at) == ("i0", "forced", "reserved", at(160))
    assert move.tenant_id == former.tenant_id
    tried.look(not_none(tried.due()))
    assert [*tried.fleet.moves.values()] == [move], "the planner of the tenant has it from now on"


def test_evacuation_when_a_tenant_was_not_taken_over_yet_then_the_audit_has_how_both_moves_go_on() -> None:
    tried = on_its_way("adopting", source="i1", target="i0")
    records = [each for each in tried.look_once(160).audit_records if each.kind == "Move"]
    assert [each.message.split(":")[0] for each in records] == ["done", "reserved"]
    assert {each.created_at for each in records} == {at(160)}


def test_evacuation_when_a_tenant_was_not_taken_over_yet_then_it_goes_back_unless_its_source_has_it_still() -> None:
    for path, targets in (("whole", {"i1"}), ("fenced", set[str]())):
        tried = on_its_way("adopting", source="i1", target="i0", path=path)
        others = {name: replace(row, state="draining") for name, row in tried.fleet.instances.items() if name > "i1"}
        tried.fleet = replace(tried.fleet, instances={**tried.fleet.instances, **others})
        assert {move.target for move in tried.look(160).moves_ordered if move.id != MOVE.id} == targets
        tried.look(not_none(tried.due()))
    assert tried.rows["i0"].state == "exhausted"
    assert tried.rows["i0"].message.endswith("engine instance i1 has not given up what it had of the tenant")


def test_evacuation_when_moves_wait_for_their_turn_then_they_take_no_place_of_the_instance_until_it_is_well() -> None:
    """As when it dies while it is drained: a few hundred would leave it a few at a time."""
    tried = on_its_way("ordered")
    (forced,) = tried.look(160).moves_ordered
    assert (forced.id, forced.actor, forced.target) == (MOVE.id, MOVE.actor, "i2")
    assert (forced.step, forced.path, forced.due_at) == ("ordered", "forced", None)
    begun = begin_moves(tried.fleet.with_moves(waiting_for(forced)), at(160), at_once=1)
    assert {move.target for move in begun.moves.values() if move.step == "reserved"} == {"i1", "i2", "i3"}
    tried.tell("Degraded", "ReconciliationLate")
    (again,) = tried.look(170).moves_ordered
    assert (again.step, again.path, again.is_cancelled) == ("ordered", "whole", False)


def waiting_for(move: Move) -> list[Move]:
    """Moves of others like it, one to each of two other instances."""
    return [
        replace(move, id=UUID(int=number), tenant_id=UUID(int=number), target=target)
        for number, target in ((101, "i1"), (102, "i3"))
    ]


def test_evacuation_when_a_move_waits_for_its_turn_and_for_a_target_that_is_down_then_its_tenant_goes_elsewhere() -> (
    None
):
    tried = on_its_way("ordered")
    more = {each.id: each for each in instances(8)}  # too few would be left otherwise, and nothing is done
    tried.fleet = replace(tried.fleet, instances={**more, **tried.fleet.instances})
    tried.tell("Down", "ApiFailing", "i2")
    former, move = tried.look(160).moves_ordered
    assert (former.id, former.step, former.is_cancelled) == (MOVE.id, "cancelled", True)
    assert former.message == f"engine instance i2 is down, and its tenant goes on to {move.target}"
    assert (move.target != "i2", move.actor, move.step, move.path) == (True, "remediation", "ordered", "forced")


def test_evacuation_when_all_wait_for_a_target_that_is_down_and_nobody_else_takes_them_then_that_is_told() -> None:
    tried = on_its_way("ordered")
    others = {each.id: replace(each, state="draining") for each in instances(8) if each.id not in {"i0", "i2"}}
    tried.fleet = replace(tried.fleet, instances={**tried.fleet.instances, **others})
    tried.tell("Down", "ApiFailing", "i2")
    assert {move.step for move in tried.look(160).moves_ordered} == {"ordered"}
    tried.look(not_none(tried.due()))
    assert tried.rows["i0"].state == "exhausted"
    assert "tenants that cannot leave: 1" in tried.rows["i0"].message


def test_moves_when_too_many_are_ill_at_once_then_none_is_forced() -> None:
    tried = on_its_way("releasing")
    tried.look(160)
    tried.fleet = tried.fleet.with_move(replace(MOVE, tenant_id=UUID(int=99), source="i0", step="releasing"))
    for instance in ("i1", "i2"):
        tried.tell("Down", "ApiFailing", instance)
    tried.look(not_none(tried.due()))
    assert tried.rows["i0"].state == "held"
    assert tried.fleet.moves[UUID(int=99)].path == "whole"


def on_its_way(
    step: MoveStep, source: str = "i0", target: str = "i2", reason: str = "ApiFailing", path: MovePath = "whole"
) -> Ladder:
    """The evacuation of ``i0`` is to begin, whose only tenant an operator has ordered to go elsewhere, or to come."""
    tried = at_evacuation({"i0": 1}, *instances(4)[1:], reason=reason)
    (tenant,) = tried.fleet.tenants.values()
    known = replace(MOVE, tenant_id=tenant.id, source=source, target=target, step=step, path=path)
    tried.fleet = tried.fleet.with_move(known)
    return tried


def evacuated_before(tried: Ladder, *instances: str, number: int = 1) -> list[UUID]:
    """So many tenants of ``i0`` were evacuated from these of late; their ids."""
    names = [*tried.fleet.tenants][:number]
    tried.fleet = replace(tried.fleet, evacuations=dict.fromkeys(names, frozenset(instances)))
    return [tried.fleet.tenants[name].id for name in names]


@pytest.mark.parametrize("reason", [*TENANT_INDUCED, "ApiFailing"])
def test_evacuation_when_tenants_have_left_two_that_were_ill_then_they_stay_on_the_third_and_the_others_leave(
    reason: str,
) -> None:
    """One of them may be what makes one instance ill after the other, whatever is told of this one by now."""
    tried = at_evacuation({"i0": 4}, *instances(4)[1:], reason=reason)
    suspects = evacuated_before(tried, "i8", "i9", number=2)
    moves = tried.look(160).moves_ordered
    assert {move.tenant_id for move in moves} == {each.id for each in tried.fleet.tenants.values()} - {*suspects}
    assert {(move.path, move.evacuated_for) for move in moves} == {("forced", reason)}


@pytest.mark.parametrize("before", [("i9",), ("i0", "i9")], ids=["another", "another, and this one"])
def test_evacuation_when_a_tenant_has_left_one_other_that_was_ill_then_it_leaves_the_next_like_all(
    before: tuple[str, ...],
) -> None:
    tried = at_evacuation({"i0": 2}, *instances(4)[1:], reason="HeartbeatLost")
    evacuated_before(tried, *before, number=2)
    assert len(tried.look(160).moves_ordered) == 2


def test_evacuation_when_only_those_are_left_that_may_be_the_cause_then_a_person_is_told_so() -> None:
    tried = at_evacuation({"i0": 2}, *instances(4)[1:], reason="HeartbeatLost")
    evacuated_before(tried, "i8", "i9", number=2)
    tried.rungs()
    assert (tried.rows["i0"].state, tried.fleet.moves) == ("exhausted", {})
    assert tried.rows["i0"].message == (
        "tenants that cannot leave: 2; it was evacuated from i8 and i9 within a day, which were ill of what a tenant "
        "can cause, and stays here"
    )


def test_evacuation_when_a_part_of_a_tenant_may_be_the_cause_then_it_stays_by_the_name_of_its_tenant() -> None:
    tried = at_evacuation({"i0": 1}, *instances(4)[1:], reason="HeartbeatLost")
    ((name, tenant),) = tried.fleet.tenants.items()
    evacuated_before(tried, "i8", "i9")
    tried.fleet = with_tenants(tried.fleet, {(name[0], f"{name[1]}{PART}i0"): tenant})
    assert tried.look(160).moves_ordered == ()


def test_evacuation_when_who_may_be_the_cause_is_not_taken_over_yet_then_its_move_stays_as_it_is() -> None:
    tried = on_its_way("adopting", source="i9", target="i0", reason="HeartbeatLost", path="forced")
    evacuated_before(tried, "i8", "i9")
    assert tried.look(160).moves_ordered == ()


def test_move_when_its_source_is_evacuated_then_it_tells_what_was_wrong_until_that_works_again() -> None:
    tried = on_its_way("ordered", reason="HeartbeatLost")
    (forced,) = tried.look(160).moves_ordered
    assert forced.evacuated_for == "HeartbeatLost"
    tried.tell("Degraded", "ReconciliationLate")
    (again,) = tried.look(170).moves_ordered
    assert not again.evacuated_for


def test_evacuation_when_it_goes_on_then_what_else_may_help_is_tried_and_it_is_the_same_evacuation() -> None:
    tried = at_evacuation({"i0": 2}, reason="HeartbeatLost")
    tried.look(160)
    assert (tried.rows["i0"].rung, tried.fleet.moves) == ("Evacuate", {}), "there is nowhere to go yet"
    tried.look(180)
    assert tried.rows["i0"].rung == "RestartRepoServer"
    tried.fleet = replace(tried.fleet, instances={**tried.fleet.instances, "i1": instances(2)[1]})
    tried.look(250)
    assert (tried.rows["i0"].rung, len(tried.fleet.moves)) == ("FlushCache", 2)
    while tried.rows["i0"].rung != "Evacuate":
        tried.look(not_none(tried.due()))
    assert (tried.rows["i0"].state, tried.orders) == ("acting", {})
    assert tried.audit == [
        f"{rung} (HeartbeatLost)"
        for rung in (
            "Cordon",
            "RestartController",
            "Evacuate",
            "RestartRepoServer",
            "FlushCache",
            "ReapplyConfiguration",
        )
    ]


# How long tenants of an instance that is down wait

DEFAULT = RemedyPolicy()
LONGEST = {"NotAccepted": 300, "Closed": 300}
"""Seconds until the evacuation of an instance that a provisioner makes anew first; of all others, in three minutes."""


def evacuation_begins(tried: Ladder, *, answer: Applied | Failed | None = None) -> int:
    """The second; looked at when that is due."""
    tried.look_once(tried.now)
    while "Evacuate" not in (row := tried.rows["i0"]).remedies:
        tried.look_once(tried.now if row.is_skipped else max(tried.now, not_none(tried.due())))
        if answer is not None and tried.orders:
            tried.answer(answer)
    return tried.now


@pytest.mark.parametrize("is_provisioned", [True, False], ids=["provisioned", "installed by hand"])
@pytest.mark.parametrize(
    "reason", sorted(reason for health, reason in RUNGS if health in {"Down", "Unknown"} and reason)
)
def test_instance_when_it_is_down_then_its_evacuation_begins_in_three_minutes_or_in_five_if_it_is_made_anew_first(
    reason: str, is_provisioned: bool
) -> None:
    tried = provisioned({}, *instances(4)[1:]) if is_provisioned else ladder()
    tried.policy = DEFAULT
    tried.tell("Down", reason)
    assert evacuation_begins(tried) == (LONGEST.get(reason, 180) if is_provisioned else 180)


@pytest.mark.parametrize("second", range(0, 1500, 20))
def test_instance_when_it_was_degraded_before_then_its_evacuation_begins_within_five_minutes_whatever_was_being_tried(
    second: int,
) -> None:
    tried = provisioned({}, *instances(4)[1:])
    tried.policy = DEFAULT
    tried.tell("Degraded", "HeartbeatLate")
    tried.pass_time(second)
    tried.tell("Down", "HeartbeatLost")
    tried.now = max(second, not_none(tried.due()))
    assert evacuation_begins(tried) - second <= max(LONGEST.values())


def test_remedy_when_its_agent_cannot_carry_it_out_and_the_instance_is_down_then_its_tenants_leave_at_once() -> None:
    tried = ladder(policy=DEFAULT)
    tried.tell("Down", "ControllerNotReady")
    assert evacuation_begins(tried, answer=Failed("", permanent=True, message="no pod of it is to be seen")) == 60


# What a provisioner does


def provisioned(on: Mapping[str, int], *others: EngineInstanceRow) -> Ladder:
    """A fleet whose first instance was installed by a provisioner."""
    first = replace(instances(1)[0], wanted_version="3.2.11", profile="large", capacity=50)
    return Ladder(fleet_with_tenants(on, first, *others))


def test_configuration_when_the_instance_was_installed_by_hand_then_that_is_told_and_the_next_rung_comes_at_once() -> (
    None
):
    tried = ladder()
    tried.tell("Degraded", "OtherVersion")
    assert tried.look_once(60).engine_instances == ()
    assert tried.rows["i0"].message == "by hand alone, as it was installed: OtherVersion"
    assert tried.due() == 60
    tried.look_once(61)
    assert (tried.rows["i0"].rung, tried.orders) == ("Cordon", {})
    assert tried.audit == ["ReapplyConfiguration (OtherVersion)", "Cordon (OtherVersion)"]


def test_configuration_when_a_provisioner_has_installed_the_instance_then_it_is_ordered_once_and_has_its_time() -> None:
    tried = provisioned({}, *instances(4)[1:])
    tried.tell("Degraded", "OtherVersion")
    (row,) = tried.look(60).engine_instances
    assert (row.id, row.reapply_ordered_at) == ("i0", at(60))
    assert (tried.look(259).engine_instances, tried.rows["i0"].rung) == ((), "ReapplyConfiguration")
    assert tried.look(260).engine_instances == ()
    assert (tried.rows["i0"].rung, tried.orders) == ("Cordon", {})


def evacuated(tried: Ladder) -> Changes:
    """Ill until its evacuation begins."""
    tried.tell("Down", "NotAccepted")
    tried.look(60)
    return tried.look(360)


REPLACEMENT = f"{CLUSTER.id}-general-1"


def with_replacement(tried: Ladder, state: InstanceState = "accepting") -> None:
    """What was ordered in its place is so by now."""
    tried.fleet = tried.fleet.with_instance(replace(tried.fleet.instances[REPLACEMENT], state=state))


def without_tenants(tried: Ladder, second: int) -> Changes:
    """All of them are elsewhere by now."""
    moved = {name: replace(each, engine_instance_id="i1") for name, each in tried.fleet.tenants.items()}
    tried.fleet = replace(with_tenants(tried.fleet, moved), holdings={}, moves={})
    return tried.look(second)


def test_evacuation_when_a_provisioner_has_installed_the_instance_then_another_is_ordered_with_it() -> None:
    tried = provisioned({"i0": 2}, *instances(4)[1:])
    changes = evacuated(tried)
    assert tried.rows["i0"].rung == "Evacuate"
    (added,) = changes.engine_instances
    assert (added.id, added.state, added.wanted_version, added.profile, added.capacity) == (
        f"{CLUSTER.id}-general-1", "provisioning", "3.2.11", "large", 50,
    )  # fmt: skip
    tried.look(400)
    assert tried.given == [f"AddEngineInstance {added.id}"]


def test_evacuation_when_no_other_instance_may_be_added_then_the_rule_is_told_and_how_to_add_one() -> None:
    tried = provisioned({"i0": 2}, *instances(4)[1:])
    tried.fleet = replace(tried.fleet, knows_version=knows_version)
    tried.fleet = tried.fleet.with_instance(replace(tried.fleet.instances["i0"], wanted_version="3.0.0"))
    changes = evacuated(tried)
    assert (changes.engine_instances, tried.given, tried.rows["i0"].rung) == ((), [], "Evacuate")
    message = (
        "NotAccepted; no other is added, 'gitopsctl engines add' one: '3.0.0' is no version of argocd that agents of "
        "this build work with, such as 3.2.11"
    )
    assert tried.rows["i0"].message == message
    audited = [each.message for each in changes.audit_records if each.kind == "Remediation"]
    assert audited == [f"Evacuate (NotAccepted): {message}"]


def test_evacuation_when_the_instance_is_of_a_pool_then_the_pool_adds_another() -> None:
    tried = provisioned({"i0": 2}, *instances(4)[1:])
    tried.fleet = tried.fleet.with_pool(replace(POOL, engine_cluster=CLUSTER.id, ring="general"))
    assert evacuated(tried).engine_instances == ()
    assert tried.fleet.is_given_up("i0")


def test_replacement_when_nobody_is_left_then_the_instance_is_retired_and_it_is_over() -> None:
    tried = provisioned({"i0": 2}, *instances(4)[1:])
    evacuated(tried)
    with_replacement(tried)
    (retired,) = without_tenants(tried, 400).engine_instances
    assert (retired.id, retired.state, tried.rows["i0"].rung) == ("i0", "retired", "Replace")
    assert tried.rows["i0"].message == "it is retired, and another takes its place: NotAccepted"
    tried.look(420)
    assert (tried.rows["i0"].state, tried.given[-1]) == ("well", "RetireEngineInstance i0")


def test_replacement_when_the_other_instance_is_not_ready_then_the_old_one_stays_until_that_takes_tenants() -> None:
    tried = provisioned({"i0": 2}, *instances(4)[1:])
    evacuated(tried)
    assert without_tenants(tried, 400).engine_instances == ()
    assert (tried.rows["i0"].rung, tried.rows["i0"].message) == (
        "Replace",
        f"it is retired as soon as {REPLACEMENT} takes tenants: engine instance {REPLACEMENT} is provisioning: "
        f"'gitopsctl engines show {REPLACEMENT}' shows how far that is",
    )
    with_replacement(tried, "failed")
    tried.look(420)
    assert f"as none can take its place: engine instance {REPLACEMENT} was added for that" in tried.rows["i0"].message
    with_replacement(tried, "full")
    (retired,) = tried.look(440).engine_instances
    assert (retired.id, retired.state) == ("i0", "retired")


@pytest.mark.parametrize("state", ["provisioning", "failed"])
def test_replacement_when_what_its_pool_has_added_is_not_ready_then_the_old_one_stays_until_that_takes_tenants(
    state: InstanceState,
) -> None:
    tried = provisioned({"i0": 2}, *instances(4)[1:])
    added = replace(instances(1)[0], id=REPLACEMENT, namespace="added", wanted_version="3.2.11", state=state)
    by_hand = replace(added, id="by-hand", namespace="by-hand", wanted_version=None)
    elsewhere = replace(added, id="elsewhere", namespace="elsewhere", ring="canary")
    tried.fleet = tried.fleet.with_pool(replace(POOL, engine_cluster=CLUSTER.id, ring="general"))
    evacuated(tried)
    for row in (by_hand, elsewhere, added):
        tried.fleet = tried.fleet.with_instance(row)
    assert without_tenants(tried, 400).engine_instances == ()
    assert tried.rows["i0"].message.startswith(f"it is retired as soon as {REPLACEMENT} takes tenants: ")
    with_replacement(tried)
    (retired,) = tried.look(420).engine_instances
    assert (retired.id, retired.state, tried.given) == ("i0", "retired", ["RetireEngineInstance i0"])


def test_replacement_when_something_is_left_of_tenants_then_it_is_retired_once_that_is_gone() -> None:
    tried = provisioned({"i0": 2}, *instances(4)[1:])
    evacuated(tried)
    with_replacement(tried)
    moved = {name: replace(each, engine_instance_id="i1") for name, each in tried.fleet.tenants.items()}
    tried.fleet = replace(with_tenants(tried.fleet, moved), holdings={"i0": Holding(objects=True)}, moves={})
    assert tried.look(400).engine_instances == ()
    assert tried.rows["i0"].message == (
        "it is not retired yet: engine instance i0 still has objects of tenants that have left it: "
        "its agent removes them"
    )
    (retired,) = without_tenants(tried, 420).engine_instances
    assert (retired.id, retired.state) == ("i0", "retired")


def test_replacement_when_the_instance_may_take_a_while_to_recover_then_it_is_retired_after_that() -> None:
    tried = provisioned({"i0": 2}, *instances(4)[1:])
    tried.policy = replace(POLICY, replace_after=timedelta(seconds=600))
    evacuated(tried)
    with_replacement(tried)
    assert without_tenants(tried, 400).engine_instances == ()
    assert (tried.rows["i0"].state, tried.due()) == ("waiting", 420), "it may recover at any time"
    assert tried.rows["i0"].message == (
        "nobody is left on it, and another takes its place unless it recovers: NotAccepted"
    )
    assert tried.look(999).engine_instances == ()
    assert tried.due() == 1000
    (retired,) = tried.look(1000).engine_instances
    assert (retired.id, retired.state, tried.rows["i0"].rung) == ("i0", "retired", "Replace")


def test_replacement_when_the_instance_recovers_before_then_it_stays() -> None:
    tried = provisioned({"i0": 2}, *instances(4)[1:])
    tried.policy = replace(POLICY, replace_after=timedelta(seconds=600))
    evacuated(tried)
    without_tenants(tried, 400)
    tried.tell("Healthy", since=410)
    while (due := tried.due()) is not None:
        assert tried.look(due).engine_instances == ()
    assert tried.now == 710, "after it has been healthy for a while"
    assert (tried.rows["i0"].state, tried.rows["i0"].is_cordoned) == ("well", False)


@pytest.mark.parametrize("reason", ["ApiFailing", SILENT])
def test_replacement_when_nobody_can_do_anything_in_the_cluster_then_none_is_ordered_there(reason: str) -> None:
    tried = provisioned({"i0": 2}, *instances(4)[1:])
    tried.tell("Down", reason)
    for second in (60, 160):
        assert tried.look(second).engine_instances == ()
    assert without_tenants(tried, 200).engine_instances == ()
    assert tried.rows["i0"].message == f"it has to be replaced by hand, nobody is left on it: {reason}"


def test_replacement_when_none_could_be_ordered_before_then_it_is_with_the_end_of_the_instance() -> None:
    """Nobody reached its cluster when its tenants left."""
    tried = provisioned({"i0": 2}, *instances(4)[1:])
    tried.tell("Down", "ApiFailing")
    tried.look(60)
    tried.look(160)
    assert (tried.rows["i0"].rung, tried.given) == ("Evacuate", [])
    tried.tell("Down", "NotAccepted", since=0)
    without_tenants(tried, 2000)
    tried.rungs()
    assert tried.rows["i0"].message.startswith(f"it is retired as soon as {REPLACEMENT} takes tenants: ")
    assert tried.given == [f"AddEngineInstance {REPLACEMENT}"]
    with_replacement(tried)
    tried.look(not_none(tried.due()))
    assert [each.split()[0] for each in tried.given] == ["AddEngineInstance", "RetireEngineInstance"]


def test_replacement_when_another_rung_comes_after_it_then_the_instance_is_retired_all_the_same() -> None:
    """Nobody reached its cluster until nobody was left on it."""
    tried = provisioned({"i0": 2}, *instances(4)[1:])
    tried.tell("Down", "ApiFailing")
    for second in (60, 160):
        tried.look(second)
    without_tenants(tried, 200)
    assert tried.rows["i0"].rung == "Replace"
    tried.tell("Down", "ControllerNotReady", since=0)
    tried.look(220)
    assert tried.rows["i0"].rung == "RestartController"
    tried.rungs()
    with_replacement(tried)
    tried.look(not_none(tried.due()))
    assert [each.split()[0] for each in tried.given] == ["AddEngineInstance", "RetireEngineInstance"]


def out_of_reach(tried: Ladder, reason: str = "ApiFailing") -> None:
    """Nobody can reach its cluster until nobody is left on it; all that is left is to tell so, before second 400."""
    tried.policy = replace(POLICY, replace_after=timedelta(seconds=600))
    tried.tell("Unknown" if reason == SILENT else "Down", reason)
    tried.pass_time(300)
    without_tenants(tried, 300)
    tried.pass_time(400)
    assert (tried.rows["i0"].rung, tried.rows["i0"].state) == ("Replace", "exhausted")


@pytest.mark.parametrize("reason", ["ApiFailing", "Closed", SILENT])
def test_replacement_when_its_cluster_can_be_reached_again_then_the_instance_has_all_of_the_time_to_recover(
    reason: str,
) -> None:
    tried = provisioned({"i0": 2}, *instances(4)[1:])
    out_of_reach(tried, reason)
    tried.tell("Down", "SomethingNew", since=2000)
    tried.look(2010)
    assert (tried.rows["i0"].state, tried.given) == ("waiting", [])
    assert tried.rows["i0"].message == (
        "nobody is left on it, and another takes its place unless it recovers: SomethingNew"
    )
    tried.pass_time(2600)
    assert (tried.rows["i0"].state, tried.given, tried.due()) == ("waiting", [], 2600)
    tried.look(2600)
    assert tried.given == [f"AddEngineInstance {REPLACEMENT}"]


def test_replacement_when_its_cluster_can_be_reached_again_and_it_recovers_then_it_stays() -> None:
    tried = provisioned({"i0": 2}, *instances(4)[1:])
    out_of_reach(tried)
    tried.tell("Down", "ControllerNotReady", since=2000)
    tried.look(2010)
    tried.tell("Healthy", since=2300)
    tried.pass_time(9000)
    assert (tried.rows["i0"].state, tried.given) == ("well", [])


def test_replacement_when_its_cluster_is_out_of_reach_again_meanwhile_then_the_time_begins_anew() -> None:
    """Whether a look has seen that, or not."""
    tried = provisioned({"i0": 2}, *instances(4)[1:])
    out_of_reach(tried)
    tried.tell("Down", "SomethingNew", since=2000)
    tried.look(2010)
    tried.tell("Down", "ApiFailing", since=2100)
    tried.look(2110)
    assert tried.rows["i0"].message == "it has to be replaced by hand, nobody is left on it: ApiFailing"
    for reached_at in (2200, 2700):
        tried.tell("Down", "SomethingNew", since=reached_at)
        tried.look(reached_at + 500)
        assert (tried.rows["i0"].state, tried.given) == ("waiting", [])
    tried.look(3299)
    assert tried.given == []
    tried.look(3300)
    assert tried.given == [f"AddEngineInstance {REPLACEMENT}"]


def test_replacement_when_it_is_waited_for_while_its_cluster_is_out_of_reach_then_the_time_begins_anew() -> None:
    tried = provisioned({"i0": 2}, *instances(4)[1:])
    tried.policy = replace(POLICY, replace_after=timedelta(seconds=600))
    evacuated(tried)
    with_replacement(tried)
    without_tenants(tried, 400)
    tried.tell("Down", "NotAccepted", since=900)  # no look has seen what it was before
    tried.pass_time(1500)
    assert (tried.rows["i0"].state, tried.fleet.instances["i0"].state) == ("waiting", "accepting")
    tried.look(1500)
    assert tried.fleet.instances["i0"].state == "retired"


def test_replacement_when_no_other_instance_may_be_added_then_the_instance_stays_and_the_rule_is_told() -> None:
    tried = provisioned({"i0": 2}, *instances(4)[1:])
    tried.fleet = replace(tried.fleet, knows_version=knows_version)
    tried.fleet = tried.fleet.with_instance(replace(tried.fleet.instances["i0"], wanted_version="3.0.0"))
    evacuated(tried)
    assert without_tenants(tried, 400).engine_instances == ()
    assert tried.rows["i0"].message.startswith("it is not retired, as none can take its place: '3.0.0' is no version")


@pytest.mark.parametrize("state", ["failed", "draining", "retired"])
def test_replacement_when_the_instance_is_down_again_and_again_then_there_is_one_as_long_as_that_is_to_be(
    state: InstanceState,
) -> None:
    tried = provisioned({"i0": 2}, *instances(4)[1:])
    replacement = f"{CLUSTER.id}-general-1"
    for night in range(3):
        tried.tell("Down", "NotAccepted", since=10_000 * night)
        for second in (60, 360):
            tried.look(10_000 * night + second)
        assert tried.rows["i0"].rung == "Evacuate"
        tried.tell("Healthy", since=10_000 * night + 400)
        tried.look(10_000 * night + 1000)
        assert tried.rows["i0"].state == "well"
    assert tried.given == [f"AddEngineInstance {replacement}"]
    tried.fleet = tried.fleet.with_instance(replace(tried.fleet.instances[replacement], state=state))
    tried.tell("Down", "NotAccepted", since=30_000)
    for second in (30_060, 30_360):
        tried.look(second)
    assert len(tried.given) == (1 if state == "failed" else 2)
    assert ("has failed: mend that" in tried.rows["i0"].message) == (state == "failed")


def test_evacuation_when_one_that_works_again_keeps_its_tenants_then_these_take_no_room_of_others() -> None:
    """Neither one that is degraded, nor one that recovers."""
    _, one, two, *others = instances(8)
    tried = at_evacuation({"i0": 4, "i1": 4}, one, *(replace(each, state="draining") for each in (two, *others)))
    tried.tell("Down", "ApiFailing", "i1", since=0)
    for second in (160, 260, 280):
        tried.look(second)
    assert tried.rows["i0"].state == tried.rows["i1"].state == "exhausted"
    tried.tell("Degraded", "ApiSlow", "i0", since=290)
    tried.fleet = tried.fleet.with_instance(replace(two, capacity=4))
    assert {(move.source, move.target) for move in tried.look(300).moves_ordered} == {("i1", "i2")}


@pytest.mark.parametrize("state", ["draining", "drained"])
@pytest.mark.parametrize("tenants", [0, 2])
def test_instance_when_it_is_given_up_already_then_its_tenants_leave_and_it_is_neither_replaced_nor_retired(
    state: InstanceState, tenants: int
) -> None:
    """Such as the new ones of a rollout that has failed: a copy would bring its version back."""
    tried = provisioned({"i0": tenants} if tenants else {}, *instances(4)[1:])
    tried.fleet = tried.fleet.with_instance(replace(tried.fleet.instances["i0"], state=state))
    evacuated(tried)
    assert len(tried.fleet.moves) == tenants
    without_tenants(tried, 400)
    assert (tried.rungs()[-1], tried.given, tried.fleet.instances["i0"].state) == ("Replace", [], state)
    assert tried.rows["i0"].message == (
        f"it is {state} and not replaced; 'gitopsctl engines retire i0' gives it up: NotAccepted"
    )


# Whatever happens

HEALTHS = (("Healthy", ""), ("Unknown", ""), *(each for each in RUNGS if each[1]))
RINGS = ("canary", "early", "general")


@st.composite
def stories(draw: st.DrawFn) -> tuple[list[str], list[tuple[int, int, tuple[str, str]]]]:
    """Rings of the instances; and after how many seconds what is told of which of them."""
    rings = draw(st.lists(st.sampled_from(RINGS), min_size=1, max_size=12))
    event = st.tuples(st.integers(0, 150), st.integers(0, len(rings) - 1), st.sampled_from(HEALTHS))
    return rings, draw(st.lists(event, max_size=40))


def looked_at(rings: list[str], events: list[tuple[int, int, tuple[str, str]]]) -> Iterator[tuple[Ladder, Changes]]:
    """With three tenants on each instance; moves that have begun are over at the next event."""
    rows = [replace(each, ring=ring) for each, ring in zip(instances(len(rings)), rings, strict=True)]
    tried = Ladder(fleet_with_tenants({each.id: 3 for each in rows}, *rows))
    for later, number, health in events:
        tried.end_moves()
        tried.now += later
        tried.tell(*health, instance=f"i{number}")
        yield tried, tried.look(tried.now)


@settings(max_examples=in_proportion(150), deadline=None)
@given(stories())
def test_remedies_when_anything_happens_then_one_of_a_ring_at_a_time_and_none_while_many_are_ill(
    story: tuple[list[str], list[tuple[int, int, tuple[str, str]]]],
) -> None:
    for tried, changes in looked_at(*story):
        acting = [name for name, row in tried.rows.items() if row.state == "acting"]
        treated = [name for name in acting if tried.rows[name].rung not in {"Cordon", "Evacuate"}]
        rings = Counter(tried.fleet.instances[name].ring for name in treated)
        assert max(rings.values(), default=0) <= 1
        ill = sum(each.is_ill for each in tried.fleet.health.values())
        begun = tried.begin_moves()
        if ill > max(1, 0.3 * len(tried.fleet.instances)):
            assert (changes.engine, changes.moves_ordered, acting, begun) == ((), (), [], [])
        for instance, count in Counter(key.engine_instance_id for key in tried.orders).items():
            assert count == 1
            assert tried.rows[instance].rung in ORDERED_OF_AGENTS
        numbers = [row.number for row in changes.remediations]
        assert all(number >= 0 for number in numbers)
