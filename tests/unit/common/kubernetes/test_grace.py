"""A 403 is not believed at once, and only for so long."""

from __future__ import annotations

import pytest

from services.common.kubernetes import ForbiddenGrace, Refused
from tests.unit.fake_clock import FakeClock

FORBIDDEN = Refused("may not", 403)


@pytest.fixture
def grace(time: FakeClock) -> ForbiddenGrace:
    return ForbiddenGrace(30, time)


def test_refusal_when_it_is_fresh_then_it_is_borne_and_raised_when_the_grace_is_over(
    time: FakeClock, grace: ForbiddenGrace
) -> None:
    grace.bear_refusal(FORBIDDEN)
    time.seconds += 29
    grace.bear_refusal(FORBIDDEN)
    time.seconds += 1
    with pytest.raises(Refused, match="may not"):
        grace.bear_refusal(FORBIDDEN)


def test_refusal_when_a_request_was_permitted_in_between_then_the_grace_begins_anew(
    time: FakeClock, grace: ForbiddenGrace
) -> None:
    grace.bear_refusal(FORBIDDEN)
    time.seconds += 60
    grace.reset()
    grace.bear_refusal(FORBIDDEN)
    time.seconds += 30
    with pytest.raises(Refused):
        grace.bear_refusal(FORBIDDEN)


def test_refusal_when_it_is_not_for_want_of_rights_then_it_is_raised_at_once(grace: ForbiddenGrace) -> None:
    with pytest.raises(Refused, match="too long"):
        grace.bear_refusal(Refused("too long", 422))
