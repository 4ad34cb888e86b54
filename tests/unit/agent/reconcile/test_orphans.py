"""What may be deleted because no row desires it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import orjson
import pytest

from services.agent.objects.managed_kinds import ObjectKey
from services.agent.reconcile.orphans import ALWAYS_ALLOWED, APPROVED_AT_ONCE, Orphans
from services.common.errors import Permanent
from services.common.messages import ORPHAN_REMOVAL, EngineResource, OrphansKept
from tests.unit.agent.rows import application_row

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


def approval(*keys: ObjectKey, digest: str = "abc", manifest: str | None = None) -> EngineResource:
    names = [f"{key.kind}/{key.name}" for key in keys]
    text = orjson.dumps({"objects": names}).decode() if manifest is None else manifest
    row = application_row(digest)
    return replace(row, kind=ORPHAN_REMOVAL, namespace="", name=digest, manifest=text)


def guarded(*more: ObjectKey) -> Orphans:
    """So many orphans that they are kept, for longer than the grace period."""
    orphans = Orphans(GRACE)
    orphans.find_due([*CROWD, *more], MANY, START)
    orphans.find_due([*CROWD, *more], MANY, START + GRACE)
    return orphans


def told(orphans: Orphans) -> OrphansKept:
    report = orphans.report()
    assert report is not None
    return report


def test_orphans_when_they_are_kept_then_operators_are_told_which_at_each_look_and_once_that_there_are_none() -> None:
    orphans = guarded()
    names = tuple(sorted(f"Application/{key.name}" for key in CROWD))
    assert told(orphans) == told(orphans) == OrphansKept(MANY, len(CROWD), names, ())
    orphans.find_due([], MANY, START + GRACE)
    assert told(orphans) == OrphansKept(MANY, 0, (), ())
    assert orphans.report() is None


def test_orphans_when_their_grace_period_has_not_passed_then_nobody_is_asked_to_approve_them() -> None:
    orphans = Orphans(GRACE)
    orphans.find_due(CROWD, MANY, START)
    assert orphans.report() is None


def test_orphans_when_they_are_more_than_one_approval_takes_then_the_first_are_told_and_how_many_there_are() -> None:
    many = [ObjectKey("Application", "engine", f"{number:05}") for number in range(APPROVED_AT_ONCE + 5)]
    orphans = Orphans(timedelta())
    orphans.find_due(many, len(many), START)
    report = told(orphans)
    assert (report.total, len(report.objects), report.objects[-1]) == (len(many), APPROVED_AT_ONCE, "Application/04999")


def test_orphans_when_their_removal_is_approved_then_these_may_go_and_no_others() -> None:
    orphans = guarded(LONE)
    orphans.approve_removal(approval(*CROWD))
    assert {*orphans.find_due([*CROWD, LONE], MANY, START + GRACE)} == {*CROWD}
    assert told(orphans).objects == ("Application/lone",)


def test_orphan_when_approved_and_desired_again_then_it_stays() -> None:
    orphans = guarded()
    orphans.approve_removal(approval(*CROWD))
    orphans.find_due(CROWD[1:], MANY, START + GRACE)
    assert not orphans.may_delete(CROWD[0])


def test_approval_when_none_of_its_objects_is_left_then_that_is_told_until_it_is_withdrawn() -> None:
    orphans = guarded()
    orphans.approve_removal(approval(*CROWD))
    orphans.find_due(CROWD[1:], MANY, START + GRACE)
    assert orphans.report() is None
    orphans.find_due([LONE], MANY, START + GRACE)
    assert told(orphans).finished == told(orphans).finished == ("abc",)
    orphans.withdraw_approval(approval(*CROWD))
    assert orphans.report() is None


def test_approval_when_it_was_withdrawn_then_it_counts_no_more() -> None:
    orphans = guarded()
    orphans.approve_removal(approval(*CROWD))
    orphans.withdraw_approval(approval(*CROWD))
    assert not orphans.find_due(CROWD, MANY, START + GRACE)


@pytest.mark.parametrize("manifest", ["", "[]", "{}", '{"objects": "all"}', '{"objects": [1]}'])
def test_approval_when_it_names_no_objects_then_it_is_refused(manifest: str) -> None:
    with pytest.raises(Permanent):
        Orphans(GRACE).approve_removal(approval(manifest=manifest))
