"""Where a rebuild has tenants and their deployments, by what topics and engine clusters say."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Literal
from uuid import UUID

import pytest

from services.cli.rebuild.placements import Claim, Located, Placements, placements_claimed, placements_of
from services.cli.rebuild.streamed_topics import claim_of
from services.common.messages import EngineResource
from services.planner.domain.ids import resource_id
from services.planner.engines.argocd.names import project_name

ADA, BOB = UUID(int=1), UUID(int=2)
FIRST, SECOND, THIRD = (UUID(int=number) for number in (11, 12, 13))


def test_tenant_when_it_is_split_then_it_is_where_most_of_it_is_and_the_rest_is_told_one_by_one() -> None:
    found = [Located(ADA, FIRST, "one"), Located(ADA, SECOND, "two"), Located(ADA, THIRD, "two")]
    assert placements_of([*found, *found]) == Placements({ADA: "two"}, {FIRST: "one"})


def test_deployment_when_an_instance_that_was_lost_has_it_still_then_it_is_where_its_tenant_is() -> None:
    found = [Located(ADA, FIRST, "one"), Located(ADA, SECOND, "one"), Located(ADA, FIRST, "two")]
    assert placements_of(found) == Placements({ADA: "one"})


def test_tenant_when_as_much_of_it_is_on_two_instances_then_it_is_the_same_whatever_the_order() -> None:
    found = [Located(ADA, FIRST, "one"), Located(ADA, SECOND, "two")]
    assert placements_of(found) == placements_of(reversed(found))


def test_deployment_when_a_row_desires_it_and_another_instance_is_to_give_it_up_then_it_is_where_it_is_desired() -> (
    None
):
    claims = [Claim(True, ADA, "one", FIRST), Claim(False, ADA, "two", FIRST), Claim(True, ADA, "two", None)]
    for seed in range(6):
        random.Random(seed).shuffle(claims)  # noqa: S311
        assert placements_claimed(claims) == Placements({ADA: "one"})


def test_deployment_when_it_is_being_deleted_then_it_is_where_that_happens() -> None:
    claims = [Claim(True, ADA, "one", FIRST), Claim(False, ADA, "two", SECOND)]
    assert placements_claimed([*claims, Claim(True, ADA, "one", THIRD)]) == Placements({ADA: "one"}, {SECOND: "two"})


def test_tenant_when_it_has_no_application_then_it_is_where_anything_of_it_is() -> None:
    claims = [Claim(False, ADA, "two", None), Claim(True, ADA, "one", None), Claim(True, BOB, "two", None)]
    assert placements_claimed(claims) == Placements({ADA: "one", BOB: "two"})


def row(kind: str, name: str, lane: str, desired: Literal["present", "absent"] = "present") -> EngineResource:
    now = datetime(2026, 5, 4, tzinfo=UTC)
    return EngineResource(
        "one", kind, "argocd", name, "local", "team-a", lane, 0, desired, "{}", "", "", now, deleted=False
    )


@pytest.mark.parametrize(
    ("told", "claim"),
    [
        (
            row("Application", "gitopsdepl-uid-1", project_name(ADA)),
            Claim(True, ADA, "one", resource_id("local", "uid-1")),
        ),
        (row("AppProject", "any", project_name(ADA), "absent"), Claim(False, ADA, "one", None)),
        (row("Application", "somebody", project_name(ADA)), Claim(True, ADA, "one", None)),
        (row("Remedy", "any", "fleet"), None),
    ],
)
def test_row_when_it_is_of_a_tenant_then_it_says_where_that_is(told: EngineResource, claim: Claim | None) -> None:
    assert claim_of(told) == claim
