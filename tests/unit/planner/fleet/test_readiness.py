"""An instance that was added: when tenants are placed on it, and when it has failed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from services.common.errors import Wait
from services.planner.domain.changes import Changes
from services.planner.domain.fleet.orders import decide_orders
from services.planner.domain.fleet.placement.placement import place
from services.planner.domain.fleet.reports.report_rows import InstanceHealth
from services.planner.domain.fleet.rows import EngineInstanceRow
from services.planner.domain.policy import Policy
from services.planner.rows.tenants import Tenant
from tests.unit.planner.fleet.test_fleet_orders import ADDED, INSTANCE, decided, fleet, outcome
from tests.unit.planner.given import at

PATIENCE = timedelta(seconds=100)
BY_HAND = replace(INSTANCE, state="provisioning", due_at=at(200))
INSTALLED = replace(BY_HAND, wanted_version="3.2.11")


def health(state: str = "Healthy", heartbeat: int | None = 5, **more: Any) -> InstanceHealth:
    told = {"reason": "", "message": ""} | more
    beat = None if heartbeat is None else at(heartbeat)
    return InstanceHealth("one", 0, state, told["reason"], told["message"], "3.2.11", beat, at(5), at(5), at(99))


def settled(row: EngineInstanceRow, told: InstanceHealth | None, second: int = 150) -> Changes:
    before = replace(fleet(row), health={} if told is None else {told.engine_instance_id: told})
    return decide_orders([], before, at(second), Policy(provisioning_patience=PATIENCE))


def test_instance_when_ordered_with_a_version_then_it_is_being_installed_until_a_deadline() -> None:
    order = replace(ADDED, wanted_version="3.2.11", profile="fast")
    changes = decided(fleet(), order)
    (row,) = changes.engine_instances
    assert outcome(changes) == (
        "accepted",
        "it is installed first: 'gitopsctl engines show two' shows how far that is",
    )
    assert (row.state, row.wanted_version, row.profile) == ("provisioning", "3.2.11", "fast")
    assert row.due_at == at(1000) + timedelta(minutes=15)


def test_instance_when_ordered_again_with_another_version_then_that_is_refused() -> None:
    result, message = outcome(decided(fleet(), replace(ADDED, id="one", namespace="argocd-1", wanted_version="3.2.11")))
    assert (result, message) == (
        "refused",
        "--version of engine instance one is none, not '3.2.11', for good: add another one, and 'gitopsctl engines "
        "drain one' if that takes its place",
    )


def test_instance_when_its_agent_told_that_it_works_before_it_was_ordered_then_it_takes_tenants_at_once() -> None:
    told = replace(health(heartbeat=None), engine_instance_id="two")
    (row,) = decided(replace(fleet(), health={"two": told}), ADDED).engine_instances
    assert (row.state, row.due_at) == ("accepting", None)


def test_instance_when_its_cluster_was_drained_since_then_it_is_drained_with_that_when_it_is_ready() -> None:
    before = replace(fleet(BY_HAND), health={"one": health(heartbeat=None)})
    drained = before.with_cluster(replace(before.clusters["north"], state="draining"))
    (row,) = decide_orders([], drained, at(150), Policy(provisioning_patience=PATIENCE)).engine_instances
    assert row.state == "drained"


STATES = {
    "nothing was told": (INSTALLED, None, 150, None),
    "it is not well": (INSTALLED, health("Down"), 150, None),
    "it is well without a heartbeat": (INSTALLED, health(heartbeat=None), 150, None),
    "it is well and its heartbeat was compared": (INSTALLED, health(), 150, "accepting"),
    "its certificate expires": (INSTALLED, health("Degraded", reason="CertificateExpiring"), 150, "accepting"),
    "it is late": (INSTALLED, health("Degraded", reason="ReconciliationLate"), 150, None),
    "it is ready and overdue": (INSTALLED, health(), 250, "accepting"),
    "it is overdue": (INSTALLED, health("Down"), 200, "failed"),
    "it has failed": (replace(INSTALLED, state="failed", due_at=None), health("Down"), 900, None),
    "it has failed and is ready after all": (replace(INSTALLED, state="failed"), health(), 900, "accepting"),
    "nothing was told of one that somebody else looks after": (BY_HAND, None, 150, None),
    "it is down, and somebody else looks after it": (BY_HAND, health("Down"), 150, None),
    "nobody hears of it any more": (BY_HAND, health("Unknown", reason="AgentSilent"), 150, None),
    "it works, and its agents have no heartbeat": (BY_HAND, health(heartbeat=None), 150, "accepting"),
    "nobody has served it in time": (BY_HAND, None, 200, "failed"),
    "it has failed and works after all": (replace(BY_HAND, state="failed"), health(heartbeat=None), 900, "accepting"),
    "it was accepting when nobody asked for that": (replace(INSTANCE, state="accepting"), None, 900, None),
    "it is drained and well": (replace(INSTALLED, state="drained", due_at=None), health(), 900, None),
}


@pytest.mark.parametrize(("row", "told", "second", "state"), STATES.values(), ids=STATES)
def test_installation_when_something_is_told_or_due_then_the_state_follows(
    row: EngineInstanceRow, told: InstanceHealth | None, second: int, state: str | None
) -> None:
    assert [each.state for each in settled(row, told, second).engine_instances] == ([state] if state else [])


NO_AGENT = "no agent of engine cluster north has told how it is"
CLOSED = health("Down", reason="Closed", message="not there")
REASONS = {
    "no agent": (INSTALLED, None, NO_AGENT),
    "no heartbeat": (INSTALLED, health(heartbeat=None), "HEARTBEAT_REPOSITORY"),
    "not well": (INSTALLED, CLOSED, "in namespace argocd-1 it is Down, Closed: not there"),
    "no agent, by hand": (BY_HAND, None, NO_AGENT),
    "a namespace that is not there, by hand": (
        BY_HAND,
        CLOSED,
        "in namespace argocd-1 it is Down, Closed: not there; mend that, and it is used",
    ),
}


@pytest.mark.parametrize(("before", "told", "reason"), REASONS.values(), ids=REASONS)
def test_instance_when_it_has_failed_then_operators_are_told_why(
    before: EngineInstanceRow, told: InstanceHealth | None, reason: str
) -> None:
    (row,) = settled(before, told, 200).engine_instances
    assert row.state_message is not None
    assert reason in row.state_message
    assert row.due_at is None


def test_installation_when_ready_then_nothing_is_left_of_its_deadline_and_failure() -> None:
    (row,) = settled(replace(INSTALLED, state="failed", state_message="late"), health()).engine_instances
    assert (row.state, row.due_at, row.state_message) == ("accepting", None, None)


@pytest.mark.parametrize("state", ["provisioning", "failed"])
def test_tenant_when_only_an_instance_that_is_not_ready_is_there_then_it_waits(state: Any) -> None:
    tenant = Tenant(UUID(int=1), "local", "team", 0, "")
    unready = replace(INSTALLED, state=state).as_candidate
    with pytest.raises(Wait, match="no engine instance"):
        place(tenant, [unready], {})
    drained = replace(INSTANCE, id="two", state="drained").as_candidate
    assert place(tenant, [unready, drained], {}) == drained
