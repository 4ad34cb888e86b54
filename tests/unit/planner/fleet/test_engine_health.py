"""How an instance is follows from what its agent tells, and from how long it has told nothing."""

from __future__ import annotations

from datetime import timedelta

import pytest

from services.common.errors import Poison
from services.common.messages import EngineHealth, Health, Observation
from services.planner.domain.events import Event, HealthDue
from services.planner.domain.fleet.reports.report_rows import InstanceHealth
from services.planner.domain.policy import Policy
from services.planner.pipeline.decode import _checked_observation
from tests.unit.planner.given import at, traceparent
from tests.unit.planner.world import World

INSTANCE = "engine-1"
PATIENCE = timedelta(seconds=180)
EXPIRES_AT = at(86_400)
DUE = Event(HealthDue(INSTANCE), 3, "")


def told(
    second: int,
    health: str = "Healthy",
    reason: str = "",
    *,
    instance: str = INSTANCE,
    queue: int = 0,
    why: str = "why",
    version: str = "3.2.11",
) -> Event:
    message = why if reason else ""
    event = EngineHealth(health, reason, message, version, at(second), queue, certificate_expires_at=EXPIRES_AT)
    return Event(Observation("", "", instance, "", "", at(second), event), 3, traceparent(second))


def world_at(second: int) -> World:
    """Nothing is known yet."""
    world = World(policy=Policy(health_patience=PATIENCE))
    turn_to(world, second)
    return world


def turn_to(world: World, second: int) -> None:
    """What happens next happens at that second."""
    world.later = timedelta(seconds=second - 1_000_000)


def only(world: World) -> InstanceHealth:
    (row,) = world.engine_health.values()
    return row


def test_health_when_an_agent_tells_it_then_all_of_it_is_remembered_and_when_it_is_not_known_any_more() -> None:
    world = world_at(10)
    world.take(told(1, "Down", "HeartbeatLost"))
    assert only(world) == InstanceHealth(
        engine_instance_id=INSTANCE,
        partition=3,
        health="Down",
        reason="HeartbeatLost",
        message="why",
        version="3.2.11",
        heartbeat_at=at(1),
        since=at(1),
        reported_at=at(1),
        due_at=at(10) + PATIENCE,
        certificate_expires_at=EXPIRES_AT,
    )


def test_health_when_told_again_then_since_when_it_is_so_stays_and_when_it_changes_it_does_not() -> None:
    world = world_at(10)
    world.take(told(1, "Degraded", "ApiSlow"))
    world.take(told(2, "Degraded", "HeartbeatLate"))
    assert (only(world).since, only(world).reason, only(world).reported_at) == (at(1), "HeartbeatLate", at(2))
    world.take(told(3))
    assert only(world).since == at(3)


def test_health_when_more_than_a_certificate_is_wrong_then_it_is_so_since_then() -> None:
    """Remedies begin a while after that."""
    world = world_at(10)
    world.take(told(1, "Degraded", "CertificateExpiring"))
    world.take(told(2, "Degraded", "CertificateExpired"))
    assert only(world).since == at(1)
    world.take(told(3, "Degraded", "ReconciliationLate"))
    assert only(world).since == at(3)


@pytest.mark.parametrize("reason", ["ApiFailing", "Closed"])
def test_health_when_it_is_down_all_the_time_then_it_is_so_since_nobody_reaches_it_and_since_somebody_does(
    reason: str,
) -> None:
    """What was wrong in it meanwhile says nothing of its version, and nobody could wait for it to recover."""
    world = world_at(10)
    world.take(told(1, "Down", "HeartbeatLost"))
    for second in (2, 3):
        world.take(told(second, "Down", reason))
        assert only(world).since == at(2)
    for second, known in ((4, "ControllerNotReady"), (5, "HeartbeatLost")):
        world.take(told(second, "Down", known))
        assert only(world).since == at(4)


def test_queue_when_an_agent_tells_it_then_it_is_remembered_though_the_health_is_the_same() -> None:
    world = world_at(10)
    world.take(told(1))
    world.take(told(2, queue=7))
    assert only(world).queue == 7


def test_health_when_a_report_is_late_or_comes_again_then_it_changes_nothing() -> None:
    world = world_at(10)
    world.take(told(2))
    for late in (told(1, "Down", "ApiFailing"), told(2)):
        assert world.take(late).engine_health == ()


def test_health_when_two_reports_are_of_the_same_time_then_the_later_in_the_log_counts() -> None:
    world = world_at(10)
    world.take(told(2))
    world.take(told(2, "Down", "ApiFailing"))
    assert only(world).health == "Down"


def test_health_when_what_is_known_is_of_the_future_then_the_clock_was_wrong_and_the_next_report_counts() -> None:
    world = world_at(10)
    world.take(told(3600))
    world.take(told(9, "Down", "ApiFailing"))
    assert (only(world).health, only(world).reported_at) == ("Down", at(9))


def test_health_when_nothing_is_told_in_time_then_it_is_unknown_until_something_is() -> None:
    world = world_at(1)
    world.take(told(1))
    turn_to(world, 182)
    world.take(DUE)
    row = only(world)
    assert (row.health, row.reason, row.since, row.due_at) == ("Unknown", "AgentSilent", at(181), None)
    assert row.version == "3.2.11"
    assert world.take(DUE).engine_health == ()
    world.take(told(190))
    assert (only(world).health, only(world).since) == ("Healthy", at(190))


def test_health_when_something_is_told_before_what_was_due_is_looked_at_then_it_is_known() -> None:
    world = world_at(1)
    world.take(told(1))
    turn_to(world, 182)
    world.take(told(181), DUE)
    assert only(world).health == "Healthy"


def test_health_when_the_brokers_clock_is_behind_then_an_agent_that_tells_it_each_minute_is_not_silent() -> None:
    world = world_at(1000)
    for second in range(1000, 1300, 60):
        turn_to(world, second)
        world.take(told(second - 600))
        turn_to(world, second + 59)
        world.take(DUE)
        row = only(world)
        assert (row.health, row.since, row.reported_at) == ("Healthy", at(400), at(second - 600))
    turn_to(world, 1240 + 180)
    world.take(DUE)
    assert (only(world).reason, only(world).since) == ("AgentSilent", at(1420))


def test_health_when_the_brokers_clock_is_ahead_then_it_is_unknown_only_later() -> None:
    world = world_at(10)
    world.take(told(70))
    assert only(world).due_at == at(70) + PATIENCE


def test_health_when_it_is_of_an_instance_that_there_is_not_then_it_is_passed_over() -> None:
    world = world_at(10)
    assert world.take(told(1, instance="invented")).engine_health == ()


def test_health_when_it_changes_then_that_is_an_audit_row_and_when_it_is_told_again_it_is_none() -> None:
    world = world_at(4)
    for event in (told(1), told(2), told(3, "Down", "HeartbeatLost"), told(4, "Down", "ApiFailing")):
        world.take(event)
    turn_to(world, 300)
    for event in (DUE, told(300)):
        world.take(event)
    rows = sorted(world.audit_records.values(), key=lambda each: each.created_at)
    assert [(row.kind, row.name, row.actor, row.message, row.created_at) for row in rows] == [
        ("EngineInstance", INSTANCE, "agent", "Down (HeartbeatLost); why", at(3)),
        ("EngineInstance", INSTANCE, "agent", "Down (ApiFailing); why", at(4)),
        ("EngineInstance", INSTANCE, "agent", f"Unknown (AgentSilent); {silent_since(4)}", at(184)),
        ("EngineInstance", INSTANCE, "agent", "Healthy", at(300)),
    ]


def audited(world: World) -> list[tuple[str, object]]:
    """Rows of the audit, the oldest first."""
    rows = sorted(world.audit_records.values(), key=lambda each: each.created_at)
    return [(row.message, row.created_at) for row in rows]


@pytest.mark.parametrize("reason", ["ApiFailing", "Closed"])
def test_version_when_nobody_reaches_the_instance_then_it_is_what_was_seen_last(reason: str) -> None:
    world = world_at(10)
    world.take(told(1))
    world.take(told(2, "Down", reason, version=""))
    assert only(world).version == "3.2.11"
    world.take(told(3, version=""))
    assert only(world).version == "", "its agent reaches it, and sees none"


def test_version_when_it_changes_then_that_is_an_audit_row() -> None:
    world = world_at(10)
    for second, version in enumerate(("3.2.11", "3.3.0", "3.3.0", "", "3.3.0")):
        world.take(told(second, version=version))
    assert audited(world) == [
        ("Healthy; version 3.2.11 to 3.3.0", at(1)),
        ("Healthy; version 3.3.0 to unknown", at(3)),
        ("Healthy; version unknown to 3.3.0", at(4)),
    ]


def test_reason_when_it_flaps_then_each_change_is_an_audit_row_and_what_is_told_in_other_words_is_none() -> None:
    """Also of one that is as ill all the while, since the same time."""
    world = world_at(10)
    for second, reason in enumerate(("ApiSlow", "HeartbeatLate", "ApiSlow", "ApiSlow", "HeartbeatLate")):
        world.take(told(second, "Degraded", reason, why=f"{second} s"))
    assert only(world).since == at(0)
    assert audited(world) == [
        ("Degraded (HeartbeatLate); 1 s", at(1)),
        ("Degraded (ApiSlow); 2 s", at(2)),
        ("Degraded (HeartbeatLate); 4 s", at(4)),
    ]


def test_reason_when_it_flaps_within_a_batch_then_the_audit_has_no_more_rows_than_its_instance_has_changes() -> None:
    world = world_at(10)
    world.take(told(0, "Degraded", "ApiSlow"))
    flapping = ("HeartbeatLate", "ApiSlow") * 3
    world.take(*(told(second, "Degraded", reason) for second, reason in enumerate(flapping, 1)))
    assert audited(world) == []
    world.take(*(told(second, "Degraded", reason) for second, reason in enumerate(flapping[1:], 7)))
    world.take(told(20, "Degraded", "HeartbeatLate"), told(20, "Degraded", "HeartbeatLate"))
    assert audited(world) == [("Degraded (HeartbeatLate); why", at(20))]


def test_change_when_it_is_read_again_from_the_log_then_its_audit_row_is_the_same() -> None:
    log = [told(1), told(2, "Degraded", "ApiSlow"), told(3, "Degraded", "HeartbeatLate"), told(4, version="3.3.0")]
    before, rebuilt = world_at(10), world_at(20)
    for event in log:
        before.take(event)
    for event in log * 2:
        rebuilt.take(event)
    assert len(rebuilt.audit_records) == 3
    assert rebuilt.audit_records == before.audit_records


def silent_since(second: int) -> str:
    return f"its agent has told nothing since {at(second).isoformat(timespec='seconds')}"


def test_health_when_it_is_of_an_instance_of_which_nothing_was_told_before_then_that_is_no_change() -> None:
    assert world_at(10).take(told(1, "Down", "ApiFailing", instance="invented")).audit_records == ()


def test_health_when_it_is_told_then_no_tenant_is_made() -> None:
    written = world_at(10).take(told(1), DUE)
    assert (written.tenants, written.parked) == ((), ())


@pytest.mark.parametrize("health", ["Unknown", "", "fine", "Down\0"])
def test_health_when_it_is_none_that_an_agent_can_tell_then_it_is_poison(health: str) -> None:
    message = told(1, health).message
    assert isinstance(message, Observation)
    with pytest.raises(Poison):
        _checked_observation(message)


def test_queue_when_it_is_less_than_nothing_then_it_is_poison_and_draws_no_tenants() -> None:
    message = told(1, queue=-1).message
    assert isinstance(message, Observation)
    with pytest.raises(Poison, match="no queue has -1"):
        _checked_observation(message)


@pytest.mark.parametrize("health", [each for each in Health if each is not Health.UNKNOWN])
def test_health_when_an_agent_can_tell_it_then_it_is_taken(health: Health) -> None:
    message = told(1, health.value).message
    assert isinstance(message, Observation)
    assert _checked_observation(message) is message
