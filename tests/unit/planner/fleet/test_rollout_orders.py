"""Orders about rollouts: what each rule accepts, refuses and leaves as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import pytest

from services.common.messages import (
    AbortRollout,
    FleetOrder,
    Health,
    Order,
    PauseRollout,
    ResumeRollout,
    RetireEngineInstance,
    StartRollout,
)
from services.planner.domain.fleet.orders import decide_order
from services.planner.domain.fleet.pools.pool_rows import EnginePool
from tests.unit.planner.fleet.rolled import EVERY, OLD, START, Rolled
from tests.unit.planner.given import at

PAUSE, RESUME, ABORT = PauseRollout(), ResumeRollout(), AbortRollout()
ONE_RING, ROOMLESS = {"general": (1, 1)}, {"general": (1, 0)}
NONE = "no rollout is under way: 'gitopsctl engines rollout status' shows whether there was one, and how it has ended"
CASES: dict[str, tuple[dict[str, tuple[int, int]], Sequence[Order], str, str]] = {
    "of all rings": (
        ONE_RING | {"early": (1, 1)},
        [START],
        "accepted",
        "rings early, general, each stage soaks 0:05:00",
    ),
    "of one ring": (ONE_RING, [replace(START, rings=("general",))], "accepted", "ring general, each stage"),
    "a second one": (
        ONE_RING,
        [START, START],
        "refused",
        "a rollout of 3.2.11 is under way, and there is one at a time: it is ordered; wait for it, or "
        "'gitopsctl engines rollout abort' first",
    ),
    "a second one while the first is paused": (
        ONE_RING,
        [START, PAUSE, START],
        "refused",
        "it is ordered and paused; 'gitopsctl engines rollout resume' it, or 'gitopsctl engines rollout abort' first",
    ),
    "after one was aborted": (ONE_RING, [START, ABORT, START], "accepted", ""),
    "a version that nobody knows": (ONE_RING, [replace(START, version="2.9.0")], "refused", "'2.9.0' is no version of"),
    "a version of any length": (ONE_RING, [replace(START, version="3" * 9999)], "refused", "is no version of argocd"),
    "the present version": (
        ONE_RING | {"general": (0, 1)},
        [START],
        "refused",
        "every instance of ring general runs 3",
    ),
    "another profile of it": (
        {"general": (0, 1)},
        [replace(START, profile="fast")],
        "refused",
        "needs shared instances of 3.2.11 with profile",
    ),
    "a profile that is no name": (ONE_RING, [replace(START, profile="a b")], "refused", "a profile is a DNS label"),
    "a ring that is none": (
        ONE_RING,
        [replace(START, rings=("late",))],
        "refused",
        "there is no ring 'late', only canary, early, general",
    ),
    "an empty ring": (
        ONE_RING,
        [replace(START, rings=("early",))],
        "refused",
        "no engine instance is in ring early: leave it out of --rings",
    ),
    "an empty fleet": ({}, [START], "refused", "there is no engine instance: 'gitopsctl engines add' adds one"),
    "without room": (
        ROOMLESS,
        [START],
        "refused",
        "general needs shared instances of 3.2.11 in cluster north with room",
    ),
    "a soak of years": (
        ONE_RING,
        [replace(START, soak_seconds=10**9)],
        "refused",
        "is between 0 and 24h, not 1000000000s",
    ),
    "a soak of days": (
        ONE_RING,
        [replace(START, soak_seconds=259200)],
        "refused",
        "a soak is between 0 and 24h, not 72h",
    ),
    "a soak that ended before it began": (ONE_RING, [replace(START, soak_seconds=-300)], "refused", "24h, not -5m"),
    "paused": (ONE_RING, [START, PAUSE], "accepted", "moves that have begun go on to their end"),
    "paused twice": (ONE_RING, [START, PAUSE, PAUSE], "unchanged", "it is paused"),
    "resumed": (ONE_RING, [START, PAUSE, RESUME], "accepted", ""),
    "resumed though it goes on": (ONE_RING, [START, RESUME], "unchanged", "it is not paused"),
    "aborted at once": (ONE_RING, [START, ABORT], "accepted", "none of the ring's tenants has moved"),
    "aborted twice": (ONE_RING, [START, ABORT, ABORT], "refused", NONE),
    "paused though there is none": (ONE_RING, [PAUSE], "refused", NONE),
    "resumed though there is none": (ONE_RING, [RESUME], "refused", NONE),
    "aborted though there is none": (ONE_RING, [ABORT], "refused", NONE),
}


@pytest.mark.parametrize(("rings", "orders", "expected", "words"), CASES.values(), ids=CASES)
def test_order_when_it_is_about_a_rollout_then_its_outcome_names_the_rule(
    rings: dict[str, tuple[int, int]], orders: Sequence[Order], expected: str, words: str
) -> None:
    record = Rolled.of(rings, 3).look(*orders).fleet_orders[-1]
    assert record.outcome == expected
    assert words in record.message


def test_order_when_its_version_was_not_tested_then_its_answer_says_so() -> None:
    before = replace(Rolled.of(ONE_RING, 3).fleet, is_tested=lambda engine, version: False)
    decision = decide_order(FleetOrder(UUID(int=1), "ada", at(10), START), before)
    told = "ring general, each stage soaks 0:05:00; 3.2.11 was not tested with this build"
    assert (decision.outcome, decision.message) == ("accepted", told)


def with_profile(of_instance: str, of_pool: str) -> Rolled:
    """Rings early and general; the old instance of that, or its pool, has a profile."""
    rolled = Rolled.of({"early": (1, 1), "general": (1, 1)}, 3)
    old = rolled.instances["general-old-0"]
    rolled.instances[old.id] = replace(old, profile=of_instance or None)
    pool = EnginePool("north", "general", 1, 9, 1, 2500, OLD, of_pool, at(0))
    rolled.pools = {pool.key: pool}
    return rolled


@pytest.mark.parametrize("profiles", [("large", ""), ("", "large"), ("large", "large")])
def test_order_when_a_ring_loses_its_profile_then_its_answer_says_so(profiles: tuple[str, str]) -> None:
    (record,) = with_profile(*profiles).look(START).fleet_orders
    assert (record.outcome, record.message) == (
        "accepted",
        "rings early, general, each stage soaks 0:05:00; no --profile was given: "
        "ring general gets the usual one in place of 'large'",
    )


@pytest.mark.parametrize(
    "order", [replace(START, rings=("general",), profile="large"), replace(START, rings=("early",))], ids=str
)
def test_order_when_no_ring_loses_its_profile_then_its_answer_is_the_usual_one(order: StartRollout) -> None:
    (record,) = with_profile("large", "large").look(order).fleet_orders
    assert (record.outcome, record.message) == ("accepted", f"ring {order.rings[0]}, each stage soaks 0:05:00")


MEANWHILE: dict[str, tuple[str, Order, str, str]] = {
    "aborted while tenants move": ("moving", ABORT, "accepted", "the tenants of ring general go back"),
    "aborted while it soaks": ("soaking", ABORT, "accepted", "the tenants of ring general go back"),
    "aborted too late": ("draining", ABORT, "accepted", "ring general does not go back any more; no other follows"),
    "an old instance retired": (
        "soaking",
        RetireEngineInstance("general-old-0"),
        "refused",
        "ring general is being rolled out, which gives its old instances up when all is well: 'gitopsctl engines "
        "rollout status' shows how far that is",
    ),
}


@pytest.mark.parametrize(("step", "order", "expected", "words"), MEANWHILE.values(), ids=MEANWHILE)
def test_order_when_a_rollout_has_begun_then_it_depends_on_how_far_that_is(
    step: str, order: Order, expected: str, words: str
) -> None:
    rolled = Rolled.of(ONE_RING, 3)
    rolled.live(START)
    rolled.until(step)
    (record,) = rolled.look(order).fleet_orders
    assert record.outcome == expected
    assert words in record.message


@pytest.mark.parametrize(("reason", "expected"), [("ApiFailing", "accepted"), ("ControllerNotReady", "refused")])
def test_order_when_it_retires_an_empty_old_instance_then_only_one_that_is_lost_is_not_needed_any_more(
    reason: str, expected: str
) -> None:
    rolled = Rolled.of(ONE_RING, 3)
    rolled.live(START)
    rolled.until("soaking", 100)
    rolled.hear("general-old-0", Health.DOWN, reason)
    (record,) = rolled.look(RetireEngineInstance("general-old-0")).fleet_orders
    assert record.outcome == expected
    assert rolled.until_over().step == "done"
    assert rolled.states() == {"general-new-0": "accepting", "general-old-0": "retired"}


@pytest.mark.parametrize(
    ("order", "expected", "words"),
    [
        (
            PAUSE,
            "refused",
            "ring general goes back, which is not paused: 'gitopsctl engines rollout status' shows how far it is",
        ),
        (
            START,
            "refused",
            "a rollout of 3.2.11 is under way, and there is one at a time: it is reverting; wait for it",
        ),
        (ABORT, "unchanged", "ring general goes back"),
    ],
)
def test_order_when_a_ring_goes_back_then_it_does(order: Order, expected: str, words: str) -> None:
    rolled = Rolled.of(ONE_RING, 3)
    rolled.live(START)
    rolled.until("soaking", 100)
    rolled.live(ABORT)
    (record,) = rolled.look(order).fleet_orders
    assert (record.outcome, record.message) == (expected, words)


def test_order_when_abort_comes_again_while_old_instances_are_given_up_then_it_is_known() -> None:
    rolled = Rolled.of(ONE_RING, 3)
    rolled.live(START)
    rolled.until("draining")
    rolled.live(ABORT)
    (record,) = rolled.look(ABORT).fleet_orders
    assert (record.outcome, record.message) == ("unchanged", "it ends after ring general")


def test_rollout_when_it_goes_on_then_each_step_is_an_audit_row_and_no_look_beside() -> None:
    rolled = Rolled.of(ONE_RING, 3)
    told = [each.message for each in rolled.look(START).audit_records if each.kind == "Rollout"]
    while rolled.rollout is not None and not rolled.rollout.is_over:
        rolled.step_moves()
        told += [each.message for each in rolled.look().audit_records if each.kind == "Rollout"]
        rolled.now += EVERY
    assert told == [
        "provisioning: general", "moving: general 1 %", "soaking: general 1 %", "moving: general 100 %",
        "soaking: general 100 %", "draining: general 100 %", "retiring: general 100 %", "done: general 100 %",
    ]  # fmt: skip
