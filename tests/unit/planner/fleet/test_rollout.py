"""A version comes to the fleet ring by ring: each step, what ends it, and how a ring goes back."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.common.messages import (
    AbortRollout,
    AddEngineInstance,
    DrainEngineInstance,
    Health,
    MoveTenant,
    PauseRollout,
    RebalanceFleet,
    ResumeRollout,
    RetireEngineInstance,
    SetEnginePool,
)
from services.planner.domain.fleet.loaded_parts import TenantHere
from services.planner.domain.fleet.moves.move_orders import held_by_rollout, on_trial
from services.planner.domain.fleet.placement.assignments import PlacementRules, TenantPin
from services.planner.domain.fleet.placement.measured_load import load_of_deployments
from services.planner.domain.fleet.pools.pool_rows import EnginePool, Patience, namespace_of
from services.planner.domain.fleet.pools.pool_size import is_overloaded, lacking_instances
from services.planner.domain.fleet.rollouts.gates import DATA_PATIENCE
from services.planner.domain.fleet.rollouts.ring_health import REPORTED_OF_ALL_AFTER
from services.planner.domain.fleet.rollouts.ring_instances import ring_of
from services.planner.domain.fleet.rollouts.rollout_rows import (
    NO_FIGURES,
    STALLED_AFTER,
    Figures,
    Rollout,
    rings_affected,
)
from services.planner.domain.fleet.rollouts.stages import fewest_tenants, stage_tenants
from services.planner.domain.fleet.rows import EngineInstanceRow
from tests.unit.examples import in_proportion
from tests.unit.planner.fleet.rolled import (
    BAD,
    CELLS,
    EVERY,
    NEW,
    OF_ONE_TENANT,
    OLD,
    START,
    WELL,
    Rolled,
    instance,
    told,
)
from tests.unit.planner.fleet.test_fleet_orders import CLUSTER
from tests.unit.planner.given import at

ONE_RING = {"general": (1, 1)}
SOURCE, TARGET = "general-old-0", "general-new-0"


def begun(tenants: int = 20) -> Rolled:
    rolled = Rolled.of(ONE_RING, tenants)
    rolled.live(START)
    return rolled


def course(rolled: Rolled) -> list[tuple[str, int]]:
    """Step and stage of the rollout, at each change, until it is over."""
    seen: list[tuple[str, int]] = []
    for _ in range(2000):
        rollout = rolled.rollout
        assert rollout is not None
        if not seen or seen[-1] != (rollout.step, rollout.stage):
            seen.append((rollout.step, rollout.stage))
        if rollout.is_over:
            return seen
        rolled.live()
    raise AssertionError(rolled.rollout)


def test_ring_when_all_is_well_then_more_and_more_tenants_move_and_the_old_instance_is_given_up() -> None:
    rolled = begun(200)
    assert course(rolled) == [
        ("provisioning", 0), ("moving", 1), ("soaking", 1), ("moving", 10), ("soaking", 10), ("moving", 100),
        ("soaking", 100), ("draining", 100), ("retiring", 100), ("done", 100),
    ]  # fmt: skip
    assert rolled.places() == {TARGET: 200}
    assert rolled.states() == {TARGET: "accepting", SOURCE: "retired"}
    assert max(Counter(move.tenant_id for move in rolled.ended).values()) == 1


def test_stage_when_reached_then_so_many_tenants_are_on_new_instances_and_no_more() -> None:
    rolled = begun(200)
    for stage, expected in ((1, 2), (10, 20), (100, 200)):
        rolled.until("soaking", stage)
        assert rolled.places()[TARGET] == expected


def test_stage_when_tenants_were_on_new_instances_before_then_it_is_a_part_of_those_on_old_ones() -> None:
    rolled = Rolled.of(ONE_RING, 200)
    for number, (name, each) in enumerate(rolled.tenants.items()):
        if number < 100:
            rolled.tenants[name] = replace(each, engine_instance_id=TARGET)
    rolled.live(START)
    for stage, expected in ((1, 102), (10, 110), (100, 200)):
        rolled.until("soaking", stage)
        assert rolled.places()[TARGET] == expected


def test_stage_when_tenants_of_before_have_left_and_all_others_have_moved_then_it_is_reached() -> None:
    rolled = Rolled.of(ONE_RING, 20)
    rolled.tenants = {
        name: replace(each, engine_instance_id=TARGET) if number < 10 else each
        for number, (name, each) in enumerate(rolled.tenants.items())
    }
    rolled.live(START)
    rolled.until("soaking", 1)
    rolled.tenants = {name: each for number, (name, each) in enumerate(rolled.tenants.items()) if number >= 10}
    assert rolled.until_over().step == "done"
    assert rolled.places() == {TARGET: 10}


def test_parts_when_a_tenant_is_split_then_they_move_one_at_a_time_and_stay_apart() -> None:
    rolled = Rolled.of({"general": (2, 3)}, tenants=3)
    name = next(known for known, each in rolled.tenants.items() if each.engine_instance_id == "general-old-0")
    whole = replace(rolled.tenants[name], is_split=True)
    part = (name[0], f"{name[1]}@general-old-1")
    rolled.tenants |= {name: whole, part: replace(whole, engine_instance_id="general-old-1")}
    rolled.look(START)
    assert rolled.until_over().step == "done"
    moved = [(each.source, each.target) for each in rolled.ended if each.tenant_id == whole.id]
    assert sorted(source for source, _ in moved) == ["general-old-0", "general-old-1"]
    assert len({target for _, target in moved}) == 2


def test_gate_when_both_parts_of_a_tenant_fail_then_they_are_of_one_tenant() -> None:
    rolled = Rolled.of({"general": (2, 2)}, tenants=1)
    (name, whole), (_, other) = rolled.tenants.items()
    part = (name[0], f"{name[1]}@{other.engine_instance_id}")
    rolled.tenants = {name: replace(whole, is_split=True), part: replace(other, id=whole.id, is_split=True)}
    failing = replace(WELL, applications=10, tenants=5, failing_tenants=5)
    rolled.figures = lambda name: failing if "new" in name else WELL
    rolled.look(START)
    assert rolled.until_over().step == "done"


def test_stages_when_a_ring_is_small_then_none_is_soaked_twice_for_the_same_tenants() -> None:
    assert course(begun(3)) == [
        ("provisioning", 0), ("moving", 1), ("soaking", 1), ("moving", 100), ("soaking", 100), ("draining", 100),
        ("retiring", 100), ("done", 100),
    ]  # fmt: skip


def test_ring_when_nobody_is_in_it_then_its_old_instances_are_given_up_at_once() -> None:
    assert course(begun(0)) == [("provisioning", 0), ("draining", 100), ("retiring", 100), ("done", 100)]


@pytest.mark.parametrize("stage", [1, 10])
def test_stage_when_its_tenants_have_left_the_new_instance_then_it_is_filled_and_soaks_anew(stage: int) -> None:
    """Nobody is there of whom a gate could be told anything."""
    rolled = begun(200)
    rolled.until("soaking", stage)
    before = rolled.places()
    rolled.hear(TARGET, Health.DOWN, "Closed")
    for _ in range(30):
        live_evacuated(rolled, 1)
    assert rolled.places() == {SOURCE: 200}
    rolled.hear(TARGET, Health.HEALTHY, "")
    moving = rolled.until("moving")
    assert (moving.stage, moving.moved) == (stage, 0)
    soaking = rolled.until("soaking")
    assert (soaking.stage, rolled.places()) == (stage, before)
    following = rolled.until("moving")
    assert (following.stage, following.step_since - soaking.step_since) == ({1: 10, 10: 100}[stage], soaking.soak)


def test_last_stage_when_some_of_its_tenants_have_left_the_new_instances_then_none_goes_on_without_a_gate() -> None:
    rolled = Rolled.of({"general": (2, 2)}, 50)
    rolled.live(START)
    rolled.until("soaking", 100)
    rolled.hear(TARGET, Health.UNKNOWN, "AgentSilent")
    live_evacuated(rolled, 12)
    assert rolled.places()[SOURCE] > 0
    rolled.hear(TARGET, Health.HEALTHY, "")
    rolled.until("moving", 100)
    rolled.until("soaking", 100)
    assert rolled.places().keys() == {TARGET, "general-new-1"}
    rolled.figures = lambda _: BAD
    assert rolled.until_over().step == "failed"


def test_stage_when_tenants_are_deleted_and_others_come_then_it_does_not_soak_anew() -> None:
    """At each look one is deleted on the new instance, and two come to the old one."""
    rolled = begun(200)
    rolled.until("soaking", 10)
    example = next(iter(rolled.tenants.values()))
    for number in range(4):
        gone = next(name for name, each in rolled.tenants.items() if each.engine_instance_id == TARGET)
        del rolled.tenants[gone]
        for each in (2 * number, 2 * number + 1):
            rolled.tenants["local", f"late-{each}"] = replace(
                example, id=UUID(int=900 + each), engine_instance_id=SOURCE
            )
        rolled.live()
    rolled.until("moving")
    assert (rolled.rollout is not None and rolled.rollout.stage, rolled.places()[TARGET]) == (100, 16)


def test_stage_when_who_has_left_the_new_instance_cannot_come_back_then_the_rollout_pauses() -> None:
    rolled = begun(20)
    rolled.until("soaking", 100)
    rolled.hear(TARGET, Health.DOWN, "Closed")
    while rolled.places()[TARGET]:
        live_evacuated(rolled, 1)
    rolled.pin(("local", "team-7"))
    rolled.hear(TARGET, Health.HEALTHY, "")
    for _ in range(int(STALLED_AFTER / EVERY) + 40):
        rolled.live()
    assert rolled.rollout is not None
    assert (rolled.rollout.step, rolled.rollout.is_paused) == ("moving", True)
    assert "local/team-7: tenant local/team-7 is pinned" in rolled.rollout.reason


def test_stage_when_its_tenants_come_and_go_then_it_is_filled_three_times_and_then_operators_decide() -> None:
    """Namespaces that live shorter than a soak: nobody is looked at for all of it, however often it is begun."""
    rolled = begun(40)
    example, numbers = next(iter(rolled.tenants.values())), itertools.count(900)

    def replaced() -> Rollout:
        soaking = rolled.until("soaking", 1)
        for gone in [name for name, each in rolled.tenants.items() if each.engine_instance_id == TARGET]:
            del rolled.tenants[gone]
            rolled.tenants["local", f"late-{next(numbers)}"] = replace(
                example, id=UUID(int=next(numbers)), engine_instance_id=SOURCE
            )
        while rolled.rollout is not None and rolled.rollout.step == "soaking":
            rolled.live()
        assert rolled.rollout is not None
        assert rolled.now - soaking.step_since >= soaking.soak
        return rolled.rollout

    assert [(each.step, each.stage, each.is_paused) for each in (replaced(), replaced(), replaced())] == [
        ("moving", 1, False), ("moving", 1, False), ("moving", 1, True),
    ]  # fmt: skip
    assert rolled.rollout is not None
    assert "3 times too few of the stage's tenants were left on new instances" in rolled.rollout.reason
    rolled.live(ResumeRollout())
    assert (replaced().stage, rolled.rollout.refilled) == (10, 0)


def test_last_stage_when_tenants_come_to_an_old_instance_then_they_move_at_step_four() -> None:
    """It takes them: it runs the new version by now, and is one of the old ones whatever it runs later."""
    rolled = Rolled.of({"general": (2, 2)}, 50)
    rolled.live(START)
    rolled.until("soaking", 100)
    rolled.health[SOURCE] = replace(rolled.health[SOURCE], version=NEW)
    example = next(iter(rolled.tenants.values()))
    rolled.tenants["local", "late"] = replace(example, id=UUID(int=900), engine_instance_id=SOURCE)
    assert [step for step, _ in course(rolled)] == ["soaking", "draining", "retiring", "done"]


@pytest.mark.parametrize("others", [(), ("general-new-1",)], ids=["alone", "beside another"])
def test_new_instance_when_it_or_another_is_ill_by_turns_then_the_ring_goes_back_all_the_same(
    others: tuple[str, ...],
) -> None:
    rolled = Rolled.of({"general": (2, 2)}, 50)
    rolled.live(START)
    soaking = rolled.until("soaking", 10)
    by_turns = others or (TARGET,)
    if others:
        rolled.hear(TARGET, Health.DEGRADED, "ReconciliationLate", since=rolled.now)
    rolled.cordoned |= dict.fromkeys(by_turns, "it was ill")
    for minute in range(60):
        if minute % 10 == 0:
            is_ill = minute % 20 == 0
            health, reason = (Health.DEGRADED, "ReconciliationLate") if is_ill else (Health.HEALTHY, "")
            for each in by_turns:
                rolled.hear(each, health, reason, since=rolled.now)
        rolled.live()
        assert rolled.rollout is not None
        if rolled.rollout.step != "soaking":
            break
    assert rolled.rollout.step == "reverting"
    assert f"engine instance {TARGET} is Degraded" in rolled.rollout.reason
    assert rolled.rollout.step_since - soaking.step_since < soaking.soak + DATA_PATIENCE + timedelta(minutes=11)


@pytest.mark.parametrize("stage", [1, 100])
def test_old_instance_when_it_joins_a_cell_without_a_new_one_then_it_stays_until_there_is_one(stage: int) -> None:
    """Its workspace would have none to itself any more."""
    rolled = begun(40)
    rolled.until("soaking", stage)
    rolled.join(instance("acme-old", **CELLS["acme"]), OLD)
    rolled.until("retiring", 100)
    for _ in range(10):
        rolled.live()
    assert rolled.rollout is not None
    assert "needs dedicated instances of 3.2.11 in cluster north for workspace acme" in rolled.rollout.reason
    assert rolled.states()["acme-old"] == "accepting"
    rolled.join(instance("acme-new", **CELLS["acme"]), NEW)
    assert rolled.until_over().step == "done"
    assert rolled.states()["acme-old"] == "retired"


def test_tenants_when_drawn_then_the_same_ones_each_time_and_those_with_applications_first() -> None:
    def first(rolled: Rolled) -> set[tuple[str, str]]:
        rolled.until("soaking", 10)
        return {name for name, each in rolled.tenants.items() if each.engine_instance_id == TARGET}

    assert first(begun(50)) == first(begun(50))
    bare = Rolled.of(ONE_RING, 50)
    bare.tenants = {
        name: replace(each, deployments=2 if number < 3 else 0)
        for number, (name, each) in enumerate(bare.tenants.items())
    }
    bare.live(START)
    bare.until("soaking", 1)
    moved = [each for each in bare.tenants.values() if each.engine_instance_id == TARGET]
    assert [each.deployments for each in moved] == [2, 2]


def test_stage_when_moves_of_those_who_were_drawn_come_back_then_others_go_in_their_place() -> None:
    usual = begun(200)
    usual.until("soaking", 1)
    rolled = begun(200)
    rolled.stubborn = {each.id for each in usual.tenants.values() if each.engine_instance_id == TARGET}
    assert len(rolled.stubborn) == 2
    assert rolled.until("soaking", 10).is_over is False
    there = {each.id for each in rolled.tenants.values() if each.engine_instance_id == TARGET}
    assert (len(there), there & rolled.stubborn) == (20, set())


@pytest.mark.parametrize("drawn", range(20))
def test_tenants_when_they_are_large_then_no_new_instance_has_more_of_them_than_it_must(drawn: int) -> None:
    """Each is 800 of 2,500: three on one would fill it, and nobody is relieved of who has just come."""
    rolled = Rolled.of({"general": (1, 2)}, 4)
    rolled.tenants = {
        name: replace(each, id=UUID(int=1000 * drawn + number), deployments=800)
        for number, (name, each) in enumerate(rolled.tenants.items())
    }
    rolled.instances = {name: replace(each, capacity=2_500) for name, each in rolled.instances.items()}
    rolled.live(START)
    rolled.until_over()
    assert rolled.places() == {"general-new-0": 2, "general-new-1": 2}


def test_rings_when_there_are_several_then_one_after_the_other_in_their_order() -> None:
    rolled = Rolled.of({"general": (2, 2), "canary": (1, 1), "early": (1, 1)}, 5)
    rolled.live(START)
    seen: list[str] = []
    for _ in range(500):
        rollout = rolled.rollout
        assert rollout is not None
        if rollout.is_over:
            break
        if rollout.ring and (not seen or seen[-1] != rollout.ring):
            seen.append(rollout.ring)
        moving = {rolled.instances[move.source].ring for move in rolled.moves.values()}
        assert moving <= {rollout.ring}
        rolled.live()
    assert seen == ["canary", "early", "general"]
    assert {place for place in rolled.places() if "new" not in place} == set()


def test_ring_when_it_lacks_instances_then_it_waits_for_them_and_says_what_it_needs() -> None:
    rolled = Rolled.of({"canary": (1, 1), "general": (1, 0)}, 5)
    rolled.live(START)
    for _ in range(100):
        rolled.live()
    rollout = rolled.rollout
    assert rollout is not None
    assert (rollout.ring, rollout.step) == ("general", "provisioning")
    assert rollout.reason.startswith(
        "ring general needs shared instances of 3.2.11 in cluster north with room for 10 Applications, and has room for"
    )
    rolled.instances["late"], rolled.health["late"] = instance("late"), told("late", NEW)
    assert rolled.until_over().step == "done"
    assert rolled.places() == {"canary-new-0": 5, "late": 5}


def test_ring_when_nothing_was_told_of_one_of_its_instances_then_it_waits() -> None:
    rolled = Rolled.of(ONE_RING)
    del rolled.health[TARGET]
    rolled.rollout = Rolled.of(ONE_RING).look(START).rollouts[0]
    rolled.live()
    rolled.live()
    assert rolled.rollout is not None
    assert rolled.rollout.reason == f"no agent has told of engine instance {TARGET} yet"


def test_instance_when_nobody_sees_its_version_then_it_is_old_unless_it_was_ordered_with_the_new_one() -> None:
    rolled = begun()
    assert rolled.rollout is not None
    rolled.health = {name: replace(each, version="") for name, each in rolled.health.items()}
    rolled.instances[TARGET] = replace(rolled.instances[TARGET], wanted_version=NEW)
    ring = ring_of(rolled.rollout, "general", rolled.fleet)
    assert ([row.id for row in ring.sources], [row.id for row in ring.targets]) == ([SOURCE], [TARGET])


def test_instance_when_its_profile_is_another_then_it_is_old_though_it_runs_the_version() -> None:
    rolled = Rolled.of(ONE_RING)
    rolled.health[SOURCE] = told(SOURCE, NEW)
    rolled.instances[TARGET] = replace(rolled.instances[TARGET], profile="fast")
    rolled.live(replace(START, profile="fast"))
    assert rolled.until_over().step == "done"
    assert rolled.places() == {TARGET: 20}


def test_gate_when_it_fails_then_the_tenants_of_the_ring_go_back_and_no_other_ring_follows() -> None:
    rolled = Rolled.of({"canary": (1, 1), "general": (1, 1)}, 20)
    rolled.figures = lambda name: BAD if name == "canary-new-0" else WELL
    rolled.live(START)
    over = rolled.until_over()
    assert (over.step, over.ring, over.stage) == ("failed", "canary", 0)
    assert over.reason.startswith(
        "at 1 %: engine instance canary-new-0: Applications of 5.0 of 5.0 tenants fail, and of 0.0% of the"
    )
    assert rolled.places() == {"canary-old-0": 20, "general-old-0": 20}
    assert rolled.states() == {
        "canary-new-0": "drained", "canary-old-0": "accepting",
        "general-new-0": "accepting", "general-old-0": "accepting",
    }  # fmt: skip


@pytest.mark.parametrize("is_security", [False, True])
def test_rollout_when_one_tenant_breaks_all_that_it_has_at_each_stage_then_it_goes_on(is_security: bool) -> None:
    rolled = Rolled.of(ONE_RING, 50)
    rolled.figures = lambda name: OF_ONE_TENANT if name == TARGET else WELL
    rolled.live(replace(START, is_security=is_security))
    assert rolled.until_over().step == "done"
    assert rolled.places() == {TARGET: 50}


def test_gate_when_it_fails_at_the_last_stage_then_all_go_back() -> None:
    rolled = begun(30)
    rolled.until("soaking", 100)
    rolled.figures = lambda _: BAD
    assert rolled.until_over().step == "failed"
    assert rolled.places() == {SOURCE: 30}


def test_gate_when_too_little_is_told_then_it_waits_and_at_last_fails() -> None:
    rolled = begun()
    rolled.figures = lambda _: NO_FIGURES
    soaking = rolled.until("soaking")
    over = rolled.until_over()
    assert over.step == "failed"
    assert "too little was told in 0:35:00" in over.reason
    assert rolled.now - soaking.step_since >= soaking.soak + DATA_PATIENCE


@pytest.mark.parametrize(("profile", "step"), [("large", "done"), ("", "failed")])
def test_gate_when_comparisons_are_older_then_it_fails_unless_the_profile_may_have_set_another_interval(
    profile: str, step: str
) -> None:
    rolled = Rolled.of(ONE_RING)
    rolled.instances[TARGET] = replace(rolled.instances[TARGET], profile=profile)
    rolled.figures = lambda _: replace(WELL, comparison_p95_ms=467_000)
    rolled.live(replace(START, profile=profile))
    assert rolled.until_over().step == step


def test_gate_when_applications_are_late_then_it_fails_whatever_the_profile_is() -> None:
    rolled = Rolled.of(ONE_RING)
    rolled.instances[TARGET] = replace(rolled.instances[TARGET], profile="large")
    rolled.figures = lambda _: replace(WELL, late=25)
    rolled.live(replace(START, profile="large"))
    assert "were not compared in time" in rolled.until_over().reason


def test_gate_when_the_past_was_not_told_then_it_is_waited_for_and_then_left_out() -> None:
    rolled = begun()
    first = rolled.rollout
    assert first is not None
    rolled.rollout = replace(first, step_since=rolled.now - DATA_PATIENCE)
    rolled.live()
    assert rolled.rollout is not None
    assert rolled.rollout.step == "moving"


def test_past_when_a_newer_planner_has_written_more_of_it_then_the_rest_is_understood() -> None:
    soaking = begun().until("soaking")
    told = json.loads(soaking.baseline)
    assert told["applications"] > 0
    assert replace(soaking, baseline=json.dumps(told | {"fonts": 7})).past == soaking.past


def test_past_when_a_former_release_has_written_it_then_nobody_was_on_new_instances() -> None:
    soaking = begun().until("soaking")
    assert replace(soaking, baseline=json.dumps(asdict(soaking.past))).there_before == 0


def test_soak_when_it_is_for_security_then_it_is_a_sixth_but_no_less_than_five_minutes() -> None:
    def soak(seconds: int) -> timedelta:
        rolled = Rolled.of(ONE_RING)
        rolled.live(replace(START, soak_seconds=seconds, is_security=True))
        assert rolled.rollout is not None
        return rolled.rollout.soak

    assert [soak(each) for each in (3600, 1800, 60, 0)] == [
        timedelta(minutes=10), timedelta(minutes=5), timedelta(minutes=1), timedelta(0),
    ]  # fmt: skip


def test_new_instance_when_it_is_down_then_the_ring_goes_back_at_once() -> None:
    rolled = begun()
    rolled.until("soaking")
    rolled.hear(TARGET, Health.DOWN)
    over = rolled.until_over()
    assert (over.step, over.reason) == ("failed", f"at 1 %: engine instance {TARGET} is down: ControllerNotReady")


@pytest.mark.parametrize(
    ("instance_down", "reason"), [(SOURCE, "X"), (TARGET, "AgentSilent"), (TARGET, "ApiFailing"), (TARGET, "Closed")]
)
def test_instance_when_what_is_wrong_says_nothing_of_the_version_then_the_rollout_waits(
    instance_down: str, reason: str
) -> None:
    rolled = begun()
    rolled.until("soaking")
    rolled.hear(instance_down, Health.UNKNOWN if reason == "AgentSilent" else Health.DOWN, reason)
    before = rolled.places()
    for _ in range(100):
        rolled.live()
    assert rolled.rollout is not None
    assert (rolled.rollout.step, rolled.places()) == ("soaking", before)
    assert rolled.rollout.reason == f"engine instance {instance_down} is down: {reason}"


def test_new_instance_when_it_has_just_gone_down_then_the_ring_goes_back_after_a_while() -> None:
    rolled = begun()
    rolled.until("soaking")
    rolled.hear(TARGET, Health.DOWN, since=rolled.now)
    rolled.look()
    assert rolled.rollout is not None
    told = f"engine instance {TARGET} is down: ControllerNotReady"
    assert (rolled.rollout.step, rolled.rollout.reason) == ("soaking", told)
    rolled.now += REPORTED_OF_ALL_AFTER
    rolled.look()
    assert (rolled.rollout.step, rolled.rollout.reason) == ("reverting", f"at 1 %: {told}")


@pytest.mark.parametrize("step", ["moving", "soaking"])
def test_new_instance_when_it_goes_down_first_and_comes_back_last_then_the_cause_is_shared(step: str) -> None:
    rolled = begun(60)
    rolled.until(step, 100)
    seconds = timedelta(seconds=10)
    rolled.hear(TARGET, Health.DOWN, since=rolled.now)
    rolled.look()
    rolled.now += seconds
    rolled.hear(SOURCE, Health.DOWN, since=rolled.now)
    for _ in range(10):
        rolled.live()
    rolled.hear(SOURCE, Health.HEALTHY, "", since=rolled.now)
    rolled.look()
    assert rolled.rollout is not None
    assert (rolled.rollout.step, rolled.rollout.outcome) == (step, "")
    rolled.now += seconds
    rolled.hear(TARGET, Health.HEALTHY, "", since=rolled.now)
    assert rolled.until_over().step == "done"


POOL = EnginePool("north", "general", 1, 1, 0, 30, OLD, "", at(1))


def test_ring_when_it_has_a_pool_then_its_instances_are_ordered_and_the_pool_is_of_the_version_afterwards() -> None:
    rolled = Rolled.of({"general": (1, 0)}, 20)
    rolled.pools = {POOL.key: POOL}
    rolled.live(START)
    (first, second) = rolled.look().fleet_orders
    assert (first.kind, first.subject, first.actor, first.outcome) == (
        "AddEngineInstance", "north-general-1", "rollout", "accepted",
    )  # fmt: skip
    assert second.subject == "north-general-2"
    ordered = {name: row for name, row in rolled.instances.items() if name != SOURCE}
    assert {row.wanted_version for row in ordered.values()} == {NEW}
    assert [(row.id, row.state, row.capacity) for row in ordered.values()] == [
        ("north-general-1", "provisioning", 30), ("north-general-2", "provisioning", 30),
    ]  # fmt: skip
    rolled.live()
    assert len(rolled.instances) == 3
    for name in ordered:
        rolled.health[name] = told(name, NEW)
    assert rolled.until_over().step == "done"
    assert rolled.places().keys() == ordered.keys()
    assert rolled.pools[POOL.key] == replace(POOL, version=NEW)


def test_ring_when_its_new_instance_has_failed_then_that_is_named_and_no_other_is_ordered() -> None:
    rolled = Rolled.of({"general": (1, 0)}, 10)
    rolled.pools = {POOL.key: POOL}
    rolled.live(START)
    rolled.live()
    assert rolled.rollout is not None
    assert rolled.rollout.reason.endswith(
        "room for 0: engine instance north-general-1 is provisioning: 'gitopsctl engines show north-general-1' shows "
        "how far that is"
    )
    for _ in range(20):
        rolled.live()
    reason = rolled.rollout.reason
    assert "has room for 0: engine instance north-general-1 has failed, it was not ready by " in reason
    assert reason.endswith(
        "no agent of engine cluster north has told how it is; mend that, and it is used; or retire it, and add another"
    )
    assert rolled.states() == {SOURCE: "accepting", "north-general-1": "failed"}
    rolled.live(RetireEngineInstance("north-general-1"))
    rolled.live()
    assert rolled.states()["north-general-2"] == "provisioning"


@pytest.mark.parametrize("seconds", [60, 1200], ids=["it is awaited", "it has failed"])
def test_ring_when_nobody_has_told_of_an_instance_that_was_added_by_hand_then_it_is_awaited_until_it_has_failed(
    seconds: int,
) -> None:
    rolled = Rolled.of({"general": (1, 0)}, 10)
    rolled.pools = {POOL.key: POOL}
    by_hand = AddEngineInstance("by-hand", "north", "by-hand", "argocd", "shared", "", "general", 2500)
    rolled.live(by_hand, START)
    for _ in range(seconds // 60):
        rolled.live()
    assert rolled.rollout is not None
    if seconds == 60:
        assert "engine instance by-hand is provisioning: " in rolled.rollout.reason
        assert rolled.states() == {SOURCE: "accepting", "by-hand": "provisioning"}
    else:
        assert rolled.states() == {SOURCE: "accepting", "by-hand": "failed", "north-general-1": "provisioning"}


def test_ring_when_an_instance_of_the_version_that_was_added_by_hand_has_failed_then_its_pool_adds_another() -> None:
    rolled = Rolled.of({"general": (1, 0)}, 10)
    rolled.pools = {POOL.key: POOL}
    rolled.instances["by-hand"] = instance("by-hand", state="failed", state_message="why")
    rolled.health["by-hand"] = told("by-hand", NEW, "Down", "Closed")
    rolled.live(START)
    rolled.live()
    assert rolled.states()["north-general-1"] == "provisioning"
    assert rolled.rollout is not None
    assert "engine instance north-general-1 is provisioning: " in rolled.rollout.reason


def test_instance_when_its_namespace_would_be_that_of_another_then_it_is_of_the_next_number() -> None:
    rolled = Rolled.of({"general": (1, 0)}, 20)
    rolled.pools = {POOL.key: POOL}
    rolled.instances[SOURCE] = replace(rolled.instances[SOURCE], namespace=namespace_of("north-general-1"))
    rolled.live(START)
    rolled.live()
    assert sorted(rolled.instances) == [SOURCE, "north-general-2", "north-general-3"]


def test_ring_when_its_cluster_is_drained_then_no_instance_is_added_there_and_why_is_told() -> None:
    rolled = Rolled.of({"general": (1, 0)}, 20)
    rolled.pools = {POOL.key: POOL}
    rolled.clusters[CLUSTER.id] = replace(CLUSTER, state="draining")
    rolled.live(START)
    rolled.live()
    assert [*rolled.instances] == [SOURCE]
    assert rolled.rollout is not None
    assert "its pool is to add some; no instance is added: engine cluster north is draining" in rolled.rollout.reason


def installed(old: int) -> Rolled:
    """With so many old instances, each two thirds full, and the new ones that the pool of the ring has for them."""
    rolled = Rolled.of({"general": (old, 0)}, 10)
    rolled.instances = {name: replace(row, capacity=30) for name, row in rolled.instances.items()}
    rolled.pools = {POOL.key: replace(POOL, maximum=20)}
    rolled.live(START)
    rolled.live()
    rolled.install()
    return rolled


def test_ring_when_it_has_a_pool_then_no_new_instance_is_overloaded_when_all_tenants_have_come() -> None:
    """Ten that are two thirds full would fit on seven."""
    rolled = installed(10)
    assert rolled.until_over().step == "done"
    assert len(rolled.places()) == 10
    carried = {name: rolled.fleet.load[name] for name in rolled.places()}
    assert not [name for name, load in carried.items() if is_overloaded(load, 30)]


def test_ring_when_its_pool_has_spare_instances_then_new_ones_are_spare_too_within_its_limits() -> None:
    rolled = Rolled.of({"general": (1, 0)}, 10)
    rolled.pools = {POOL.key: replace(POOL, maximum=2, spare=5)}
    rolled.live(START)
    rolled.live()
    assert {name for name, state in rolled.states().items() if state == "provisioning"} == {
        "north-general-1", "north-general-2",
    }  # fmt: skip
    rolled.health["north-general-1"] = told("north-general-1", NEW)
    for _ in range(5):
        rolled.live()
    assert rolled.rollout is not None
    assert rolled.rollout.reason == (
        "ring general needs more shared instances of 3.2.11 in cluster north for its load: engine instance "
        "north-general-2 is provisioning: 'gitopsctl engines show north-general-2' shows how far that is"
    )


def grown(rolled: Rolled, minimum: int) -> EngineInstanceRow:
    """What its pool adds next, if it is to have so many instances; then it is content."""
    before = rolled.pools[POOL.key]
    rolled.pools[POOL.key] = replace(before, minimum=minimum, maximum=minimum)
    for _ in range(5):
        rolled.scale()
        if added := [row for row in rolled.instances.values() if row.state == "provisioning"]:
            rolled.pools[POOL.key] = replace(rolled.pools[POOL.key], minimum=1)
            return added[0]
        rolled.live()
    raise AssertionError(rolled.states())


def test_pool_when_it_grows_while_the_old_instances_are_given_up_then_what_it_adds_is_of_the_version() -> None:
    rolled = Rolled.of({"general": (1, 1)}, 10)
    rolled.pools = {POOL.key: replace(POOL, capacity=10_000)}
    rolled.live(START)
    rolled.until("draining")
    assert grown(rolled, 2).wanted_version == NEW
    assert rolled.until_over().step == "done"


def test_pool_when_it_grows_before_that_then_what_it_adds_is_old_and_the_ring_is_not_done_before_it_is_gone() -> None:
    rolled = Rolled.of({"general": (1, 1)}, 10)
    rolled.pools = {POOL.key: replace(POOL, capacity=10_000)}
    rolled.live(replace(START, soak_seconds=0))
    rolled.until("soaking", 1)
    added = grown(rolled, 2)
    assert added.wanted_version == OLD
    rolled.until("retiring")
    rolled.live()
    assert rolled.rollout is not None
    assert rolled.rollout.reason == f"engine instance {added.id} is provisioning, and not of {NEW} as far as is known"
    rolled.install()
    assert rolled.until_over().step == "done"
    assert rolled.states() == {SOURCE: "retired", TARGET: "accepting", added.id: "retired"}


GROWING = replace(POOL, capacity=100, maximum=10)
FIRST = "north-general-1"


def small(tenants: int = 33, pool: EnginePool = GROWING) -> Rolled:
    """An old and a new instance for 100 Applications each, in a pool; the old one is two thirds full."""
    rolled = Rolled.of(ONE_RING, tenants)
    rolled.instances = {name: replace(row, capacity=100) for name, row in rolled.instances.items()}
    rolled.pools = {pool.key: pool}
    grow_tenants(rolled, 2)
    rolled.live(START)
    return rolled


def grow_tenants(rolled: Rolled, deployments: int = 4) -> None:
    """All of them."""
    load = load_of_deployments(deployments)
    rolled.tenants = {name: replace(each, deployments=deployments, load=load) for name, each in rolled.tenants.items()}


def live_scaled(rolled: Rolled, looks: int) -> None:
    """So many looks at rollout and pools; what is ordered is installed at once."""
    for _ in range(looks):
        rolled.live()
        rolled.scale()
        rolled.install()


@pytest.mark.parametrize("stage", [1, 10])
def test_pool_when_the_old_instance_carries_too_much_before_the_last_stage_then_old_ones_are_added_for_its_load(
    stage: int,
) -> None:
    rolled = small()
    rolled.until("soaking", stage)
    rolled.live(PauseRollout())
    grow_tenants(rolled)
    carried = rolled.fleet.load[SOURCE]
    rolled.scale()
    assert rolled.instances[FIRST].wanted_version == OLD
    assert lacking_instances(carried, GROWING, 2, 200) == 0
    live_scaled(rolled, 5)
    rolled.join(rolled.instances[FIRST], NEW)  # whatever is told of it
    live_scaled(rolled, 5)
    assert rolled.states() == {SOURCE: "full", TARGET: "accepting", FIRST: "accepting"}
    assert rolled.pools[GROWING.key].message == ""


def test_pool_when_it_has_grown_while_its_ring_waited_then_the_new_instances_follow_and_it_does_not_shrink_after() -> (
    None
):
    rolled = small()
    rolled.until("soaking", 1)
    rolled.live(PauseRollout())
    grow_tenants(rolled)
    live_scaled(rolled, 5)
    rolled.live(ResumeRollout())
    while not (rolled.rollout is None or rolled.rollout.is_over):
        live_scaled(rolled, 1)
    new = {TARGET, "north-general-2"}
    assert rolled.states() == {SOURCE: "retired", FIRST: "retired"} | dict.fromkeys(new, "accepting")
    assert rolled.places().keys() == new
    assert not [name for name in new if is_overloaded(rolled.fleet.load[name], 100)]
    assert max(Counter(move.tenant_id for move in rolled.ended).values()) == 1
    before = rolled.states()
    for _ in range(26):
        rolled.now += timedelta(hours=1)
        live_scaled(rolled, 1)
    assert rolled.states() == before


def test_pool_when_its_ring_is_rolled_out_for_long_then_the_time_until_it_shrinks_begins_after_that() -> None:
    """Old and new ones together would be twice as many as it needs, for the whole day."""
    rolled = small(10, replace(GROWING, shrinks_at=at(0)))
    rolled.instances = {
        name: replace(row, wanted_version=NEW if "new" in name else OLD) for name, row in rolled.instances.items()
    }
    rolled.until("soaking", 100)
    rolled.scale()
    assert rolled.pools[GROWING.key].shrinks_at is None
    rolled.until_over()
    rolled.join(instance("spare", capacity=100, wanted_version=NEW), NEW)
    rolled.scale()
    assert rolled.pools[GROWING.key].shrinks_at == rolled.now + Patience().shrink
    assert rolled.states()["spare"] == "accepting"


@pytest.mark.parametrize("stage", [1, 100])
def test_pool_when_the_ring_goes_back_then_it_grows_by_all_that_the_old_ones_are_to_carry(stage: int) -> None:
    rolled = small()
    rolled.until("soaking", stage)
    rolled.live(AbortRollout())
    live_scaled(rolled, 5)
    assert FIRST not in rolled.instances
    grow_tenants(rolled)
    live_scaled(rolled, 1)
    assert rolled.instances[FIRST].wanted_version == OLD


def test_pool_when_it_adds_what_is_rolled_out_and_the_old_ones_carry_too_much_then_it_adds_none_and_says_why() -> None:
    rolled = small(pool=replace(GROWING, version=NEW))
    rolled.until("soaking", 1)
    rolled.live(PauseRollout())
    grow_tenants(rolled)
    live_scaled(rolled, 5)
    assert rolled.instances.keys() == {SOURCE, TARGET}
    assert rolled.pools[GROWING.key].message == (
        f"the old instances of the ring lack 1 others: no new tenant comes to {NEW}, which it adds, for now"
    )


@pytest.mark.parametrize("stage", [10, 100])
def test_pool_when_it_adds_what_is_rolled_out_and_the_ring_goes_back_then_it_adds_none_and_says_why(stage: int) -> None:
    """Each would be drained as soon as it joins."""
    rolled = small(pool=replace(GROWING, version=NEW))
    rolled.until("soaking", stage)
    rolled.pin(next(name for name, each in rolled.tenants.items() if each.engine_instance_id == TARGET))
    grow_tenants(rolled, 3)
    rolled.live(AbortRollout())
    live_scaled(rolled, 20)
    assert rolled.rollout is not None
    assert (rolled.rollout.step, rolled.instances.keys()) == ("reverting", {SOURCE, TARGET})
    assert rolled.pools[GROWING.key].message == (
        f"the old instances of the ring lack 1 others: no new tenant comes to {NEW}, which it adds, for now"
    )


def test_trial_when_a_ring_goes_back_from_the_last_stage_then_all_of_the_release_is_on_it() -> None:
    rolled = begun()
    rolled.until("soaking", 100)
    rolled.live(AbortRollout())
    rolled.join(instance("late"), NEW)
    assert on_trial(rolled.fleet) == {TARGET, "late"}


def test_pool_when_the_new_instances_carry_too_much_at_the_last_stage_then_new_ones_are_added_though_it_is_paused() -> (
    None
):
    rolled = small()
    rolled.until("soaking", 100)
    rolled.live(PauseRollout())
    grow_tenants(rolled, 4)
    live_scaled(rolled, 5)
    assert rolled.instances[FIRST].wanted_version == NEW
    rolled.join(rolled.instances[FIRST], OLD)  # whatever is told of it
    live_scaled(rolled, 5)
    assert (rolled.instances.keys(), rolled.pools[GROWING.key]) == ({SOURCE, TARGET, FIRST}, GROWING)
    rolled.join(rolled.instances[FIRST], NEW)
    rolled.live(ResumeRollout())
    while not (rolled.rollout is None or rolled.rollout.is_over):
        live_scaled(rolled, 1)
    assert rolled.states() == {SOURCE: "retired", TARGET: "full", FIRST: "accepting"}


def test_pool_when_an_old_instance_has_failed_then_new_ones_are_added_after_the_rollout() -> None:
    rolled = small()
    rolled.until("soaking", 1)
    failed = instance("failed", state="failed", state_message="why", wanted_version=OLD)
    rolled.instances[failed.id] = failed
    assert rolled.until_over().step == "done"
    grow_tenants(rolled, 5)
    rolled.scale()
    assert rolled.instances[FIRST].wanted_version == NEW


def test_pool_when_a_new_instance_has_failed_then_old_ones_are_added_all_the_same() -> None:
    rolled = small()
    rolled.until("soaking", 1)
    failed = instance("failed", state="failed", state_message="why", wanted_version=NEW)
    rolled.instances[failed.id] = failed
    grow_tenants(rolled)
    rolled.scale()
    assert rolled.instances[FIRST].wanted_version == OLD


def test_pool_when_another_ring_is_rolled_out_then_it_is_sized_by_all_of_its_instances() -> None:
    rolled = Rolled.of({"canary": (1, 1), "general": (1, 1)}, 33)
    rolled.instances = {name: replace(row, capacity=100) for name, row in rolled.instances.items()}
    rolled.pools = {GROWING.key: GROWING}
    rolled.live(replace(START, rings=("canary",)))
    rolled.until("soaking", 1)
    grow_tenants(rolled)
    rolled.scale()
    assert FIRST not in rolled.instances


def test_ring_when_its_load_grows_during_a_soak_then_new_instances_are_ordered_before_the_next_stage() -> None:
    rolled = small()
    rolled.until("soaking", 1)
    grow_tenants(rolled)
    rolled.live()
    assert (rolled.rollout is not None and rolled.rollout.step, rolled.instances[FIRST].wanted_version) == (
        "soaking", NEW,
    )  # fmt: skip


def test_days_when_a_ring_is_rolled_out_meanwhile_then_old_instances_are_enough_and_nobody_comes_back() -> None:
    """Each stage soaks for a day."""
    rolled = Rolled.of({"general": (3, 0)}, 40)
    rolled.instances = {name: replace(row, capacity=300) for name, row in rolled.instances.items()}
    pool = replace(GROWING, capacity=300, maximum=20, shrinks_at=at(0))
    rolled.pools = {pool.key: pool}
    rolled.live(replace(START, soak_seconds=24 * 3600))
    over: list[tuple[timedelta, int]] = []
    begun_at = rolled.now
    for minute in range(0, 6 * 24 * 60, 10):
        grow_tenants(rolled, round(5 + 3 * (1 - math.cos(2 * math.pi * minute / (24 * 60)))))
        rolled.now = begun_at + timedelta(minutes=minute)
        live_scaled(rolled, 1)
        rollout, carried = rolled.rollout, rolled.fleet.load
        assert rollout is not None
        old = [name for name, row in rolled.instances.items() if row.wanted_version != NEW and not row.is_retired]
        if rollout.ring and not rollout.is_on_new:
            assert lacking_instances(sum(carried.get(each, 0) for each in old), pool, 1, 300 * len(old)) == 0
        if rollout.is_over:
            over.append((rolled.now - rollout.step_since, sum(not row.is_retired for row in rolled.instances.values())))
    assert rolled.rollout is not None
    assert rolled.rollout.step == "done"
    assert max(Counter(move.tenant_id for move in rolled.ended).values()) == 1
    assert len({count for since, count in over if since < timedelta(days=1)}) == 1


def test_instance_when_a_tenant_to_come_is_pinned_to_it_then_it_is_not_given_up_before_that_is_unpinned() -> None:
    rolled = begun(5)
    pin = TenantPin("local", "to-come", SOURCE, at(1))
    rolled.rules = PlacementRules(pins={pin.tenant: pin})
    rolled.until("retiring")
    rolled.live()
    assert rolled.rollout is not None
    assert rolled.rollout.reason.startswith(f"tenants are pinned to engine instance {SOURCE}: local/to-come; ")
    assert rolled.states()[SOURCE] == "drained"
    rolled.rules = PlacementRules()
    assert rolled.until_over().step == "done"
    assert rolled.states()[SOURCE] == "retired"


def test_instance_when_the_database_is_rebuilt_then_it_is_not_given_up_before_that_has_ended() -> None:
    rolled = begun(5)
    rolled.until("retiring")
    rolled.is_rebuilt = True
    rolled.live()
    assert rolled.rollout is not None
    assert (rolled.rollout.reason, rolled.states()[SOURCE]) == ("the database is being rebuilt", "drained")
    rolled.is_rebuilt = False
    assert rolled.until_over().step == "done"
    assert rolled.states()[SOURCE] == "retired"


def test_instance_when_an_old_one_joins_meanwhile_then_the_ring_is_not_done_before_it_is_given_up_too() -> None:
    rolled = begun(5)
    rolled.until("soaking", 100)
    rolled.instances["late"], rolled.health["late"] = instance("late"), told("late", OLD)
    assert rolled.until_over().step == "done"
    assert rolled.states() == {SOURCE: "retired", TARGET: "accepting", "late": "retired"}


def test_old_instance_when_it_joins_before_the_last_stage_then_its_tenants_pass_the_stages_too() -> None:
    """All come to it from the one that the ring had, which is down."""
    rolled = Rolled.of(ONE_RING, 200)
    rolled.live(START)
    rolled.until("soaking", 1)
    rolled.join(instance("late"), OLD)
    rolled.hear(SOURCE, Health.DOWN)
    while rolled.places()["late"] < 198:
        live_evacuated(rolled, 1)
    for stage, expected in ((1, 2), (10, 20), (100, 200)):
        soaking = rolled.until("soaking", stage)
        assert (soaking.tenants, rolled.places()[TARGET]) == (200, expected)
    rolled.figures = lambda _: BAD
    assert rolled.until_over().step == "failed"
    assert rolled.places() == {"late": 200}


def test_old_instance_when_it_joins_before_the_last_stage_and_the_ring_goes_back_then_it_takes_its_share() -> None:
    """Half of the tenants have no room on the one that the ring had."""
    rolled = begun(40)
    rolled.until("soaking", 1)
    rolled.instances[SOURCE] = replace(rolled.instances[SOURCE], capacity=40)
    rolled.join(instance("late", capacity=40), OLD)
    rolled.until("soaking", 100)
    rolled.figures = lambda _: BAD
    over = rolled.until_over()
    assert (over.step, over.source_ids) == ("failed", {SOURCE, "late"})
    assert rolled.places().keys() == {SOURCE, "late"}


def test_old_instance_when_it_joins_while_the_ring_goes_back_then_tenants_go_back_to_it() -> None:
    rolled = begun(40)
    rolled.until("soaking", 100)
    rolled.instances[SOURCE] = replace(rolled.instances[SOURCE], capacity=40)
    rolled.live(AbortRollout())
    rolled.join(instance("late", capacity=40), OLD)
    over = rolled.until_over()
    assert (over.step, over.reason) == ("aborted", "an operator has aborted it")
    assert rolled.places().keys() == {SOURCE, "late"}


def test_instance_when_it_joins_and_what_it_runs_is_seen_later_then_it_is_new_if_it_is_of_the_version() -> None:
    rolled = begun(20)
    rolled.until("soaking", 1)
    rolled.join(instance("late"), "")
    for _ in range(3):
        rolled.live()
    rolled.join(instance("late"), NEW)
    assert rolled.until_over().step == "done"
    assert rolled.states() == {SOURCE: "retired", TARGET: "accepting", "late": "accepting"}


def with_late(tenants: int = 3, **changes: Any) -> Rolled:
    """An old instance joins when all stages are over, and gets so many tenants; the others are about to be given up.

    The ring would not pass a gate any more.
    """
    rolled = begun(60)
    rolled.until("draining")
    rolled.join(instance("late", **changes), OLD)
    for number in range(tenants):
        rolled.tenants["local", f"late-{number}"] = TenantHere(UUID(int=900 + number), 0, "late", 2)
    rolled.until("retiring")
    assert rolled.places() == Counter({TARGET: 60, "late": tenants})
    rolled.figures = lambda _: BAD
    return rolled


def test_old_instance_when_it_joins_late_then_its_tenants_move_last_and_none_of_the_others_goes_back_to_it() -> None:
    rolled = with_late(capacity=30)
    assert course(rolled) == [("retiring", 100), ("draining", 100), ("retiring", 100), ("done", 100)]
    assert rolled.places() == {TARGET: 63}
    assert rolled.states() == {SOURCE: "retired", TARGET: "accepting", "late": "retired"}
    assert "late" not in {move.target for move in rolled.ended}


def test_old_instance_when_it_joins_late_then_new_tenants_are_placed_on_new_ones_and_an_abort_does_not_go_back() -> (
    None
):
    rolled = with_late()
    before = rolled.rollout
    draining = rolled.until("draining")
    assert draining.source_ids == {"late"}
    assert rings_affected(before, draining) == ()
    rolled.live()
    assert rolled.states()["late"] == "draining"
    (record,) = rolled.look(AbortRollout()).fleet_orders
    assert record.message == "ring general does not go back any more; no other follows"
    over = rolled.until_over()
    assert (over.step, over.reason) == ("aborted", "an operator has aborted it")
    assert rolled.places() == {TARGET: 63}


def test_old_instance_when_it_joins_late_and_the_rollout_is_aborted_before_its_turn_then_it_is_given_up_too() -> None:
    rolled = with_late()
    rolled.live(AbortRollout())
    over = rolled.until_over()
    assert (over.step, over.stage, over.reason) == ("aborted", 100, "an operator has aborted it")
    assert (rolled.places(), rolled.states()["late"], rolled.fleet.closed) == ({TARGET: 63}, "retired", frozenset())


def test_old_instance_when_it_joins_late_and_an_aborted_rollout_lacks_room_then_that_ends_and_closes_none() -> None:
    rolled = with_late()
    rolled.tenants["local", "late-1"] = replace(rolled.tenants["local", "late-1"], deployments=3000)
    rolled.live(AbortRollout())
    over = rolled.until_over(most=int(STALLED_AFTER / EVERY) + 2)
    assert over.reason.startswith(
        "an operator has aborted it; nothing has got on for 1:00:00, and left as it is: ring general needs shared "
        "instances of 3.2.11 in cluster north with room for 3004 Applications"
    )
    assert (rolled.places(), rolled.fleet.closed) == (Counter({TARGET: 60, "late": 3}), frozenset())


def test_old_instance_when_it_joins_late_and_there_is_no_room_then_it_keeps_its_tenants_until_there_is() -> None:
    rolled = with_late()
    rolled.tenants["local", "late-1"] = replace(rolled.tenants["local", "late-1"], deployments=3000)
    for _ in range(5):
        rolled.live()
    assert rolled.rollout is not None
    assert rolled.rollout.reason == (
        "ring general needs shared instances of 3.2.11 in cluster north with room for 3004 Applications, and has room "
        "for 2380: 'gitopsctl engines add' adds one"
    )
    assert (rolled.rollout.step, rolled.places()["late"], rolled.states()["late"]) == ("retiring", 3, "full")
    rolled.join(instance("large", capacity=6000), NEW)
    assert rolled.until_over().step == "done"
    assert rolled.places().keys() == {TARGET, "large"}


def test_old_instance_when_it_joins_late_and_there_is_no_room_in_its_pool_then_an_instance_is_ordered() -> None:
    rolled = with_late()
    rolled.pools = {POOL.key: replace(POOL, capacity=6000)}
    rolled.tenants["local", "late-1"] = replace(rolled.tenants["local", "late-1"], deployments=3000)
    rolled.live()
    assert rolled.instances["north-general-1"].wanted_version == NEW
    rolled.install()
    assert rolled.until_over().step == "done"
    assert rolled.places().keys() == {TARGET, "north-general-1"}


def test_old_instance_when_it_joins_late_and_no_new_one_is_like_it_then_it_is_not_given_up_before_there_is() -> None:
    rolled = with_late(tenants=0, engine_class="dedicated", dedicated_to="acme")
    for _ in range(5):
        rolled.live()
    assert rolled.rollout is not None
    assert rolled.rollout.reason == (
        "ring general needs dedicated instances of 3.2.11 in cluster north for workspace acme with room for 0 "
        "Applications, and has room for 0: 'gitopsctl engines add' adds one"
    )
    assert rolled.states()["late"] == "accepting"
    rolled.join(instance("acme", engine_class="dedicated", dedicated_to="acme"), NEW)
    assert rolled.until_over().step == "done"
    assert rolled.states()["late"] == "retired"


def test_new_instance_when_it_is_of_another_version_again_then_it_is_given_up_as_one_that_joins_late() -> None:
    rolled = Rolled.of({"general": (1, 2)}, 20)
    rolled.live(START)
    rolled.until("retiring")
    rolled.join(rolled.instances["general-new-1"], OLD)
    draining = rolled.until("draining")
    assert draining.source_ids == {"general-new-1"}
    assert draining.target_ids == {TARGET}
    assert rolled.until_over().step == "done"
    assert rolled.places() == {TARGET: 20}
    assert rolled.states()["general-new-1"] == "retired"


def test_instance_when_nothing_was_told_of_one_that_joins_late_then_the_ring_is_not_done_before() -> None:
    rolled = with_late(tenants=0)
    health = rolled.health.pop("late")
    rolled.live()
    assert rolled.rollout is not None
    assert (rolled.rollout.step, rolled.rollout.reason) == (
        "retiring", "no agent has told of engine instance late yet",
    )  # fmt: skip
    rolled.health["late"] = health
    assert rolled.until_over().step == "done"
    assert rolled.states()["late"] == "retired"


def test_rollout_when_paused_then_no_further_move_begins_until_it_is_resumed() -> None:
    rolled = begun(60)
    rolled.until("moving", 100)
    rolled.live()
    rolled.live(PauseRollout())
    for _ in range(20):
        rolled.live()
    paused = rolled.places()
    for _ in range(100):
        rolled.live()
    assert rolled.places() == paused
    assert not rolled.moves
    rolled.live(ResumeRollout())
    assert rolled.until_over().step == "done"


def test_soak_when_resumed_then_it_begins_anew() -> None:
    rolled = begun()
    rolled.until("soaking")
    rolled.live(PauseRollout())
    rolled.now += timedelta(hours=1)
    resumed_at = rolled.now
    rolled.live(ResumeRollout())
    assert rolled.rollout is not None
    assert (rolled.rollout.step, rolled.rollout.step_since) == ("soaking", resumed_at)


def test_rollout_when_aborted_then_the_ring_goes_back() -> None:
    rolled = begun(60)
    rolled.until("moving", 100)
    rolled.live()
    rolled.live(AbortRollout())
    over = rolled.until_over()
    assert (over.step, over.reason) == ("aborted", "an operator has aborted it")
    assert rolled.places() == {SOURCE: 60}


def test_rollout_when_aborted_while_the_old_instances_are_given_up_then_it_ends_after_this_ring() -> None:
    rolled = Rolled.of({"canary": (1, 1), "general": (1, 1)}, 5)
    rolled.live(START)
    rolled.until("draining")
    rolled.live(AbortRollout())
    over = rolled.until_over()
    assert (over.step, over.ring) == ("aborted", "canary")
    assert rolled.places() == {"canary-new-0": 5, "general-old-0": 5}


def test_ring_when_it_goes_back_to_an_instance_that_is_too_small_then_who_would_make_it_ill_stays_and_why_is_told() -> (
    None
):
    """Half of the tenants were on the new one before, and the old one is full of the others."""
    rolled = Rolled.of(ONE_RING, 40)
    rolled.instances[SOURCE] = replace(rolled.instances[SOURCE], capacity=40)
    for number, (name, each) in enumerate(rolled.tenants.items()):
        if number < 20:
            rolled.tenants[name] = replace(each, engine_instance_id=TARGET)
    rolled.live(START)
    rolled.until("soaking", 100)
    rolled.figures = lambda _: BAD
    over = rolled.until_over()
    assert over.step == "failed"
    assert rolled.places() == {SOURCE: 30, TARGET: 10}
    assert "left as it is: tenants on new instances: 10, on their way: 0; local/team-" in over.reason
    assert over.reason.endswith(f": engine instance {SOURCE} would have more than 1.5 times its capacity")
    assert rolled.states()[TARGET] == "draining"


def test_tenant_when_it_is_pinned_to_an_old_instance_then_the_others_move_and_the_rollout_pauses() -> None:
    rolled = begun(20)
    rolled.pin(("local", "team-7"))
    rolled.until("moving", 100)
    for _ in range(int(STALLED_AFTER / EVERY) + 40):
        rolled.live()
    rollout = rolled.rollout
    assert rollout is not None
    assert (rollout.is_paused, rollout.reason) == (
        True,
        "no tenant has arrived for 1:00:00; resume, or abort: local/team-7: tenant local/team-7 is pinned to engine "
        "instance general-old-0: 'gitopsctl engines unpin' it first",
    )
    assert rolled.places() == {SOURCE: 1, TARGET: 19}


def test_tenant_when_it_is_pinned_to_a_new_instance_and_the_ring_goes_back_then_it_stays_and_why_is_told() -> None:
    rolled = begun(20)
    rolled.until("soaking", 100)
    rolled.pin(("local", "team-7"))
    rolled.figures = lambda _: BAD
    over = rolled.until_over()
    assert over.step == "failed"
    assert over.reason.endswith(
        "nothing has got on for 1:00:00, and left as it is: tenants on new instances: 1, on their way: 0; "
        "local/team-7: tenant local/team-7 is pinned to engine instance general-new-0: 'gitopsctl engines unpin' it "
        "first"
    )
    assert rolled.places() == {SOURCE: 19, TARGET: 1}


def test_new_instance_when_it_is_cordoned_then_all_tenants_go_to_others() -> None:
    rolled = Rolled.of({"general": (1, 2)})
    rolled.cordoned = {TARGET: "it is ill"}
    rolled.live(START)
    assert rolled.until_over().step == "done"
    assert rolled.places() == {"general-new-1": 20}


CORDONED = {TARGET: "nothing else helps: it is ill"}


def fall_ill(rolled: Rolled, *names: str, is_cordoned: bool = False) -> None:
    """Applications there are compared all the same, one after the other."""
    for name in names:
        if is_cordoned:
            rolled.cordoned = {**rolled.cordoned, name: CORDONED[TARGET]}
        else:
            rolled.hear(name, Health.DEGRADED, "Restarting")


ILL = {
    "it is degraded": (False, f"engine instance {TARGET} is Degraded: Restarting"),
    "it is cordoned": (True, f"engine instance {TARGET} is cordoned: {CORDONED[TARGET]}"),
}


@pytest.mark.parametrize("stage", [1, 10, 100])
@pytest.mark.parametrize(("is_cordoned", "words"), ILL.values(), ids=ILL)
def test_new_instance_when_it_is_ill_then_the_ring_waits_beyond_its_soak_and_goes_back(
    words: str, stage: int, *, is_cordoned: bool
) -> None:
    rolled = begun(200)
    soaking = rolled.until("soaking", stage)
    over = soaking.step_since + soaking.soak
    fall_ill(rolled, TARGET, is_cordoned=is_cordoned)
    rolled.live()
    assert rolled.rollout is not None
    assert rolled.rollout.reason == f"until {over.isoformat(timespec='seconds')}; {words}"
    while rolled.now < over + DATA_PATIENCE:
        rolled.live()
    assert (rolled.rollout.step, rolled.rollout.stage, rolled.rollout.reason) == ("soaking", stage, words)
    assert rolled.until_over().reason == f"at {stage} %: {words}"
    assert rolled.places() == {SOURCE: 200}
    assert rolled.states() == {SOURCE: "accepting", TARGET: "drained"}


@pytest.mark.parametrize("is_cordoned", [False, True])
def test_new_instance_when_it_is_well_again_after_its_soak_then_the_rollout_goes_on(*, is_cordoned: bool) -> None:
    rolled = begun()
    soaking = rolled.until("soaking", 100)
    fall_ill(rolled, TARGET, is_cordoned=is_cordoned)
    while rolled.now < soaking.step_since + soaking.soak + DATA_PATIENCE - EVERY:
        rolled.live()
    rolled.cordoned = {}
    rolled.hear(TARGET, Health.HEALTHY, "", since=rolled.now)
    assert rolled.until_over().step == "done"


def out_of_reach_beyond_the_soak() -> Rolled:
    """Nobody reaches the new instance while its stage soaks, and for an hour longer; then somebody does."""
    rolled = begun(200)
    soaking = rolled.until("soaking", 10)
    rolled.hear(TARGET, Health.DOWN, "Closed", since=rolled.now)
    while rolled.now < soaking.step_since + soaking.soak + timedelta(hours=1):
        rolled.live()
    rolled.hear(TARGET, Health.HEALTHY, "", since=rolled.now)
    return rolled


def live_for(rolled: Rolled, time: timedelta) -> None:
    until = rolled.now + time
    while rolled.now < until:
        rolled.live()


def test_new_instance_when_it_is_back_after_the_soak_then_half_an_hour_is_left_to_lift_its_cordon() -> None:
    rolled = out_of_reach_beyond_the_soak()
    rolled.cordoned = CORDONED
    live_for(rolled, DATA_PATIENCE)
    assert rolled.rollout is not None
    assert (rolled.rollout.step, rolled.rollout.stage) == ("soaking", 10)
    rolled.cordoned = {}
    assert rolled.until_over().step == "done"


def test_new_instance_when_it_is_back_after_the_soak_and_stays_ill_then_the_ring_goes_back_in_half_an_hour() -> None:
    rolled = out_of_reach_beyond_the_soak()
    rolled.cordoned = CORDONED
    live_for(rolled, DATA_PATIENCE + EVERY)
    assert rolled.rollout is not None
    assert rolled.rollout.reason == f"at 10 %: engine instance {TARGET} is cordoned: {CORDONED[TARGET]}"


def test_new_instance_when_it_is_back_after_the_soak_then_figures_are_waited_for_as_long_as_ever() -> None:
    rolled = out_of_reach_beyond_the_soak()
    rolled.figures = lambda _: NO_FIGURES
    live_for(rolled, DATA_PATIENCE)
    assert rolled.rollout is not None
    assert rolled.rollout.step == "soaking"
    rolled.live()
    assert "too little was told in 1:35:00: " in rolled.rollout.reason


def test_new_instance_when_another_gets_well_again_and_again_then_one_that_stays_ill_is_not_waited_for_longer() -> None:
    rolled = Rolled.of({"general": (1, 2)}, 60)
    rolled.live(START)
    soaking = rolled.until("soaking", 100)
    fall_ill(rolled, TARGET)
    over = soaking.step_since + soaking.soak
    while rolled.now < over + DATA_PATIENCE:
        rolled.hear("general-new-1", Health.HEALTHY, "", since=rolled.now)
        rolled.live()
    rolled.live()
    assert rolled.rollout is not None
    assert rolled.rollout.reason == f"at 100 %: engine instance {TARGET} is Degraded: Restarting"


@pytest.mark.parametrize("reason", ["CertificateExpired", "CertificateExpiring"])
def test_new_instance_when_it_is_degraded_and_does_its_work_then_the_rollout_goes_on(reason: str) -> None:
    rolled = begun()
    rolled.hear(TARGET, Health.DEGRADED, reason)
    assert rolled.until_over().step == "done"


@pytest.mark.parametrize("is_security", [False, True])
@pytest.mark.parametrize("stage", [1, 100])
def test_new_instance_when_the_old_one_is_as_ill_then_the_ring_waits_until_both_are_well(
    stage: int, *, is_security: bool
) -> None:
    """The new one is cordoned for as long as it takes to be sure of it; the old one never was."""
    rolled = Rolled.of(ONE_RING)
    rolled.live(replace(START, is_security=is_security))
    rolled.until("soaking", stage)
    fall_ill(rolled, SOURCE, TARGET)
    fall_ill(rolled, TARGET, is_cordoned=True)
    for _ in range(240):
        rolled.live()
    assert rolled.rollout is not None
    assert (rolled.rollout.step, rolled.rollout.stage) == ("soaking", stage)
    assert rolled.rollout.reason == f"engine instance {TARGET} is Degraded: Restarting"
    assert rolled.rollout.is_stalled(rolled.now)
    for name in (SOURCE, TARGET):
        rolled.hear(name, Health.HEALTHY, "", since=rolled.now)
    for _ in range(20):
        rolled.live()
    assert rolled.rollout.reason == f"engine instance {TARGET} is cordoned: {CORDONED[TARGET]}"
    rolled.cordoned = {}
    assert rolled.until_over().step == "done"


def test_new_instance_when_the_old_one_alone_is_well_again_then_the_ring_goes_back_after_a_while() -> None:
    rolled = begun()
    rolled.until("soaking", 1)
    fall_ill(rolled, SOURCE, TARGET)
    for _ in range(60):
        rolled.live()
    well_at = rolled.now
    rolled.hear(SOURCE, Health.HEALTHY, "", since=well_at)
    while rolled.now < well_at + DATA_PATIENCE:
        rolled.live()
    assert rolled.rollout is not None
    assert rolled.rollout.step == "soaking"
    over = rolled.until_over()
    assert (over.step, over.reason) == ("failed", f"at 1 %: engine instance {TARGET} is Degraded: Restarting")


def test_new_instance_when_an_old_one_of_another_cell_is_ill_with_it_then_the_ring_goes_back() -> None:
    rolled = Rolled.of_cells(20)
    rolled.live(START)
    rolled.until("soaking", 100)
    fall_ill(rolled, "north-old", "south-new")
    over = rolled.until_over()
    assert (over.step, over.reason) == ("failed", "at 100 %: engine instance south-new is Degraded: Restarting")


def test_new_instance_when_it_is_ill_at_the_last_moment_then_no_old_one_is_given_up_before_it_is_well() -> None:
    rolled = begun(20)
    rolled.until("retiring")
    fall_ill(rolled, TARGET)
    for _ in range(int(STALLED_AFTER / EVERY) + 5):
        rolled.live()
    assert rolled.rollout is not None
    assert (rolled.rollout.step, rolled.rollout.reason) == (
        "retiring", f"engine instance {TARGET} is Degraded: Restarting",
    )  # fmt: skip
    assert (rolled.rollout.is_stalled(rolled.now), rolled.states()[SOURCE]) == (True, "drained")
    rolled.hear(TARGET, Health.HEALTHY, "")
    assert rolled.until_over().step == "done"
    assert rolled.states()[SOURCE] == "retired"


def test_rollout_when_aborted_as_a_new_instance_is_ill_at_the_last_moment_then_it_ends_and_the_old_one_is_kept() -> (
    None
):
    rolled = begun(20)
    rolled.until("retiring")
    fall_ill(rolled, TARGET)
    rolled.live(AbortRollout())
    over = rolled.until_over(most=int(STALLED_AFTER / EVERY) + 2)
    assert over.reason.endswith(f"left as it is: engine instance {TARGET} is Degraded: Restarting")
    assert (over.step, rolled.states()) == ("aborted", {SOURCE: "drained", TARGET: "accepting"})


def test_tenant_when_it_cannot_move_then_the_others_do_and_the_rollout_pauses_with_the_rule() -> None:
    rolled = begun(20)
    name = ("local", "team-7")
    rolled.until("moving", 1)
    rolled.tenants[name] = replace(rolled.tenants[name], deployments=5000)
    rolled.until("moving", 100)
    for _ in range(int(STALLED_AFTER / EVERY) + 40):
        rolled.live()
    rollout = rolled.rollout
    assert rollout is not None
    assert rollout.is_paused
    assert "no tenant has arrived for 1:00:00" in rollout.reason
    assert "local/team-7: engine instance general-new-0 has room for" in rollout.reason
    assert rolled.places() == {SOURCE: 1, TARGET: 19}
    rolled.instances["large"], rolled.health["large"] = instance("large", capacity=6000), told("large", NEW)
    rolled.live(ResumeRollout())
    assert rolled.until_over().step == "done"
    assert rolled.places() == {TARGET: 19, "large": 1}


def test_tenant_when_it_has_no_room_while_the_old_instance_is_given_up_then_it_goes_to_one_that_joins() -> None:
    rolled = begun(20)
    name = ("local", "team-7")
    rolled.until("draining")
    rolled.tenants[name] = replace(rolled.tenants[name], deployments=5000, engine_instance_id=SOURCE)
    for _ in range(20):
        rolled.live()
    assert rolled.rollout is not None
    assert "local/team-7: engine instance general-new-0 has room for" in rolled.rollout.reason
    rolled.instances["large"], rolled.health["large"] = instance("large", capacity=6000), told("large", NEW)
    assert rolled.until_over().step == "done"
    assert rolled.places() == {TARGET: 19, "large": 1}


def test_ring_when_room_lacks_while_the_old_instance_is_given_up_and_it_has_a_pool_then_an_instance_is_ordered() -> (
    None
):
    rolled = begun(20)
    rolled.pools = {POOL.key: replace(POOL, capacity=6000)}
    rolled.until("draining")
    name = ("local", "team-7")
    rolled.tenants[name] = replace(rolled.tenants[name], deployments=5000, engine_instance_id=SOURCE)
    rolled.live()
    rolled.install()
    assert rolled.until_over().step == "done"
    assert rolled.places() == {TARGET: 19, "north-general-1": 1}


def test_ring_when_room_lacks_after_tenants_have_moved_and_it_has_a_pool_then_another_instance_is_ordered() -> None:
    rolled = begun(20)
    rolled.pools = {POOL.key: replace(POOL, capacity=6000)}
    rolled.until("soaking", 1)
    rolled.tenants["local", "team-7"] = replace(rolled.tenants["local", "team-7"], deployments=5000)
    rolled.until("moving", 100)
    rolled.live()
    rolled.install()
    assert rolled.until_over().step == "done"
    assert rolled.places() == {TARGET: 19, "north-general-1": 1}


def test_ring_when_its_tenants_are_on_their_way_then_they_count_once_and_no_instance_is_ordered_for_them() -> None:
    rolled = installed(3)
    new = {name for name in rolled.instances if "old" not in name}
    assert len(new) == 3
    rolled.until("moving", 100)
    for _ in range(3):
        rolled.look()
        rolled.now += EVERY
    assert len(rolled.moves) > 20
    assert {name for name in rolled.instances if "old" not in name} == new


@pytest.mark.parametrize("sort", ["old", "new"])
def test_ring_when_tenants_go_from_one_instance_to_another_of_their_sort_then_they_count_once(sort: str) -> None:
    rolled = Rolled.of({"general": (2, 2)}, 10)
    rolled.instances = {
        name: replace(row, capacity=30 if "new" in name else 60) for name, row in rolled.instances.items()
    }
    rolled.pools = {POOL.key: replace(POOL, maximum=9)}
    rolled.live(START)
    source, target = f"general-{sort}-0", f"general-{sort}-1"
    leaving = [name for name, each in rolled.tenants.items() if each.engine_instance_id == "general-old-0"]
    for name in leaving:
        rolled.tenants[name] = replace(rolled.tenants[name], engine_instance_id=source)
    for name in leaving:
        rolled.look(MoveTenant(*name, target))
    assert len(rolled.moves) > 5
    for _ in range(3):
        rolled.now += EVERY
        rolled.look()
    assert len(rolled.instances) == 4


def test_ring_when_a_new_instance_is_down_before_tenants_move_then_it_is_waited_for_and_none_is_ordered() -> None:
    rolled = Rolled.of({"general": (1, 1)}, 10)
    rolled.pools = {POOL.key: POOL}
    rolled.hear(TARGET, Health.DOWN)
    rolled.live(START)
    for _ in range(3):
        rolled.live()
    assert rolled.instances.keys() == {SOURCE, TARGET}
    assert rolled.rollout is not None
    assert rolled.rollout.reason.endswith(f"has room for 0: engine instance {TARGET} is down: ControllerNotReady")


def test_ring_when_a_spare_instance_has_failed_then_the_others_are_enough() -> None:
    rolled = Rolled.of({"general": (1, 0)}, 10)
    rolled.pools = {POOL.key: replace(POOL, maximum=2, spare=1)}
    rolled.live(START)
    rolled.live()
    rolled.health["north-general-1"] = told("north-general-1", NEW)
    assert rolled.until_over().step == "done"
    assert (rolled.places(), rolled.states()["north-general-2"]) == ({"north-general-1": 10}, "failed")


def test_pool_when_set_to_another_version_while_the_old_instances_are_given_up_then_it_is_refused() -> None:
    rolled = begun(5)
    rolled.pools = {POOL.key: POOL}
    rolled.until("draining")
    wanted = SetEnginePool("north", "general", 1, 5, 0, 30, OLD, "")
    (record,) = rolled.look(wanted).fleet_orders
    assert (record.outcome, record.message) == (
        "refused",
        "ring general is being rolled out, and what its pools add is 3.2.11 until that is over "
        "('gitopsctl engines rollout status'): give that '--version' and '--profile'",
    )
    (record,) = rolled.look(replace(wanted, version=NEW)).fleet_orders
    assert record.outcome == "accepted"


def test_pool_when_the_old_instances_were_given_up_by_a_former_release_then_it_is_of_the_version_all_the_same() -> None:
    rolled = begun(5)
    retiring = rolled.until("retiring")
    rolled.pools = {POOL.key: POOL}
    rolled.rollout = retiring
    assert rolled.until_over().step == "done"
    assert rolled.pools[POOL.key].version == NEW


def test_ring_when_a_new_instance_is_down_after_tenants_have_moved_then_none_is_ordered_for_it() -> None:
    rolled = begun(20)
    rolled.pools = {POOL.key: POOL}
    rolled.until("moving", 100)
    rolled.hear(TARGET, Health.UNKNOWN, "AgentSilent")
    for _ in range(5):
        rolled.live()
    assert rolled.instances.keys() == {SOURCE, TARGET}


def test_ring_when_it_goes_back_then_instances_that_have_joined_it_since_are_drained_too() -> None:
    rolled = begun(20)
    rolled.until("soaking", 1)
    rolled.instances["late"], rolled.health["late"] = instance("late"), told("late", NEW)
    rolled.figures = lambda _: BAD
    assert rolled.until_over().step == "failed"
    assert rolled.states() == {SOURCE: "accepting", TARGET: "drained", "late": "drained"}


def test_tenant_when_it_comes_to_an_old_instance_in_the_last_moment_then_it_moves_before_that_is_given_up() -> None:
    rolled = begun(5)
    rolled.until("retiring")
    rolled.tenants["local", "late"] = replace(
        rolled.tenants["local", "team-1"], id=UUID(int=99), engine_instance_id=SOURCE
    )
    assert rolled.until_over().step == "done"
    assert rolled.places() == {TARGET: 6}


AGAINST = {
    "to the new one": MoveTenant("local", "team-1", TARGET),
    "out of the ring": MoveTenant("local", "team-1", "canary-old-0"),
}


@pytest.mark.parametrize("order", AGAINST.values(), ids=AGAINST)
def test_move_when_ordered_by_somebody_else_then_the_rollout_is_not_worked_against(order: MoveTenant) -> None:
    rolled = Rolled.of({"general": (2, 1), "canary": (1, 0)}, 5)
    rolled.instances["canary-old-0"] = replace(rolled.instances["canary-old-0"], ring="early")
    rolled.live(replace(START, rings=("general",)))
    rolled.until("soaking")
    rolled.tenants["local", "team-1"] = replace(rolled.tenants["local", "team-1"], engine_instance_id=SOURCE)
    (record,) = rolled.look(order).fleet_orders
    assert record.outcome == "refused"
    assert "ring general is being rolled out, which moves its tenants" in record.message


def test_move_when_it_is_between_two_old_instances_then_anybody_may_order_it() -> None:
    rolled = Rolled.of({"general": (2, 1)}, 5)
    rolled.live(START)
    rolled.until("soaking")
    name, _ = next((name, each) for name, each in rolled.tenants.items() if each.engine_instance_id == SOURCE)
    (record,) = rolled.look(MoveTenant(*name, "general-old-1")).fleet_orders
    assert record.outcome == "accepted"


@pytest.mark.parametrize(("version", "outcome"), [(OLD, "accepted"), (NEW, "refused")])
def test_move_when_it_is_to_an_instance_that_has_joined_since_then_it_is_among_those_of_its_release(
    version: str, outcome: str
) -> None:
    rolled = begun()
    rolled.until("soaking")
    rolled.join(instance("late"), version)
    name = next(name for name, each in rolled.tenants.items() if each.engine_instance_id == SOURCE)
    (record,) = rolled.look(MoveTenant(*name, "late")).fleet_orders
    assert record.outcome == outcome


@pytest.mark.parametrize(
    "target", ["canary-old-0", "general-old-1", TARGET], ids=["out of the ring", "to an old one", "to the new one"]
)
def test_move_when_it_is_from_an_instance_that_is_down_then_it_may_go_anywhere(target: str) -> None:
    rolled = Rolled.of({"general": (2, 1), "canary": (1, 0)}, 5)
    rolled.live(replace(START, rings=("general",)))
    rolled.until("soaking")
    rolled.hear(SOURCE, Health.DOWN)
    name, _ = next((name, each) for name, each in rolled.tenants.items() if each.engine_instance_id == SOURCE)
    (record,) = rolled.look(MoveTenant(*name, target)).fleet_orders
    assert record.outcome == "accepted"


def lose(rolled: Rolled, *names: str) -> None:
    """Nobody can do anything there any more."""
    for name in names:
        rolled.hear(name, Health.DOWN, "ApiFailing")


def live_evacuated(rolled: Rolled, looks: int = 2000) -> None:
    """While tenants leave what is down; until it is over, or for so many looks."""
    for _ in range(looks):
        if rolled.rollout is None or rolled.rollout.is_over:
            return
        rolled.evacuate()
        rolled.live()


def test_old_instance_when_it_is_lost_then_the_new_one_has_its_tenants_and_soaks_anew_and_the_rollout_goes_on() -> None:
    rolled = begun(20)
    rolled.until("soaking", 1)
    lose(rolled, SOURCE)
    while rolled.places()[TARGET] < 20:
        live_evacuated(rolled, 1)
    arrived_at = rolled.now
    draining = rolled.until("draining")
    assert draining.step_since - arrived_at >= draining.soak
    over = rolled.until_over()
    assert (over.step, over.reason) == ("done", "")
    assert rolled.states() == {SOURCE: "draining", TARGET: "accepting"}


def test_old_instance_when_it_is_lost_and_the_new_one_fails_its_gate_then_who_is_there_stays_and_it_ends() -> None:
    rolled = begun(20)
    rolled.until("soaking", 1)
    lose(rolled, SOURCE)
    live_evacuated(rolled, 20)
    rolled.figures = lambda _: BAD
    over = rolled.until_over()
    assert over.step == "failed"
    assert over.reason.startswith("at 1 %: engine instance general-new-0: Applications of 5.0 of 5.0 tenants fail")
    assert "left as it is: tenants on new instances: 20, on their way: 0" in over.reason
    assert rolled.places() == {TARGET: 20}
    assert rolled.states()[TARGET] == "accepting"


def test_old_instance_when_it_is_lost_and_another_works_then_that_one_has_its_tenants() -> None:
    rolled = Rolled.of({"general": (2, 1)}, 10)
    rolled.live(START)
    rolled.until("soaking", 1)
    lose(rolled, SOURCE)
    live_evacuated(rolled, 20)
    assert {move.target for move in rolled.moves.values() if move.source == SOURCE} == {"general-old-1"}
    assert rolled.places()[SOURCE] == 0
    rolled.hear(SOURCE, Health.HEALTHY, "")
    assert rolled.until_over().step == "done"
    assert rolled.places() == {TARGET: 20}
    assert rolled.states() == {SOURCE: "retired", "general-old-1": "retired", TARGET: "accepting"}


def test_rollout_when_aborted_and_no_old_instance_is_left_then_it_ends_and_the_new_one_takes_tenants() -> None:
    rolled = begun(20)
    rolled.until("soaking", 1)
    lose(rolled, SOURCE)
    rolled.live(AbortRollout())
    rolled.live()
    assert rolled.states()[TARGET] == "accepting"
    over = rolled.until_over(most=int(STALLED_AFTER / EVERY) + 1)
    assert (over.step, over.reason) == (
        "aborted",
        "an operator has aborted it; nothing has got on for 1:00:00, and left as it is: tenants on new instances: 2, "
        "on their way: 0; local/team-11: no instance of ring general in cluster north can have it",
    )
    assert rolled.states() == {SOURCE: "accepting", TARGET: "accepting"}
    (record,) = rolled.look(START).fleet_orders
    assert record.outcome == "accepted"


def test_new_instance_when_an_operator_has_drained_it_and_no_old_one_is_left_then_it_stays_drained() -> None:
    rolled = begun(20)
    rolled.until("soaking", 1)
    rolled.live(DrainEngineInstance(TARGET))
    lose(rolled, SOURCE)
    rolled.live(AbortRollout())
    rolled.live()
    assert rolled.rollout is not None
    assert (rolled.rollout.step, rolled.states()[TARGET]) == ("reverting", "draining")


def test_ring_when_it_goes_back_and_its_old_instance_is_lost_for_a_while_then_all_go_back_when_it_is_found() -> None:
    rolled = begun(20)
    rolled.until("soaking", 100)
    rolled.live(AbortRollout())
    lose(rolled, SOURCE)
    for _ in range(30):
        rolled.live()
    assert rolled.rollout is not None
    assert rolled.rollout.reason.startswith("an operator has aborted it; it waits: tenants on new instances: ")
    rolled.hear(SOURCE, Health.HEALTHY, "")
    over = rolled.until_over()
    assert (over.step, over.reason) == ("aborted", "an operator has aborted it")
    assert rolled.places() == {SOURCE: 20}
    assert rolled.states() == {SOURCE: "accepting", TARGET: "drained"}


def test_ring_when_it_goes_back_from_an_instance_that_is_lost_then_it_ends_and_names_what_is_left() -> None:
    rolled = begun(20)
    rolled.until("soaking", 100)
    rolled.live(AbortRollout())
    lose(rolled, TARGET)
    over = rolled.until_over(most=200)
    assert (over.step, over.moved) == ("aborted", rolled.places()[TARGET])
    assert f"tenants on new instances: {over.moved}, on their way: " in over.reason
    assert not [move for move in rolled.moves.values() if move.step == "ordered"]


def test_rollout_when_aborted_while_something_stays_on_an_old_instance_then_it_ends_and_its_pool_is_new() -> None:
    rolled = begun(5)
    rolled.pools = {POOL.key: POOL}
    rolled.until("draining")
    rolled.tenants["local", "late"] = replace(
        rolled.tenants["local", "team-1"], id=UUID(int=99), engine_instance_id=SOURCE
    )
    lose(rolled, SOURCE)
    rolled.live(AbortRollout())
    over = rolled.until_over(most=int(STALLED_AFTER / EVERY) + 2)
    assert over.step == "aborted"
    assert over.reason.endswith(f"left as it is: something is on engine instance {SOURCE} yet")
    assert rolled.states() == {SOURCE: "draining", TARGET: "accepting"}
    assert rolled.pools[POOL.key].version == NEW


def test_moves_when_an_instance_is_lost_for_an_hour_then_the_rollout_pauses_and_names_it() -> None:
    rolled = begun(60)
    rolled.until("moving", 100)
    lose(rolled, SOURCE)
    for _ in range(int(STALLED_AFTER / EVERY) + 2):
        rolled.live()
    assert rolled.rollout is not None
    assert rolled.rollout.is_paused
    assert rolled.rollout.reason == (
        f"no tenant has arrived for 1:00:00; resume, or abort: engine instance {SOURCE} is down: ApiFailing"
    )


def test_moves_when_a_rollout_is_paused_then_those_that_leave_a_dead_instance_go_on() -> None:
    rolled = begun(60)
    rolled.until("soaking", 1)
    lose(rolled, SOURCE)
    rolled.evacuate()
    rolled.live(PauseRollout())
    for _ in range(60):
        rolled.live()
    assert rolled.places() == {TARGET: 60}


def test_new_instance_when_it_is_down_and_another_is_silent_then_the_ring_goes_back() -> None:
    rolled = Rolled.of({"general": (1, 2)})
    rolled.live(START)
    rolled.until("soaking", 1)
    rolled.hear(TARGET, Health.UNKNOWN, "AgentSilent")
    rolled.hear("general-new-1", Health.DOWN)
    rolled.look()
    assert rolled.rollout is not None
    assert (rolled.rollout.step, rolled.rollout.reason) == (
        "reverting", "at 1 %: engine instance general-new-1 is down: ControllerNotReady",
    )  # fmt: skip


def test_new_instance_when_it_is_down_and_of_the_old_ones_only_one_that_is_lost_and_empty_then_the_ring_goes_back() -> (
    None
):
    rolled = Rolled.of({"general": (2, 1)}, 10)
    rolled.live(START)
    rolled.until("soaking", 1)
    lose(rolled, SOURCE)
    while rolled.places()[SOURCE]:
        live_evacuated(rolled, 1)
    rolled.hear(TARGET, Health.DOWN)
    rolled.look()
    assert rolled.rollout is not None
    assert (rolled.rollout.step, rolled.rollout.outcome) == ("reverting", "failed")


def test_new_instance_when_an_empty_old_one_is_down_with_it_then_the_cause_is_shared() -> None:
    rolled = begun()
    rolled.until("soaking", 100)
    lose(rolled, SOURCE, TARGET)
    rolled.live()
    assert rolled.rollout is not None
    assert (rolled.rollout.step, rolled.rollout.reason) == (
        "soaking", f"engine instance {SOURCE} is down: ApiFailing",
    )  # fmt: skip


OF_CELLS = {f"{cell}-{word}": word for cell in CELLS for word in ("old", "new")}


@pytest.mark.parametrize(("figures", "step", "word"), [(WELL, "done", "new"), (BAD, "failed", "old")])
def test_cells_when_a_ring_has_several_then_nobody_leaves_their_cell_there_or_back(
    figures: Figures, step: str, word: str
) -> None:
    rolled = Rolled.of_cells(20)
    homes = {name: each.engine_instance_id.split("-")[0] for name, each in rolled.tenants.items()}
    rolled.live(START)
    rolled.until("soaking", 100)
    rolled.figures = lambda _: figures
    assert rolled.until_over().step == step
    assert rolled.places() == {name: 20 for name, each in OF_CELLS.items() if each == word}
    assert {name: each.engine_instance_id.split("-")[0] for name, each in rolled.tenants.items()} == homes
    ways = {(move.source.split("-")[0], move.target.split("-")[0]) for move in rolled.ended}
    assert ways == {(cell, cell) for cell in CELLS}


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("north", "shared instances of 3.2.11 in cluster north"),
        ("south", "shared instances of 3.2.11 in cluster south"),
        ("acme", "dedicated instances of 3.2.11 in cluster north for workspace acme"),
    ],
)
def test_cells_when_one_lacks_room_then_the_ring_waits_though_others_have_it(cell: str, words: str) -> None:
    rolled = Rolled.of_cells(20)
    rolled.live(START)
    small = rolled.instances[f"{cell}-new"]
    rolled.instances[small.id] = replace(small, capacity=30)
    for _ in range(5):
        rolled.live()
    assert rolled.rollout is not None
    assert (rolled.rollout.step, rolled.rollout.reason) == (
        "provisioning",
        f"ring general needs {words} with room for 40 Applications, and has room for 30: 'gitopsctl engines add' adds "
        "one",
    )
    rolled.instances[small.id] = small
    assert rolled.until_over().step == "done"


@pytest.mark.parametrize("stage", [1, 100])
@pytest.mark.parametrize("reason", ["ApiFailing", "AgentSilent", "RepoServerFailing"])
def test_cells_when_all_instances_of_a_cluster_are_down_then_the_ring_waits_until_they_are_back(
    reason: str, stage: int
) -> None:
    """At the last stage nobody is on the old ones, and those of the other cluster work."""
    rolled = Rolled.of_cells(20)
    rolled.live(START)
    rolled.until("soaking", stage)
    before = rolled.places()
    for name in ("south-old", "south-new"):
        rolled.hear(name, Health.DOWN, reason)
    for _ in range(30):
        rolled.live()
    assert rolled.rollout is not None
    assert (rolled.rollout.step, rolled.rollout.stage, rolled.places()) == ("soaking", stage, before)
    assert rolled.rollout.reason.startswith("engine instance south-")
    for name in ("south-old", "south-new"):
        rolled.hear(name, Health.HEALTHY, "", since=rolled.now)
    assert rolled.until_over().step == "done"


def test_cells_when_a_new_instance_is_down_and_its_own_old_one_works_then_the_ring_goes_back() -> None:
    """Whatever is wrong with another cluster, while nobody is on the old ones there."""
    rolled = Rolled.of_cells(20)
    rolled.live(START)
    rolled.until("soaking", 100)
    lose(rolled, "south-old", "south-new")
    rolled.hear("acme-new", Health.DOWN)
    rolled.look()
    assert rolled.rollout is not None
    assert (rolled.rollout.step, rolled.rollout.reason) == (
        "reverting", "at 100 %: engine instance acme-new is down: ControllerNotReady",
    )  # fmt: skip


def without_old_in_south(tenants: int = 20) -> Rolled:
    """The instance there is of the version already, with tenants, and has none of before beside it."""
    rolled = Rolled.of_cells(tenants)
    del rolled.instances["south-old"], rolled.health["south-old"]
    rolled.tenants = {
        name: replace(each, engine_instance_id="south-new") if each.engine_instance_id == "south-old" else each
        for name, each in rolled.tenants.items()
    }
    rolled.live(START)
    return rolled


@pytest.mark.parametrize(
    ("health", "reason", "words"),
    [(Health.DEGRADED, "ApiSlow", "Degraded"), (Health.DOWN, "ControllerNotReady", "down")],
)
def test_cells_when_one_has_no_old_instance_then_the_ring_waits_until_its_new_one_is_well(
    health: Health, reason: str, words: str
) -> None:
    rolled = without_old_in_south()
    rolled.until("soaking", 10)
    rolled.hear("south-new", health, reason)
    for _ in range(120):
        rolled.live()
    assert rolled.rollout is not None
    assert (rolled.rollout.step, rolled.rollout.reason) == (
        "soaking", f"engine instance south-new is {words}: {reason}",
    )  # fmt: skip
    assert rolled.rollout.is_stalled(rolled.now)
    rolled.hear("south-new", Health.HEALTHY, "")
    assert rolled.until_over().step == "done"


@pytest.mark.parametrize(
    ("health", "reason", "words"),
    [(Health.DEGRADED, "Restarting", "Degraded"), (Health.DOWN, "ControllerNotReady", "down")],
)
def test_cells_when_one_has_no_old_instance_then_a_new_one_that_has_is_to_blame_all_the_same(
    health: Health, reason: str, words: str
) -> None:
    rolled = without_old_in_south()
    rolled.until("soaking", 10)
    for name in ("north-new", "south-new"):
        rolled.hear(name, health, reason)
    over = rolled.until_over()
    assert (over.step, over.reason) == ("failed", f"at 10 %: engine instance north-new is {words}: {reason}")


def test_cells_when_one_has_no_old_instance_and_the_ring_goes_back_then_nobody_waits_for_its_tenants() -> None:
    rolled = without_old_in_south()
    rolled.until("soaking", 100)
    rolled.live(AbortRollout())
    over = rolled.until_over(most=int(STALLED_AFTER / EVERY) - 1)
    assert (over.step, over.reason, over.moved) == ("aborted", "an operator has aborted it", 0)
    assert rolled.places() == {"north-old": 20, "south-new": 20, "acme-old": 20}
    assert (rolled.states()["north-new"], rolled.states()["south-new"]) == ("drained", "accepting")


@pytest.mark.parametrize(
    ("changes", "minutes", "expected"),
    [
        ({"step": "provisioning"}, 59, False),
        ({"step": "provisioning"}, 60, True),
        ({"step": "soaking"}, 60, False),
        ({"step": "soaking"}, 65, True),
        ({"step": "draining", "moved_at": at(3600)}, 119, False),
        ({"step": "draining", "moved_at": at(3600)}, 120, True),
        ({"step": "moving", "is_paused": True}, 600, False),
        ({"step": "failed"}, 600, False),
    ],
)
def test_rollout_when_nothing_has_got_on_for_an_hour_beside_its_soak_then_it_is_stalled(
    changes: dict[str, Any], minutes: int, *, expected: bool
) -> None:
    rollout = begun().rollout
    assert rollout is not None
    known = replace(rollout, **{"step_since": at(0), "moved_at": at(0), **changes})
    assert known.is_stalled(at(0) + timedelta(minutes=minutes)) is expected


def test_rebalance_when_a_ring_is_rolled_out_then_it_leaves_that_alone_and_evens_the_others() -> None:
    rolled = Rolled.of({"general": (1, 1), "early": (1, 1)}, 20)
    rolled.live(replace(START, rings=("general",)))
    rolled.until("soaking")
    assert held_by_rollout(rolled.fleet) == {SOURCE, TARGET}
    changes = rolled.look(RebalanceFleet())
    assert {(move.source, move.target) for move in changes.moves_ordered} == {("early-old-0", "early-new-0")}


def test_rebalance_when_a_ring_waits_for_its_turn_or_the_rollout_is_aborted_then_nobody_goes_to_the_release() -> None:
    rolled = Rolled.of({"canary": (1, 1), "general": (2, 1)}, 20)
    rolled.live(START)
    rolled.until("soaking")
    assert rolled.look(RebalanceFleet()).moves_ordered == ()
    rolled.live(AbortRollout())
    rolled.until_over()
    assert rolled.look(RebalanceFleet()).moves_ordered == ()
    rolled.rollout = None
    changes = rolled.look(RebalanceFleet())
    assert {move.target for move in changes.moves_ordered} == {TARGET}


def test_trial_when_a_ring_comes_to_its_turn_then_its_new_instances_are_on_it_until_the_ring_is_theirs() -> None:
    rolled = Rolled.of({"canary": (1, 1), "general": (1, 1)}, 20)
    rolled.live(START)
    seen: list[tuple[str, set[str]]] = []
    while rolled.rollout is not None and not rolled.rollout.is_over:
        at_step = (rolled.rollout.ring, set(on_trial(rolled.fleet)))
        if at_step not in seen:
            seen.append(at_step)
        rolled.live()
    assert seen == [
        ("canary", {"canary-new-0", TARGET}), ("canary", {TARGET}), ("general", {TARGET}), ("general", set()),
    ]  # fmt: skip


def test_tenants_when_their_instance_is_lost_before_any_gate_then_they_go_to_the_release_if_nowhere_else() -> None:
    rolled = Rolled.of({"general": (2, 1)}, 20)
    rolled.live(START)
    assert rolled.rollout is not None
    assert rolled.rollout.step == "provisioning"
    lose(rolled, SOURCE)
    rolled.evacuate()
    assert Counter(move.target for move in rolled.moves.values()) == {"general-old-1": 20}
    rolled.moves.clear()
    lose(rolled, "general-old-1")
    rolled.evacuate()
    assert Counter(move.target for move in rolled.moves.values()) == {TARGET: 40}


@pytest.mark.parametrize(
    ("stage", "tenants", "fewest"),
    [(1, 0, 0), (1, 1, 1), (1, 200, 1), (10, 30, 2), (10, 200, 10), (100, 200, 180), (100, 170, 170)],
)
def test_number_of_tenants_when_a_stage_has_soaked_then_half_of_them_are_enough_but_for_the_last_one(
    stage: int, tenants: int, fewest: int
) -> None:
    assert fewest_tenants(stage, replace(begun().until("moving"), moved=180), tenants) == fewest


def test_number_of_tenants_when_a_stage_is_a_part_of_one_then_there_are_two_unless_the_ring_has_but_one() -> None:
    assert [stage_tenants(1, each) for each in (0, 1, 2, 100, 201, 1000)] == [0, 1, 2, 2, 3, 10]


LOOKS = st.lists(
    st.tuples(
        st.sampled_from(["well", "well", "well", "well", "well", "bad", "silent"]),
        st.sampled_from([None, None, None, None, None, None, PauseRollout(), ResumeRollout(), AbortRollout()]),
        st.booleans(),
    ),
    max_size=60,
)


@settings(max_examples=in_proportion(150), deadline=None)
@given(
    rings=st.dictionaries(
        st.sampled_from(["canary", "early", "general"]), st.tuples(st.integers(1, 2), st.integers(1, 2)), min_size=1
    ),
    tenants=st.integers(0, 12),
    looks=LOOKS,
)
def test_rollout_when_gates_say_anything_and_operators_anything_then_it_ends_and_nobody_moves_more_than_there_and_back(
    rings: dict[str, tuple[int, int]], tenants: int, looks: list[tuple[str, object, bool]]
) -> None:
    rolled = Rolled.of(rings, tenants)
    said = {"well": WELL, "bad": BAD, "silent": NO_FIGURES}
    rolled.live(START)
    for word, order, moves in looks:
        rolled.figures = lambda name, word=word: said[word] if "new" in name else WELL  # type: ignore[misc]
        rolled.look(*([order] if order is not None else []))  # type: ignore[arg-type]
        _require_one_ring(rolled)
        if moves:
            rolled.step_moves()
        rolled.now += EVERY
    rolled.figures = lambda _: WELL
    if rolled.rollout is not None and rolled.rollout.is_paused:
        rolled.live(ResumeRollout())
    over = rolled.until_over()
    assert over.step in ("done", "failed", "aborted")
    _require_ended(rolled, over)


SORTS_OF_HEALTH = st.sampled_from(
    [
        (Health.HEALTHY, ""),
        (Health.DEGRADED, "Restarting"),
        (Health.DOWN, "ApiFailing"),
        (Health.DOWN, "ControllerNotReady"),
        (Health.UNKNOWN, "AgentSilent"),
    ]
)


@settings(max_examples=in_proportion(60), deadline=None)
@given(
    rings=st.dictionaries(
        st.sampled_from(["canary", "general"]), st.tuples(st.integers(1, 2), st.integers(1, 2)), min_size=1
    ),
    tenants=st.integers(0, 6),
    events=st.lists(st.tuples(st.integers(0, 7), SORTS_OF_HEALTH, st.integers(1, 30), st.booleans()), max_size=6),
)
def test_rollout_when_any_instances_are_lost_at_any_time_then_an_abort_ends_it_and_nobody_is_on_what_is_given_up(
    rings: dict[str, tuple[int, int]], tenants: int, events: list[tuple[int, tuple[Health, str], int, bool]]
) -> None:
    rolled = Rolled.of(rings, tenants)
    rolled.live(START)
    for number, (health, reason), looks, is_evacuated in events:
        names = sorted(rolled.instances)
        rolled.hear(names[number % len(names)], health, reason)
        for _ in range(looks):
            if is_evacuated:
                rolled.evacuate()
            rolled.live()
    assert rolled.rollout is not None
    if not rolled.rollout.is_over:
        rolled.live(AbortRollout())
        rolled.until_over()
    assert all(not rolled.instances[place].is_retired for place in rolled.places())


def _require_one_ring(rolled: Rolled) -> None:
    rollout = rolled.rollout
    assert rollout is not None
    rings = {rolled.instances[place].ring for move in rolled.moves.values() for place in (move.source, move.target)}
    assert rings <= {rollout.ring}
    assert all(rolled.instances[move.source].state != "retired" for move in rolled.moves.values())


def _require_ended(rolled: Rolled, over: Rollout) -> None:
    """Whole rings are new or old; each tenant has moved at most once there, and once back."""
    for ring in {row.ring for row in rolled.instances.values()}:
        words = {place.split("-")[1] for place in rolled.places() if place.startswith(ring)}
        assert len(words) <= 1
        assert words <= ({"new"} if over.step == "done" else {"new", "old"})
    done = Counter((move.tenant_id, "new" in move.target) for move in rolled.ended if move.step == "done")
    assert max(done.values(), default=0) <= 1
    there = {tenant for tenant, is_forward in done if is_forward}
    assert {tenant for tenant, is_forward in done if not is_forward} <= there


@pytest.mark.parametrize(
    ("before", "after", "rings"),
    [
        ({}, {"due_at": at(9), "moved": 3, "reason": "it waits"}, ()),
        ({"stage": 1}, {"stage": 10}, ()),
        ({"step": "moving"}, {"step": "soaking"}, ()),
        ({"stage": 10}, {"stage": 100}, ("canary", "general")),
        ({"stage": 100}, {"stage": 100, "step": "reverting"}, ("canary", "general")),
        ({"stage": 100, "step": "retiring"}, {"stage": 100, "step": "done"}, ("canary", "general")),
        ({"ring": "canary", "stage": 100}, {"stage": 0}, ("canary", "general")),
        ({"ring": ""}, {"ring": "canary"}, ("canary", "general")),
    ],
    ids=["nothing new", "a stage before", "another step", "the last stage", "back", "done", "next ring", "first ring"],
)
def test_rollout_when_looked_at_then_rings_of_which_others_take_new_tenants_are_told(
    before: dict[str, Any], after: dict[str, Any], rings: tuple[str, ...]
) -> None:
    rollout = begun().rollout
    assert rollout is not None
    known = replace(rollout, step="moving", rings="canary,general", ring="general", stage=10)
    assert rings_affected(replace(known, **before), replace(known, **after)) == rings


def test_rollout_when_ordered_then_all_its_rings_are_affected_and_none_if_there_is_no_rollout() -> None:
    """Who is of its release and waits for the turn of its ring takes no new tenant from then on."""
    ordered = replace(begun().rollout, rings="early,general", ring="")  # type: ignore[type-var]
    assert rings_affected(None, ordered) == ("early", "general")
    assert rings_affected(None, None) == ()
