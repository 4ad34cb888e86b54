"""What provisioners tell of installations: the newest counts, and a failure is one of the instance."""

from __future__ import annotations

from dataclasses import replace

import pytest

from services.common.errors import Poison
from services.common.messages import EngineInstallation, InstallationPhase, Observation
from services.planner.domain.events import Event
from services.planner.domain.fleet.orders import decide_orders
from services.planner.domain.fleet.reports.installations import decide_installations
from services.planner.domain.fleet.reports.report_rows import Installation
from services.planner.domain.policy import Policy
from services.planner.pipeline.decode import _checked_observation
from tests.unit.planner.fleet.test_fleet_orders import fleet
from tests.unit.planner.fleet.test_readiness import INSTALLED, PATIENCE
from tests.unit.planner.given import at


def told(second: int, phase: str = "Applied", message: str = "", instance: str = "one") -> Event:
    event = EngineInstallation(phase, "3.2.11", message)
    return Event(Observation("", "", instance, "", "", at(second), event), 3, "")


def test_installations_when_told_then_the_newest_of_each_instance_counts() -> None:
    events = [told(1), told(9, "Failed", "why"), told(5), told(2, instance="two")]
    assert decide_installations(events).engine_installations == (
        Installation("one", 3, "Failed", "3.2.11", "why", at(9)),
        Installation("two", 3, "Applied", "3.2.11", "", at(2)),
    )


@pytest.mark.parametrize("phase", [each.value for each in InstallationPhase])
def test_phase_when_told_by_a_provisioner_then_it_is_taken(phase: str) -> None:
    message = told(1, phase).message
    assert isinstance(message, Observation)
    assert _checked_observation(message) == message


@pytest.mark.parametrize(("phase", "text"), [("Lost", ""), ("Applied", "a\0b")])
def test_report_when_it_is_none_then_it_is_poison(phase: str, text: str) -> None:
    message = told(1, phase, text).message
    assert isinstance(message, Observation)
    with pytest.raises(Poison):
        _checked_observation(message)


def test_instance_when_its_installation_has_failed_for_good_then_it_has_at_once_and_operators_are_told_why() -> None:
    installation = Installation("one", 3, "Failed", "3.2.11", "there are no manifests", at(5))
    before = replace(fleet(INSTALLED), installations={"one": installation})
    (row,) = decide_orders([], before, at(10), Policy(provisioning_patience=PATIENCE)).engine_instances
    assert row.state == "failed"
    assert row.state_message is not None
    assert row.state_message.startswith("there are no manifests; ")


def test_instance_when_overdue_then_what_its_provisioner_waits_for_is_told() -> None:
    installation = Installation("one", 3, "Applying", "3.2.11", "no answer", at(5))
    before = replace(fleet(INSTALLED), installations={"one": installation})
    (row,) = decide_orders([], before, at(200), Policy(provisioning_patience=PATIENCE)).engine_instances
    assert "no answer" in str(row.state_message)
