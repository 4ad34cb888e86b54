"""Since when a comparison of the heartbeat is awaited, as whoever takes an instance over finds it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from services.agent.health.heartbeat import ASKED_AT, COMPARED_BEFORE, Request, awaited_since
from services.agent.objects.reconciliation import Reconciliation
from services.common.times import rfc3339

INTERVAL = timedelta(seconds=30)
COMPARED = datetime(2026, 5, 4, 12, tzinfo=UTC)
CREATED, ASKED, NOW = COMPARED - timedelta(days=1), COMPARED + timedelta(seconds=40), COMPARED + timedelta(minutes=10)
SUPPOSED = COMPARED + INTERVAL
FOUND = Reconciliation(created_at=CREATED, reconciled_at=COMPARED)
NEVER_COMPARED = Reconciliation(created_at=CREATED)


def asked(at: datetime = ASKED, compared_before: datetime = COMPARED) -> Request:
    return Request(rfc3339(at), rfc3339(compared_before))


NOTHING = Request("", "")
AWAITED = {
    "it was asked for": (asked(), FOUND, ASKED),
    "nothing is written": (NOTHING, FOUND, SUPPOSED),
    "something else is written": (Request("yesterday", rfc3339(COMPARED)), FOUND, SUPPOSED),
    "a time of no time zone is written": (Request("2026-05-04T12:00:40", rfc3339(COMPARED)), FOUND, SUPPOSED),
    "what was asked for has come": (asked(COMPARED, COMPARED - timedelta(hours=1)), FOUND, SUPPOSED),
    "the agent's clock was ahead": (asked(NOW + timedelta(seconds=1)), FOUND, SUPPOSED),
    "the agent's clock was behind": (asked(COMPARED - timedelta(hours=1)), FOUND, COMPARED),
    "the controller's clock is ahead": (asked(), Reconciliation(CREATED, NOW + INTERVAL), NOW),
    "it was compared just now": (NOTHING, Reconciliation(CREATED, NOW), NOW),
    "it was never compared": (NOTHING, NEVER_COMPARED, CREATED),
    "its status is lost": (asked(), NEVER_COMPARED, CREATED),
    "it was created by a clock that is ahead": (NOTHING, Reconciliation(NOW + INTERVAL), NOW),
    "nobody knows when it was created": (NOTHING, Reconciliation(), NOW),
}


@pytest.mark.parametrize(("request_made", "found", "since"), AWAITED.values(), ids=AWAITED)
def test_comparison_when_awaited_then_since_when_is_not_of_the_future_and_not_before_the_last_one(
    request_made: Request, found: Reconciliation, since: datetime
) -> None:
    assert awaited_since(request_made, found, INTERVAL, NOW) == since


def test_request_when_written_then_the_next_agent_reads_it() -> None:
    assert Request.read(asked().annotations) == asked()


def test_request_when_somebody_has_written_something_else_then_it_says_nothing() -> None:
    assert Request.read({ASKED_AT: 7, COMPARED_BEFORE: None}) == NOTHING
