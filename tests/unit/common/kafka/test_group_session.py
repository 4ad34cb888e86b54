"""A member knows until when nobody else can have its partitions."""

from __future__ import annotations

import pytest

from services.common.errors import Retry
from services.common.kafka import GroupSession
from tests.unit.fake_clock import FakeClock

TIMEOUT = 6.0


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def session(clock: FakeClock) -> GroupSession:
    return GroupSession(TIMEOUT, clock)


def test_member_when_the_broker_has_never_answered_then_it_may_change_nothing(session: GroupSession) -> None:
    with pytest.raises(Retry, match="member of the group"):
        session.require_membership()


async def test_member_when_the_broker_answered_then_it_may_until_the_session_would_end(
    session: GroupSession, clock: FakeClock
) -> None:
    session.confirm_membership(asked_at=clock.time())
    await clock.advance(TIMEOUT - 0.1)
    assert session.is_confirmed
    await clock.advance(0.2)
    assert not session.is_confirmed


async def test_member_when_it_was_stopped_before_the_answer_came_then_the_answer_counts_from_the_question(
    session: GroupSession, clock: FakeClock
) -> None:
    asked_at = clock.time()
    await clock.advance(TIMEOUT + 1)
    session.confirm_membership(asked_at)
    assert not session.is_confirmed


async def test_member_when_answers_come_in_another_order_then_the_newest_question_counts(
    session: GroupSession, clock: FakeClock
) -> None:
    first = clock.time()
    await clock.advance(2)
    session.confirm_membership(clock.time())
    session.confirm_membership(first)
    await clock.advance(TIMEOUT - 1)
    assert session.is_confirmed
