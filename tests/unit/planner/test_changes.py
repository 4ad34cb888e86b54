"""What of the fleet has to be read anew after a batch was written."""

from __future__ import annotations

import pytest

from services.planner.domain.changes import NOTHING, Changes
from services.planner.domain.fleet.placement.assignments import TenantPin
from services.planner.domain.fleet.reports.report_rows import InstanceHealth
from tests.unit.planner.fleet.rolled import instance
from tests.unit.planner.given import at

HEALTH = InstanceHealth("one", 0, "Healthy", "", "", "", None, at(1), at(1), None)
PIN = TenantPin("team", "web", "one", at(1))


@pytest.mark.parametrize(
    ("changes", "instances", "rules"),
    [
        pytest.param(NOTHING, set(), False, id="nothing"),
        pytest.param(Changes(engine_health=(HEALTH,)), {"one"}, False, id="health of one"),
        pytest.param(
            Changes(engine_instances=(instance("two", "general"),), engine_health=(HEALTH,)),
            {"one", "two"},
            False,
            id="an order beside",
        ),
        pytest.param(Changes(pins=(PIN,)), set(), True, id="a pin"),
        pytest.param(Changes(assignments_gone=("team",)), set(), True, id="an assignment that is taken back"),
    ],
)
def test_placement_when_rows_are_written_then_what_they_are_of_is_affected_and_nothing_else(
    changes: Changes, instances: set[str], rules: bool
) -> None:
    assert (changes.instances_affected, changes.affects_rules) == (instances, rules)
    assert changes.affects_placement == bool(instances or rules)
