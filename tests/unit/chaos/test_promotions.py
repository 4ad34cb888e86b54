"""The checker sees which promotions have succeeded that must, and takes no failure for granted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from chaos.record import WrongClock
from services.common.kubernetes import Manifest
from tests.unit.chaos.scene import HOME, Scene, settled, thing

BEGAN = "2026-01-01T00:00:00+00:00"
RUN = f"PromotionRun {HOME}/p0"
CHAIN = ("dev", "stage", "prod")


def run(
    name: str,
    state: str,
    result: str = "",
    steps: Sequence[str] = ("dev",),
    *,
    automated: bool = False,
    seconds: int = 5,
) -> Manifest:
    """One that has got so far, and ended after so many seconds; in its last environment if it has failed."""
    item = thing("PromotionRun", HOME, name, f"u-{name}")
    ended = datetime.fromisoformat(BEGAN) + timedelta(seconds=seconds)
    item["metadata"] |= {"creationTimestamp": BEGAN, "managedFields": [{"time": ended.isoformat()}]}
    where = (
        {"automatedPromotion": {"initialEnvironment": "dev"}}
        if automated
        else {"manualPromotion": {"targetEnvironment": "dev"}}
    )
    shown = [{"environmentName": each, "status": "Success"} for each in steps]
    if result == "Failure":
        shown[-1]["status"] = "Failed"
    return item | {
        "spec": {"application": "shop", "snapshot": "one"} | where,
        "status": {"state": state, "completionResult": result or None, "environmentStatus": shown},
    }


def environment(name: str, parent: str = "") -> Manifest:
    spec: dict[str, Any] = {"displayName": name, "deploymentStrategy": "AppStudioAutomated" if parent else "Manual"}
    return thing("Environment", HOME, name, f"u-{name}") | {
        "spec": spec | ({"parentEnvironment": parent} if parent else {})
    }


@pytest.fixture
def scene() -> Scene:
    """What is settled, three environments, one after the other, and a snapshot."""
    scene = settled()
    for name, parent in zip(CHAIN, ("", *CHAIN), strict=False):
        scene.put(name, environment(name, parent))
    spec = {"application": "shop", "components": []}
    scene.put("snapshot", thing("Snapshot", HOME, "one", "u-one") | {"spec": spec})
    return scene


def told(scene: Scene) -> set[tuple[str, str]]:
    return {(each.sort, each.subject) for each in scene.judged()}


@pytest.mark.parametrize(
    ("promotion", "is_right"),
    [
        pytest.param(run("p0", "Complete", "Success"), True, id="success"),
        pytest.param(run("p0", "Complete", "Success", CHAIN, automated=True), True, id="success everywhere"),
        pytest.param(run("p0", "Complete", "Success", CHAIN[:2], automated=True), False, id="one left out"),
        pytest.param(run("p0", "Complete", "Success", ["dev", "prod", "stage"], automated=True), False, id="order"),
        pytest.param(run("p0", "Complete", "Success", CHAIN), False, id="too far"),
        pytest.param(run("p0", "Active"), False, id="unfinished"),
        pytest.param(run("p0", "Waiting"), False, id="not begun"),
        pytest.param(run("p0", "Complete", "Failure"), False, id="failure"),
        pytest.param(run("p0", "Complete", "Failure", seconds=599), False, id="failure too early"),
        pytest.param(run("p0", "Complete", "Failure", seconds=600), True, id="failure in time"),
    ],
)
def test_promotion_when_it_has_ended_then_it_has_succeeded_everywhere_or_had_its_time(
    scene: Scene, promotion: Manifest, is_right: bool
) -> None:
    scene.put("promotion", promotion)
    assert told(scene) == (set() if is_right else {("status", RUN)})


@pytest.mark.parametrize(
    ("process", "seconds", "explains"),
    [("planner-1", 3600, True), ("planner-2", -3600, True), ("planner-1", 60, False), ("watcher-1", 3600, False)],
)
def test_failure_when_a_clock_was_wrong_meanwhile_then_a_planners_explains_it_if_that_was_by_enough(
    scene: Scene, process: str, seconds: float, explains: bool
) -> None:
    began = datetime.fromisoformat(BEGAN)
    scene.put("promotion", run("p0", "Complete", "Failure"))
    scene.record.wrong_clocks.append(WrongClock(process, seconds, began + timedelta(minutes=1), began))
    assert told(scene) == {("status", RUN)}
    scene.record.wrong_clocks.append(WrongClock(process, seconds, began, began + timedelta(seconds=1)))
    assert told(scene) == (set() if explains else {("status", RUN)})


def test_promotion_when_its_snapshot_was_deleted_then_it_may_fail(scene: Scene) -> None:
    scene.put("promotion", run("p0", "Complete", "Failure"))
    scene.record.deleted.add(("Snapshot", HOME, "one"))
    assert scene.judged() == []


def test_promotion_when_its_snapshot_is_gone_then_it_says_so_and_others_wait_for_it(scene: Scene) -> None:
    scene.remove("snapshot")
    held_up, waiting = run("p0", "Active"), run("p1", "Waiting")
    waiting["spec"]["snapshot"] = "two"
    scene.put("promotion", held_up)
    scene.put("waiting", waiting)
    scene.put("other", thing("Snapshot", HOME, "two", "u-two") | {"spec": {"application": "shop", "components": []}})
    assert told(scene) == {("status", RUN)}
    held_up["status"]["conditions"] = [{"type": "ErrorOccurred", "status": "True", "message": "it is gone"}]
    assert scene.judged() == []
    scene.remove("promotion")
    assert told(scene) == {("status", f"PromotionRun {HOME}/p1")}
