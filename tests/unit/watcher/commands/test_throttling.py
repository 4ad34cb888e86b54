from __future__ import annotations

import pytest

from services.watcher.commands.throttling import FORGET_FROM, RateLimiter


def taken_at_once(limiter: RateLimiter, tenant: str, now: float) -> int:
    count = 0
    while limiter.take_token(tenant, now) is None:
        count += 1
    return count


def test_tenant_when_it_was_quiet_then_it_may_burst() -> None:
    assert taken_at_once(RateLimiter(10, 5), "a", 0) == 5


def test_tenant_when_its_burst_is_used_up_then_it_learns_when_the_next_may_go() -> None:
    limiter = RateLimiter(10, 5)
    taken_at_once(limiter, "a", 0)
    assert limiter.take_token("a", 0) == pytest.approx(0.1)
    assert limiter.take_token("a", 0.05) == pytest.approx(0.1)
    assert limiter.take_token("a", 0.0999) == pytest.approx(0.1)
    assert limiter.take_token("a", 0.1) is None


def test_tenant_when_it_comes_back_at_the_very_moment_then_it_may_however_floats_are_rounded() -> None:
    limiter, now = RateLimiter(200, 3), 1e6 / 3
    taken_at_once(limiter, "a", now)
    for _ in range(10_000):
        due = limiter.take_token("a", now)
        assert due is not None
        assert limiter.take_token("a", due) is None
        now = due


def test_tenant_when_time_goes_by_then_it_gets_its_rate_and_never_more_than_the_burst() -> None:
    limiter = RateLimiter(10, 5)
    taken_at_once(limiter, "a", 0)
    assert taken_at_once(limiter, "a", 0.3001) == 3
    assert taken_at_once(limiter, "a", 1000) == 5


def test_tenants_when_one_has_used_up_its_own_then_others_have_theirs() -> None:
    limiter = RateLimiter(10, 5)
    taken_at_once(limiter, "a", 0)
    assert taken_at_once(limiter, "b", 0) == 5


def test_buckets_when_full_again_then_they_are_forgotten_and_the_others_kept() -> None:
    limiter = RateLimiter(10, 5)
    for number in range(FORGET_FROM - 1):
        limiter.take_token(f"quiet-{number}", 0)
    taken_at_once(limiter, "busy", 1000)
    limiter.take_token("new", 1000)
    assert len(limiter) == 2
    assert limiter.take_token("busy", 1000) is not None
