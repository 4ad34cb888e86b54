"""A 403 is not believed at once, and only for so long."""

from __future__ import annotations

import pytest

from services.common.kubernetes import ForbiddenGrace, Rejected
from tests.unit.fake_clock import FakeClock

FORBIDDEN = Rejected("may not", 403)


@pytest.fixture
def grace(time: FakeClock) -> ForbiddenGrace:
    return ForbiddenGrace(30, time)


def test_refusal_when_it_is_fresh_then_it_is_borne_and_raised_when_the_grace_is_over(
    time: FakeClock, grace: ForbiddenGrace
) -> None:
    grace.tolerate_rejection(FORBIDDEN)
    time.seconds += 29
    grace.tolerate_rejection(FORBIDDEN)
    time.seconds += 1
    with pytest.raises(Rejected, match="may not"):
        grace.tolerate_rejection(FORBIDDEN)


def test_refusal_when_a_request_was_permitted_in_between_then_the_grace_begins_anew(
    time: FakeClock, grace: ForbiddenGrace
) -> None:
    grace.tolerate_rejection(FORBIDDEN)
    time.seconds += 60
    grace.reset()
    grace.tolerate_rejection(FORBIDDEN)
    time.seconds += 30
    with pytest.raises(Rejected):
        grace.tolerate_rejection(FORBIDDEN)


def test_refusal_when_requests_fail_otherwise_in_between_then_the_grace_begins_anew_but_has_an_end(
    time: FakeClock, grace: ForbiddenGrace
) -> None:
    for _ in range(12):
        grace.tolerate_rejection(FORBIDDEN)
        time.seconds += 25
        grace.begin_anew()
    with pytest.raises(Rejected):
        grace.tolerate_rejection(FORBIDDEN)


def test_refusal_when_it_is_not_for_want_of_rights_then_it_is_raised_at_once(grace: ForbiddenGrace) -> None:
    with pytest.raises(Rejected, match="too long"):
        grace.tolerate_rejection(Rejected("too long", 422))
