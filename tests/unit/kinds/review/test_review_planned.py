"""The planner keeps what a kind declares of metadata and status, and plans anew when that changes."""

from __future__ import annotations

from typing import Any

import pytest

from services.kinds.registry import REGISTRY, Registry
from services.kinds.shared.resource import PlainResource
from services.planner.domain.events import Event
from services.planner.domain.policy import Policy
from services.planner.domain.steps.quotas import KEPT_BEYOND_QUOTA
from tests.unit.kinds.review.kind import KIND, REVIEW, TEAM, TICKET
from tests.unit.planner.given import at, resource, resync
from tests.unit.planner.tenant import conditions
from tests.unit.planner.world import World

WITH_REVIEW = Registry((*REGISTRY.kinds, KIND))
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "asks", "uid": "uid-asks", "controller": True}
METADATA = {"labels": {TEAM: "shop"}, "annotations": {TICKET: "7"}, "ownerReferences": [OWNER]}
APPROVED = {"verdict": {"outcome": "approved"}}


@pytest.fixture
def world() -> World:
    return World(policy=Policy(kinds=WITH_REVIEW, limits=WITH_REVIEW.limits()))


def review(second: int, name: str = "monday", **parts: Any) -> Event:
    return resource(second, REVIEW.kind, name, {"gitopsDeploymentName": "web"}, **{"metadata": METADATA} | parts)


def reviewed(world: World, name: str = "monday") -> tuple[str, str, str]:
    return conditions(world, REVIEW.kind, name)["Reviewed"]


def row(world: World) -> PlainResource:
    (known,) = world.resources.values()
    return known


def test_status_when_another_controller_changes_it_then_rules_see_it_and_its_time_counts(world: World) -> None:
    world.take(review(1, status={}))
    assert reviewed(world) == ("Unknown", "Awaited", "")
    world.take(review(2, status=APPROVED))
    assert reviewed(world) == ("True", "Answered", "approved; asked by shop for ConfigMap asks, ticket 7")
    assert row(world).seen_at == at(2)


@pytest.mark.parametrize(
    ("part", "value", "asked"),
    [
        pytest.param("labels", {TEAM: "depot"}, "depot for ConfigMap asks, ticket 7", id="label"),
        pytest.param("labels", {}, "nobody for ConfigMap asks, ticket 7", id="label-gone"),
        pytest.param("annotations", {TICKET: "8"}, "shop for ConfigMap asks, ticket 8", id="annotation"),
        pytest.param("ownerReferences", [], "shop for itself, ticket 7", id="owner-gone"),
    ],
)
def test_metadata_when_it_changes_then_rules_see_it(world: World, part: str, value: Any, asked: str) -> None:
    world.take(review(1, status=APPROVED))
    world.take(review(2, status=APPROVED, metadata=METADATA | {part: value}))
    assert reviewed(world)[2] == f"approved; asked by {asked}"


def test_projection_when_a_list_shows_it_again_then_it_is_no_news(world: World) -> None:
    world.take(review(1, status=APPROVED))
    world.take(review(5, status=APPROVED, epoch=5), resync(6, 5, kind=REVIEW.kind))
    assert (row(world).seen_at, row(world).epoch) == (at(1), 5)


def test_status_when_another_controller_changes_it_then_no_operation_of_the_user_is_recorded(world: World) -> None:
    world.take(review(1, status={}))
    world.take(review(2, status=APPROVED))
    assert [(known.action, known.state) for known in world.resources_audited] == [("create", "Completed")]


@pytest.mark.parametrize(
    ("told", "message"),
    [
        pytest.param({"status": {"verdict": {}}}, "status.verdict.outcome is missing", id="another-shape"),
        pytest.param({"status": None}, "", id="not-told"),
    ],
)
def test_status_when_it_is_not_as_declared_then_rules_can_say_so(world: World, told: Any, message: str) -> None:
    world.take(review(1, **told))
    assert reviewed(world)[2] == message


def test_projection_when_beyond_the_quotas_then_no_more_of_it_than_a_little_is_kept(world: World) -> None:
    much = {"verdict": {"outcome": "x" * KEPT_BEYOND_QUOTA}}
    world.take(review(1, "first"), review(2, "second"))
    world.take(review(3, "third", status=much, metadata=METADATA | {"labels": {TEAM: "x" * KEPT_BEYOND_QUOTA}}))
    assert reviewed(world, "third")[1] == "QuotaExceeded"
    (third,) = [known for known in world.resources.values() if known.name == "third"]
    assert (third.metadata, third.status) == ("{}", "{}")
    assert third.metadata_omitted == third.status_omitted != ""


def test_projection_when_a_tenant_has_no_more_bytes_then_it_counts_like_a_spec() -> None:
    limits = WITH_REVIEW.limits(bytes_=1500)
    world = World(policy=Policy(kinds=WITH_REVIEW, limits=limits))
    world.take(review(1, "first", status={"verdict": {"outcome": "x" * 600}}), review(2, "second", status={}))
    assert reviewed(world, "second")[1] == "Awaited"
    world.take(review(3, "second", status={"verdict": {"outcome": "x" * 600}}))
    assert reviewed(world, "second")[1] == "QuotaExceeded"
