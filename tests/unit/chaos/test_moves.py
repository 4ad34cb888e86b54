"""The checker sees what a move of a tenant must not do."""

from __future__ import annotations

import copy

import pytest

from chaos.application_history import CASCADE
from chaos.checker.world import Move
from services.common.kubernetes import Manifest
from tests.unit.chaos.scene import ENGINE, HOME, Scene, settled

ELSEWHERE = f"{ENGINE}-2"
WEB = "Application gitopsdepl-u-web"


@pytest.fixture
def scene() -> Scene:
    return settled()


def deleted(scene: Scene, *finalizers: str) -> Manifest:
    """The Application of a deployment as it was seen last, on an instance that its tenant has left."""
    seen = copy.deepcopy(scene.objects["web application"])
    seen["metadata"] |= {"namespace": ELSEWHERE, "deletionTimestamp": "2026-01-01T00:00:00Z"}
    seen["metadata"]["finalizers"] = list(finalizers)
    return seen


def told(scene: Scene) -> set[tuple[str, str]]:
    return {(each.sort, each.subject) for each in scene.judged()}


def test_tenant_when_it_is_elsewhere_than_the_fleet_has_it_then_that_is_told_of_each_application(scene: Scene) -> None:
    scene.placements[HOME] = ELSEWHERE
    assert ("differs", WEB) in told(scene)


def test_application_when_it_is_on_both_instances_then_that_is_told(scene: Scene) -> None:
    left = copy.deepcopy(scene.objects["web application"])
    left["metadata"]["namespace"] = ELSEWHERE
    scene.objects["left"] = left
    assert told(scene) == {("extra", WEB), ("differs", WEB), ("differs", f"tenant {HOME}")}


@pytest.mark.parametrize(("step", "is_over"), [("adopting", False), ("done", True), ("cancelled", True)])
def test_move_when_it_does_not_end_then_that_is_told(scene: Scene, step: str, *, is_over: bool) -> None:
    scene.moves.append(Move(HOME, step))
    assert told(scene) == (set() if is_over else {("status", f"tenant {HOME}")})


def test_application_when_it_was_deleted_with_all_that_it_has_deployed_then_that_is_lost(scene: Scene) -> None:
    """As by an agent that deletes on the source what it shall release."""
    scene.record.history.note(deleted(scene, CASCADE))
    assert told(scene) == {("lost", f"GitOpsDeployment {HOME}/web")}


def test_application_when_it_was_released_then_nothing_is_told(scene: Scene) -> None:
    scene.record.history.note(deleted(scene))
    assert told(scene) == set()


@pytest.mark.parametrize("by", ["its user", "an intruder"])
def test_application_when_somebody_else_has_deleted_it_then_nothing_is_told_of_that(scene: Scene, by: str) -> None:
    scene.record.history.note(deleted(scene, f"{CASCADE}/background"))
    if by == "an intruder":
        scene.record.disturbed.add("u-web")
    else:
        scene.remove("web")
        del scene.objects["web application"]
    assert not {sort for sort, _ in told(scene)} & {"lost"}
