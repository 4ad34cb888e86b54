"""The planner compiles, owns and removes the objects of a kind that it was never told of but by its registry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from services.common.messages import Checked, Failed, Removed
from services.kinds.registry import REGISTRY, Registry
from services.kinds.shared.api_group import FINALIZER
from services.planner.domain.events import Event
from services.planner.domain.ids import resource_id
from services.planner.domain.policy import Policy
from services.planner.rows.compiled import EngineRow
from tests.unit.kinds.mirror.kind import KIND, MIRROR
from tests.unit.planner.given import WORKSPACE, observed, resource, resource_gone, secret
from tests.unit.planner.tenant import conditions, manifest, row, says
from tests.unit.planner.world import World

WITH_MIRROR = Registry((*REGISTRY.kinds, KIND))
LOGIN = secret(1, "login", "repository-credential")
URL = "https://mirror.example.com/team-a/config.git"
ROW = "RepositorySecret"


@pytest.fixture
def world() -> World:
    return World(policy=Policy(kinds=WITH_MIRROR, limits=WITH_MIRROR.limits()))


@pytest.fixture
def mirrored(world: World) -> World:
    """A mirror that works."""
    world.take(LOGIN, mirror(2))
    says(world, 3, Checked(row(world, ROW).digest, "Mirrored", ""), ROW)
    return world


def mirror(second: int, name: str = "copy", url: str = URL, *, deleting: bool = False, uid: str = "") -> Event:
    content, generation = {"url": url, "login": "login"}, second
    return resource(
        second, MIRROR.kind, name, content, finalizers=(FINALIZER,), deleting=deleting, generation=generation, uid=uid
    )


def shown(world: World, name: str = "copy") -> tuple[str, str, str]:
    return conditions(world, MIRROR.kind, name)["Mirrored"]


def audit(world: World) -> Iterator[tuple[str, str]]:
    return ((known.action, known.state) for known in world.resources_audited)


def test_kind_when_it_wants_an_object_then_that_is_compiled_for_its_resource(world: World) -> None:
    world.take(LOGIN, mirror(2))
    made = row(world, ROW)
    recipe = manifest(world, ROW)["recipe"]
    assert (made.owner_kind, made.owner_id) == (MIRROR.kind, resource_id(WORKSPACE, "uid-copy"))
    assert (made.desired, recipe["repository"], recipe["secret"]["sealed"]) == ("present", URL, "sealed-login-1")
    assert manifest(world, "AppProject")["spec"]["sourceRepos"] == [URL.removesuffix(".git")]
    assert shown(world) == ("Unknown", "Checking", "")
    assert list(audit(world)) == [("create", "Waiting")]


@pytest.mark.parametrize(
    ("report", "condition", "outcome"),
    [
        pytest.param(Checked("", "Mirrored", ""), ("True", "Mirrored", ""), "Completed", id="works"),
        pytest.param(Checked("", "Unreachable", "away"), ("False", "Unreachable", "away"), "Failed", id="does-not"),
        pytest.param(
            Failed("", permanent=True, message="no"),
            ("False", "Unreachable", "an unknown error occurred"),
            "Failed",
            id="not-applied",
        ),
    ],
)
def test_object_when_an_agent_reports_on_it_then_its_resource_shows_that(
    world: World, report: Any, condition: tuple[str, str, str], outcome: str
) -> None:
    world.take(LOGIN, mirror(2))
    report = type(report)(**{name: getattr(report, name) for name in report.__match_args__} | digest_of(world))
    says(world, 3, report, ROW)
    assert shown(world) == condition
    assert list(audit(world)) == [("create", outcome)]


def digest_of(world: World) -> dict[str, str]:
    return {"digest": row(world, ROW).digest}


def test_object_when_its_resource_changes_then_it_changes_and_is_checked_again(mirrored: World) -> None:
    before = row(mirrored, ROW)
    mirrored.take(mirror(4, url="https://other.example.com/a"))
    assert row(mirrored, ROW).digest != before.digest
    assert shown(mirrored) == ("Unknown", "Checking", "")
    says(mirrored, 5, Checked(before.digest, "Mirrored", ""), ROW)
    assert shown(mirrored) == ("Unknown", "Checking", "")
    says(mirrored, 6, Checked(row(mirrored, ROW).digest, "Mirrored", ""), ROW)
    assert shown(mirrored) == ("True", "Mirrored", "")


def test_object_when_its_secret_is_gone_then_it_is_withdrawn(mirrored: World) -> None:
    mirrored.take(resource_gone(4, "Secret", "login", "uid-secret-login"))
    assert shown(mirrored)[:2] == ("False", "SecretNotFound")
    assert (row(mirrored, ROW).desired, "secret" in manifest(mirrored, ROW)["recipe"]) == ("absent", False)


def test_resource_when_deleted_then_it_stays_until_an_agent_has_seen_its_object_gone(mirrored: World) -> None:
    mirrored.take(mirror(4, deleting=True))
    assert (row(mirrored, ROW).desired, "secret" in manifest(mirrored, ROW)["recipe"]) == ("absent", False)
    assert released(mirrored) == [False]
    says(mirrored, 5, Removed(forced=False), ROW)
    assert released(mirrored) == [True]
    assert rows_of(mirrored) == []
    mirrored.take(resource_gone(6, MIRROR.kind, "copy"))
    assert [known.kind for known in mirrored.resources.values()] == ["Secret"]
    assert mirrored.workspace == {}
    assert list(audit(mirrored))[-1] == ("delete", "Completed")


def test_resource_when_made_anew_under_its_name_then_each_has_an_object_of_its_own(mirrored: World) -> None:
    mirrored.take(resource_gone(4, MIRROR.kind, "copy"), mirror(5, uid="uid-second"))
    old, new = sorted(rows_of(mirrored), key=lambda made: made.desired)
    assert [each.desired for each in (old, new)] == ["absent", "present"]
    assert new.owner_id == resource_id(WORKSPACE, "uid-second")
    gone = observed(6, Removed(forced=False), instance=old.engine_instance_id, kind=ROW, name=old.name)
    mirrored.take(gone)
    assert rows_of(mirrored) == [new]
    assert {known.uid for known in mirrored.resources.values()} == {"uid-secret-login", "uid-second"}


def test_kind_when_a_tenant_has_more_than_its_quota_then_what_an_engine_holds_counts_until_it_is_gone(
    world: World,
) -> None:
    world.take(LOGIN, mirror(2, "first"), mirror(3, "second"))
    world.take(resource_gone(4, MIRROR.kind, "first"), mirror(5, "third"))
    assert shown(world, "third")[1] == "QuotaExceeded"
    (leaving,) = [made for made in rows_of(world) if made.desired == "absent"]
    world.take(observed(6, Removed(forced=False), instance=leaving.engine_instance_id, kind=ROW, name=leaving.name))
    assert shown(world, "third")[1] == "Checking"


def rows_of(world: World) -> list[EngineRow]:
    return [made for made in world.engine.values() if made.owner_kind == MIRROR.kind]


def released(world: World) -> list[bool]:
    return [known.release_finalizer for known in world.workspace.values()]
