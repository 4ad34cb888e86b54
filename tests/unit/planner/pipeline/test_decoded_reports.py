"""Reports of engine instances as they come from the wire: they are of the brokers' time."""

from __future__ import annotations

from datetime import datetime
from typing import Any, cast

import pytest

from services.common.kafka import OBSERVATIONS
from services.common.messages import Applied, EngineHealth, EngineInstallation, Observation, OrphansKept
from services.common.messages.observation import ObservationEvent
from services.planner.pipeline.decode import decode_event
from tests.unit.common.kafka.messages import consumed
from tests.unit.planner.given import at

TAKEN = at(60)
CLOCKS = {"right": 60, "set back by an hour": -3540, "an hour ahead": 3660}
HEALTH = EngineHealth("Healthy", "", "", "3.2.11", None)
REPORTS = {
    "health": HEALTH,
    "installation": EngineInstallation("Applied", "3.2.11", ""),
    "orphans": OrphansKept(5, 1, ("Application/one",), ()),
}


class Known:
    """The codec of a topic that holds one observation."""

    def __init__(self, observation: Observation) -> None:
        self._observation = observation

    def decode_message(self, _: bytes | None) -> Observation:
        return self._observation


def observed_at(second: int, event: ObservationEvent) -> datetime:
    """As a planner reads what was sent at this second by its sender's clock."""
    observation = Observation("", "", "one", "", "", at(second), event)
    message = consumed(OBSERVATIONS, 0, b"", b"", timestamp=TAKEN.timestamp())
    decoded = decode_event(message, {OBSERVATIONS: cast("Any", Known(observation))}).message
    assert isinstance(decoded, Observation)
    return decoded.observed_at


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
@pytest.mark.parametrize("second", CLOCKS.values(), ids=CLOCKS)
def test_report_when_its_senders_clock_is_wrong_then_it_is_of_the_time_at_which_the_brokers_took_it(
    second: int, report: ObservationEvent
) -> None:
    assert observed_at(second, report) == TAKEN


def test_observation_of_an_object_when_read_then_it_is_of_the_time_at_which_its_agent_saw_it() -> None:
    assert observed_at(50, Applied("digest")) == at(50)
