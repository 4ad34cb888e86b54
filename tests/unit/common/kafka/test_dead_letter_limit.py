"""What concerns most tenants stops a consumer; what concerns a few, or one that sends much, does not."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from services.common.errors import Poison
from services.common.kafka import DeadLetterLimit, TooManyDeadLetters
from services.common.kafka.dead_letter_limit import REMEMBERED
from services.common.telemetry.metrics import CONSUMER_STOPPED

BROKEN = Poison("schema 7 is not in the registry")


@pytest.fixture
def limit() -> DeadLetterLimit:
    return DeadLetterLimit("tests", share=0.5, minimum=3)


def names(count: int, stem: str = "team") -> list[bytes]:
    return [f"{stem}-{number}".encode() for number in range(count)]


def give_up(limit: DeadLetterLimit, origins: Iterable[bytes]) -> None:
    for origin in origins:
        limit.require_room([origin], BROKEN)


def stopped() -> float:
    return float(CONSUMER_STOPPED.labels("tests", "")._value.get())


def test_limit_when_most_tenants_would_have_a_dead_letter_then_the_next_is_refused_and_says_why(
    limit: DeadLetterLimit,
) -> None:
    limit.count_handled(names(10))
    give_up(limit, names(5))
    with pytest.raises(TooManyDeadLetters, match=r"messages of 6 of the last 10 keys .* schema 7 is not"):
        give_up(limit, [b"team-5"])
    assert (limit.reason != "", stopped()) == (True, 1)


def test_limit_when_a_whole_batch_would_be_given_up_then_nothing_of_it_is(limit: DeadLetterLimit) -> None:
    with pytest.raises(TooManyDeadLetters):
        limit.require_room(names(500), BROKEN)


def test_limit_when_few_are_known_then_the_minimum_may_have_dead_letters(limit: DeadLetterLimit) -> None:
    give_up(limit, names(3))
    with pytest.raises(TooManyDeadLetters):
        give_up(limit, [b"team-3"])


def test_limit_when_one_tenant_sends_nothing_else_then_it_stops_nobody(limit: DeadLetterLimit) -> None:
    limit.count_handled([b"other"])
    give_up(limit, [b"hostile"] * 10_000)
    assert limit.reason == ""


def test_limit_when_the_fault_is_mended_then_the_consumer_goes_on(limit: DeadLetterLimit) -> None:
    with pytest.raises(TooManyDeadLetters):
        limit.require_room(names(5), BROKEN)
    limit.count_handled(names(5))
    assert (limit.reason, stopped()) == ("", 0)


def test_limit_when_only_part_of_it_is_mended_then_the_consumer_goes_on_once_it_is_less_than_the_share(
    limit: DeadLetterLimit,
) -> None:
    with pytest.raises(TooManyDeadLetters):
        limit.require_room(names(10), BROKEN)
    limit.count_handled(names(4))
    assert limit.reason != ""
    limit.count_handled(names(5))
    assert limit.reason == ""


def test_limit_when_the_share_is_1_then_it_never_stops() -> None:
    limit = DeadLetterLimit("tests", share=1, minimum=1)
    give_up(limit, names(100))
    assert limit.reason == ""


def test_limit_when_tenants_were_heard_of_long_ago_then_they_do_not_count(limit: DeadLetterLimit) -> None:
    give_up(limit, names(3))
    limit.count_handled(names(REMEMBERED, "newer"))
    give_up(limit, names(3, "newest"))
    assert limit.reason == ""
