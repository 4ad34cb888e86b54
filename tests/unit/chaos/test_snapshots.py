"""The checker knows which Snapshot each binding must have, or may have where two ask for different ones."""

from __future__ import annotations

import copy

import pytest

from services.common.kubernetes import Manifest
from tests.unit.chaos.scene import HOME, Scene, build, settled, show_synced, thing

SUBJECT = f"SnapshotEnvironmentBinding {HOME}/dev-a"
WRITTEN = 50
"""Resource version with which a user wrote the binding last."""


def binding(name: str = "dev-a", created_at: str = "2026-01-01T00:00:00Z") -> Manifest:
    """Of an environment that there is not, so that nothing is deployed."""
    item = thing("SnapshotEnvironmentBinding", HOME, name, f"u-{name}")
    item["metadata"] |= {"creationTimestamp": created_at, "resourceVersion": str(WRITTEN)}
    spec = {"application": "shop", "environment": "dev", "snapshot": "one", "components": []}
    reason = {"type": "Reconciled", "status": "False", "reason": "EnvironmentNotFound"}
    return item | {"spec": spec, "status": {"bindingConditions": [reason]}}


def promote(scene: Scene, name: str, snapshot: str, made: int, ended: int = 0) -> None:
    """A run that has succeeded at version ``ended``, or has not; what it says was deployed meanwhile."""
    item = thing("PromotionRun", HOME, name, f"u-{name}")
    item["metadata"] |= {"creationTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": str(made)}
    item["spec"] = {"application": "shop", "snapshot": snapshot, "manualPromotion": {"targetEnvironment": "dev"}}
    scene.put(name, item)
    show_synced(scene, build(scene, snapshot, branch=snapshot), made + 1)
    status = {"state": "Complete" if ended else "Active", "completionResult": "Success" if ended else None}
    steps = [{"environmentName": "dev", "status": "Success" if ended else "In Progress"}]
    scene.objects[name] = copy.deepcopy(item) | {"status": status | {"environmentStatus": steps}}
    scene.objects[name]["metadata"]["resourceVersion"] = str(ended or made + 1)


def give(scene: Scene, snapshot: str) -> None:
    """The binding has it."""
    scene.objects["dev-a"] = copy.deepcopy(scene.objects["dev-a"])
    scene.objects["dev-a"]["spec"]["snapshot"] = snapshot


def wrong(scene: Scene) -> list[str]:
    """What is said of bindings' snapshots."""
    return [each.what for each in scene.judged() if each.subject == SUBJECT]


@pytest.fixture
def scene() -> Scene:
    """What is settled, and a binding."""
    scene = settled()
    scene.put("dev-a", binding())
    for name in ("one", "two", "three"):
        spec = {"application": "shop", "components": []}
        scene.put(name, thing("Snapshot", HOME, name, f"u-{name}") | {"spec": spec})
    return scene


def decided(scene: Scene) -> int:
    return scene.judgement().decided_bindings


@pytest.mark.parametrize(("snapshot", "is_right"), [("one", True), ("two", False)])
def test_binding_when_nobody_promotes_to_it_then_it_has_what_its_user_wrote(
    scene: Scene, snapshot: str, *, is_right: bool
) -> None:
    give(scene, snapshot)
    assert wrong(scene) == ([] if is_right else ["its snapshot is two, not one"])
    assert decided(scene) == 0


@pytest.mark.parametrize(("snapshot", "is_right"), [("one", False), ("two", False), ("three", True)])
def test_binding_when_promotions_have_succeeded_since_then_it_has_what_the_last_one_brought(
    scene: Scene, snapshot: str, *, is_right: bool
) -> None:
    """As of a planner that tells a success and leaves the binding, or takes up again what was over."""
    promote(scene, "p0", "two", 60, 70)
    promote(scene, "p1", "three", 75, 80)
    give(scene, snapshot)
    assert wrong(scene) == ([] if is_right else [f"its snapshot is {snapshot}, not three"])
    assert decided(scene) == 1


@pytest.mark.parametrize(("snapshot", "is_right"), [("one", True), ("two", False)])
def test_binding_when_its_user_has_changed_it_after_that_then_it_has_what_he_wrote(
    scene: Scene, snapshot: str, *, is_right: bool
) -> None:
    promote(scene, "p0", "two", 20, 40)
    give(scene, snapshot)
    assert wrong(scene) == ([] if is_right else ["its snapshot is two, not one"])


@pytest.mark.parametrize("snapshot", ["one", "two"])
def test_binding_when_its_user_has_changed_it_meanwhile_then_either_is_right(scene: Scene, snapshot: str) -> None:
    promote(scene, "p0", "two", WRITTEN - 10, WRITTEN + 10)
    give(scene, snapshot)
    assert wrong(scene) == []
    give(scene, "three")
    assert wrong(scene) == ["its snapshot is three, not one or two"]


@pytest.mark.parametrize("is_deleted", [False, True])
def test_binding_when_a_promotion_had_to_fail_then_it_has_not_what_that_would_have_brought(
    scene: Scene, *, is_deleted: bool
) -> None:
    spec = {"application": "blog", "components": []}
    scene.put("foreign", thing("Snapshot", HOME, "foreign", "u-foreign") | {"spec": spec})
    promote(scene, "p0", "foreign", 60)
    if is_deleted:
        scene.remove("p0")
    give(scene, "foreign")
    assert wrong(scene) == ["its snapshot is foreign, not one"]


def test_binding_when_a_later_promotion_was_deleted_then_it_may_have_what_that_brought(scene: Scene) -> None:
    promote(scene, "p0", "two", 160, 170)
    promote(scene, "p1", "three", 180)
    scene.remove("p1")
    give(scene, "three")
    assert wrong(scene) == []
    promote(scene, "p2", "two", 190, 195)
    assert wrong(scene) == ["its snapshot is three, not two"]


@pytest.mark.parametrize(("snapshot", "is_right"), [("one", False), ("two", True), ("three", True)])
def test_binding_when_the_promotion_that_was_asked_for_last_ended_first_then_it_may_have_what_either_brought(
    scene: Scene, snapshot: str, *, is_right: bool
) -> None:
    promote(scene, "p0", "two", 60, 80)
    promote(scene, "p1", "three", 65, 70)
    give(scene, snapshot)
    assert bool(wrong(scene)) is not is_right


def test_binding_when_an_older_one_was_in_force_during_the_promotion_then_that_decides_nothing(scene: Scene) -> None:
    scene.put("dev-0", binding("dev-0", created_at="2025-01-01T00:00:00Z"))
    promote(scene, "p0", "two", 60, 70)
    scene.remove("dev-0")
    give(scene, "one")
    assert (wrong(scene), decided(scene)) == ([], 0)
