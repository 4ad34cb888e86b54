"""What may be deleted because no row desires it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from services.agent.objects.managed_kinds import ObjectKey
from services.agent.reconcile.orphans import ALWAYS_ALLOWED, Orphans

GRACE = timedelta(minutes=10)
START = datetime(2030, 1, 1, tzinfo=UTC)
MANY = 1000
LONE = ObjectKey("Application", "engine", "lone")
CROWD = [ObjectKey("Application", "engine", f"one-{number}") for number in range(MANY // 5)]


def test_orphan_when_the_grace_period_has_passed_then_it_may_be_deleted_until_a_row_is_about_it() -> None:
    orphans = Orphans(GRACE)
    assert not orphans.find_due([LONE], MANY, START)
    assert not orphans.may_delete(LONE)
    assert [*orphans.find_due([LONE], MANY, START + GRACE)] == [LONE]
    assert orphans.may_delete(LONE)
    assert not orphans.find_due([], MANY, START + GRACE)
    assert not orphans.may_delete(LONE)


def test_orphans_when_so_many_appear_that_the_desired_state_may_be_lost_then_none_may_be_deleted_any_more() -> None:
    orphans = Orphans(GRACE)
    orphans.find_due([LONE], MANY, START)
    assert [*orphans.find_due([LONE], MANY, START + GRACE)] == [LONE]
    assert len(CROWD) > ALWAYS_ALLOWED
    assert not orphans.find_due([LONE, *CROWD], MANY, START + GRACE)
    assert not orphans.may_delete(LONE)
