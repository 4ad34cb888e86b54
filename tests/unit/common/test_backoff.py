from __future__ import annotations

from services.common.backoff import FORGET_FROM, KeyedBackoff


def test_delays_when_a_key_keeps_failing_then_they_grow_up_to_the_limit_and_other_keys_are_not_concerned() -> None:
    backoff: KeyedBackoff[str] = KeyedBackoff(limit=5)
    delays = [backoff.next_delay("a") for _ in range(20)]
    assert delays[0] <= 0.1 < delays[3] <= 0.8
    assert 2.5 <= delays[-1] <= 5
    assert backoff.next_delay("b") <= 0.1


def test_delay_when_the_key_has_succeeded_then_it_is_the_first_again() -> None:
    backoff: KeyedBackoff[str] = KeyedBackoff(limit=5)
    for _ in range(20):
        backoff.next_delay("a")
    backoff.forget_key("a")
    assert backoff.next_delay("a") <= 0.1


def test_attempts_when_some_are_free_then_they_do_not_wait_and_are_free_again_after_a_quiet_time() -> None:
    backoff: KeyedBackoff[str] = KeyedBackoff(limit=5, free=2, quiet=60)
    assert [backoff.next_delay("a", now) > 0 for now in (0, 1, 2, 3)] == [False, False, True, True]
    assert backoff.next_delay("a", 63) > 0, "the quiet time is counted from the last attempt"
    assert backoff.next_delay("a", 124) == 0


def test_keys_when_they_are_quiet_then_they_are_not_kept_for_ever() -> None:
    backoff: KeyedBackoff[int] = KeyedBackoff(limit=5, quiet=60)
    for number in range(10 * FORGET_FROM):
        backoff.next_delay(number, number)
    assert len(backoff._attempts) <= FORGET_FROM
