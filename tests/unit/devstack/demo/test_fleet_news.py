"""What the demo says of the fleet between two looks."""

from __future__ import annotations

from dataclasses import replace

from devstack.demo.fleet_news import news
from services.cli.fleet.fleet_view import FleetSnapshot
from tests.unit.cli.fleet.test_fleet_view import DOWN, FLEET, MOVE, ONE, REMEDIATION, ROLLOUT, TWO

BEFORE = FleetSnapshot(FLEET)


def test_news_when_nothing_has_changed_then_there_is_none() -> None:
    ill = FleetSnapshot(replace(FLEET, health={"one": DOWN}), {"one": REMEDIATION}, ROLLOUT)
    assert news(ill, ill) == []


def test_news_when_an_instance_joins_and_another_is_retired_then_both_are_told() -> None:
    three = replace(TWO, id="three", state="provisioning")
    after = replace(FLEET, instances={"one": replace(ONE, state="retired"), "two": TWO, "three": three})
    assert news(BEFORE, FleetSnapshot(after)) == ["one is retired", "three is provisioning"]


def test_news_when_an_instance_falls_ill_then_its_health_its_remedy_and_its_cordon_are_told() -> None:
    after = replace(FLEET, health={"one": DOWN}, cordoned={"one": "lost"})
    ill = FleetSnapshot(after, {"one": REMEDIATION})
    assert news(BEFORE, ill) == ["one is Down HeartbeatLost", "one: acting Evacuate", "one is cordoned"]
    well = replace(after, health={"one": replace(DOWN, health="Healthy", reason="")}, cordoned={})
    assert news(ill, FleetSnapshot(well)) == ["one is Healthy", "one is no longer cordoned"]


def test_news_when_a_tenant_moves_then_its_departure_and_its_arrival_are_told_and_no_step_between() -> None:
    moving = FleetSnapshot(replace(FLEET, moves={MOVE.tenant_id: MOVE}))
    later = FleetSnapshot(replace(FLEET, moves={MOVE.tenant_id: replace(MOVE, step="adopting")}))
    assert news(BEFORE, moving) == ["team-a moves: one → two"]
    assert news(moving, later) == []
    assert news(later, BEFORE) == ["team-a has moved: one → two"]


def test_news_when_a_rollout_goes_on_then_each_step_is_told_once() -> None:
    soaking = FleetSnapshot(FLEET, rollout=ROLLOUT)
    waiting = FleetSnapshot(FLEET, rollout=replace(ROLLOUT, reason="too little was told"))
    done = FleetSnapshot(FLEET, rollout=replace(ROLLOUT, step="done"))
    assert news(BEFORE, soaking) == ["rollout of 3.2.11: ring canary, 3 soaking, 10 %: 2 of 20 tenants moved"]
    assert news(soaking, waiting) == []
    assert news(waiting, done) == ["rollout of 3.2.11: done"]
